import { type Route, routeTable } from '@postern/contracts'
import { expect, test } from 'vitest'
import { exchangeOf, fakeClocks, keyRecord } from '../test/builders.ts'
import { keyPrincipal } from './authenticate/principal.ts'
import { createAuthorizeRequest } from './authorize-request.ts'
import type { Match } from './authorize/route-match.ts'
import { createRateLimit } from './limit/rate-limit.ts'

const source = { isHealthy: () => true, lease: async () => ({ granted: 0, left: 0, windowLeftMs: 0 }) }

function setUp() {
  const recorded: unknown[] = []
  const authorize = createAuthorizeRequest({
    rateLimit: createRateLimit({ source, clocks: fakeClocks(), gateways: () => 1 }),
    usage: {
      used: ({ id }, address, route) => void recorded.push(['used', id, address, route]),
      denied: ({ id }, address, reason) => void recorded.push(['denied', id, address, reason]),
    },
  })
  return { authorize, recorded }
}

function routeNamed(id: string): Extract<Match, { kind: 'route' }> {
  const route: Route | undefined = routeTable.find((one) => one.id === id)
  if (route === undefined) throw new Error(`no route ${id}`)
  return { kind: 'route', route, params: {} }
}

const principal = keyPrincipal(keyRecord({ scopes: ['read:findings'] }))
const used = ['used', principal.id, '192.0.2.1', undefined]

test.each<[string, Match, string, unknown[]]>([
  ['a missing route', { kind: 'none' }, 'not_found', [used]],
  ['another method', { kind: 'method', allowed: ['GET', 'HEAD'] }, 'method_not_allowed', [used]],
  [
    'a scope that it lacks',
    routeNamed('findings.create'),
    'insufficient_scope',
    [['denied', principal.id, '192.0.2.1', 'scope'], used],
  ],
])('a request for %s is rejected with the caller’s limits, and recorded', (_what, match, code, expected) => {
  const { authorize, recorded } = setUp()
  const exchange = exchangeOf({ match })
  expect(authorize(exchange, principal)).toMatchObject({ kind: 'refusal', code })
  expect(exchange.limits).toBeDefined()
  expect(recorded).toEqual(expected)
})

test('a caller with the scope of the route is accepted, and no use is recorded yet', () => {
  const { authorize, recorded } = setUp()
  expect(authorize(exchangeOf({ match: routeNamed('findings.list') }), principal)).toBeUndefined()
  expect(recorded).toEqual([])
})

test('only a public route is served without a caller', () => {
  const { authorize } = setUp()
  const open = routeTable.find(({ access }) => access.kind === 'public')
  if (open === undefined) throw new Error('no public route')
  expect(authorize(exchangeOf({ match: routeNamed(open.id) }), undefined)).toBeUndefined()
  for (const match of [routeNamed('findings.list'), routeNamed('gateway.whoami'), { kind: 'none' } as const]) {
    expect(() => authorize(exchangeOf({ match }), undefined)).toThrow('without a caller')
  }
})
