import { type Route, routeTable } from '@postern/contracts'
import type { Match } from '@postern/service-kit/access'
import { expect, test } from 'vitest'
import { exchangeOf, fakeClocks, keyRecord, personPrincipal } from '../test/builders.ts'
import { keyPrincipal } from './authenticate/principal.ts'
import { createAuthorizeRequest } from './authorize-request.ts'
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

test('a rejection for a missing scope challenges for it, and links to the operation in the reference', () => {
  const { authorize } = setUp()
  const exchange = exchangeOf({ match: routeNamed('findings.create'), basePath: '/postern' })
  expect(authorize(exchange, principal)?.answer).toMatchObject({
    required_scope: 'write:findings',
    granted_scopes: ['read:findings'],
    documentation: '/postern/docs#tag/findings/POST/api/v1/findings',
    headers: ['www-authenticate', 'ApiKey realm="postern", error="insufficient_scope", scope="write:findings"'],
  })
})

test('each scope that suffices has its own challenge, under the scheme of the credentials', () => {
  const { authorize } = setUp()
  const { tenantId, tenantName, tenantVersion, tenantLimit, readAt, expiresAt } = keyRecord()
  const person = personPrincipal(
    { subject: 'ada', name: 'Ada', roles: [], expiresAt },
    { tenantId, tenantName, tenantStatus: 'active', tenantVersion, tenantLimit, readAt },
  )
  const challenge = ['read:findings', 'read:universe'].map(
    (scope) => `Bearer realm="postern", error="insufficient_scope", scope="${scope}"`,
  )
  expect(authorize(exchangeOf({ match: routeNamed('findings.list-changes') }), person)?.answer).toMatchObject({
    headers: ['www-authenticate', challenge.join(', ')],
  })
})

test('a rejection for a missing role has no challenge, because no key can meet it', () => {
  const { authorize } = setUp()
  const refused = authorize(exchangeOf({ match: routeNamed('keys.list') }), principal)
  expect(refused).toMatchObject({
    code: 'role_required',
    answer: { headers: [], documentation: '/docs#tag/api-keys/GET/api/v1/api-keys' },
  })
})

const descriptions = (basePath: string): string[] => [
  'link',
  `<${basePath}/api/v1/openapi.json>; rel="service-desc", <${basePath}/docs>; rel="service-doc"`,
]

test.each([
  ['/api/v1/nothing-like-it', 'There is no such path. All paths are in /postern/api/v1/openapi.json.'],
  [
    '/api/v1/finding',
    'There is no such path. Did you mean /postern/api/v1/findings? All paths are in /postern/api/v1/openapi.json.',
  ],
  ['/api/v1/entities/ext:a/b', 'There is no such path. Write an external id with a slash as `ext64:` and base64url.'],
  ['/api/v1/entities/ext:/b', 'There is no such path. Write an external id with a slash as `ext64:` and base64url.'],
])('the answer for the missing path %s says where the paths are', (target, detail) => {
  const exchange = exchangeOf({ match: { kind: 'none' }, target, basePath: '/postern' })
  expect(setUp().authorize(exchange, principal)?.answer).toEqual({ detail, headers: descriptions('/postern') })
})

test('the answer for a missing path takes an external id only for one if a slash follows', () => {
  const exchange = exchangeOf({ match: { kind: 'none' }, target: '/api/v1/nothing-like-it/of/ext:a' })
  expect(setUp().authorize(exchange, principal)?.answer.detail).not.toContain('ext64:')
})

test.each([
  ['POST', '/api/v1/action-plans', ' Create with POST /postern/api/v1/findings/{id}/action-plans.'],
  ['POST', '/api/v1/changes', ''],
  ['PUT', '/api/v1/action-plans', ''],
])('the answer for another method, %s %s, names the methods, and where to create', (method, target, creation) => {
  const exchange = exchangeOf({ match: { kind: 'method', allowed: ['GET', 'HEAD'] }, target, basePath: '/postern' })
  exchange.request.method = method
  expect(setUp().authorize(exchange, principal)?.answer).toEqual({
    detail: `This resource supports GET, HEAD.${creation}`,
    headers: ['allow', 'GET, HEAD'],
  })
})

test('a missing scope is challenged for under Bearer where identity providers send keys', () => {
  const exchange = exchangeOf({ match: routeNamed('sync.scim-list-users'), target: '/scim/v2/Users' })
  expect(setUp().authorize(exchange, principal)?.answer.headers).toEqual([
    'www-authenticate',
    'Bearer realm="postern", error="insufficient_scope", scope="admin:sync"',
  ])
})

test('a service account is told what it may do, without a challenge, because no scope helps', () => {
  const { tenantId, tenantName, tenantVersion, tenantLimit, readAt, expiresAt } = keyRecord()
  const tenant = { tenantId, tenantName, tenantStatus: 'active', tenantVersion, tenantLimit, readAt } as const
  const person = personPrincipal({ subject: 'terraform', name: 'terraform', roles: ['admin'], expiresAt }, tenant)
  const { authorize, recorded } = setUp()
  const exchange = exchangeOf({ match: routeNamed('sync.create-webhook') })
  expect(authorize(exchange, { ...person, kind: 'machine' })).toMatchObject({
    code: 'role_required',
    answer: { detail: 'Service accounts can only administer keys. Use an API key for data.', headers: [] },
  })
  expect(recorded).toEqual([
    ['denied', 'terraform', '192.0.2.1', 'scope'],
    ['used', 'terraform', '192.0.2.1', undefined],
  ])
  expect(authorize(exchange, person)).toBeUndefined()
})
