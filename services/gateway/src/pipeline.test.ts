import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { routeTable } from '@postern/contracts'
import { expect, test } from 'vitest'
import { keyRecord, settle } from '../test/builders.ts'
import { keyPrincipal } from './authenticate/principal.ts'
import type { Exchange } from './exchange.ts'
import { type MatchParts, createMatchRequest } from './match-request.ts'
import { type Pipeline, createPipeline } from './pipeline.ts'
import { refusal } from './refusal.ts'

const principal = keyPrincipal(keyRecord())
const revoked = refusal('key_revoked')

function begin(given: Partial<Pipeline> = {}, head: Partial<MatchParts> = {}, target = '/api/v1/findings') {
  const calls: unknown[] = []
  let exchange: Exchange | undefined
  const match = createMatchRequest({
    match: () => ({ kind: 'none' }),
    clientAddress: () => '192.0.2.1',
    requestId: (id) => id ?? 'new',
    maxUrlBytes: 1000,
    basePath: '',
    pressure: { isLate: false },
    trace: undefined,
    ...head,
  })
  const handle = createPipeline({
    match: (...request) => (exchange = match(...request)),
    authenticate: () => {
      calls.push('authenticate')
      return principal
    },
    authorize: () => undefined,
    limit: () => undefined,
    endWait: () => undefined,
    awaitContent: () => undefined,
    forward: () => void calls.push('forward'),
    refuse: (_exchange, { code }) => void calls.push(code),
    onGone: () => void calls.push('gone'),
    onCrash: ({ requestId }, error) => void calls.push([requestId, error]),
    ...given,
  })
  const request = new IncomingMessage(new Socket())
  Object.assign(request, { method: 'GET', url: target, httpVersionMajor: 1, httpVersionMinor: 1 })
  request.rawHeaders.push('Host', 'a', 'X-Request-Id', 'its-own')
  const response = new ServerResponse(request)
  handle(request, response)
  return { calls, request, response, exchange }
}

test.each([
  [
    'throws',
    () => {
      throw new Error('a fault of ours')
    },
  ],
  [
    'rejects',
    async () => {
      throw new Error('a fault of ours')
    },
  ],
])(
  'a request whose authentication %s is reported under its request id and not forwarded',
  async (_how, authenticate) => {
    const { calls } = begin({ authenticate })
    await settle()
    expect(calls).toEqual([['its-own', new Error('a fault of ours')]])
  },
)

test('a request without a client address is not carried out, and its connection is destroyed', () => {
  const { calls, request } = begin({}, { clientAddress: () => '' })
  expect([calls, request.socket.destroyed]).toEqual([['gone'], true])
})

test('a request whose head cannot be served is refused before its caller is authenticated', () => {
  expect(begin({}, {}, '/api/v1//findings').calls).toEqual(['non_canonical_path'])
  expect(begin({}, { pressure: { isLate: true } }).calls).toEqual(['overloaded'])
})

test.each<[string, Partial<Pipeline>]>([
  ['authentication', { authenticate: () => revoked }],
  ['a look-up', { authenticate: async () => revoked }],
  ['authorization', { authorize: () => revoked }],
  ['the limit', { limit: () => revoked }],
  ['the wait for tokens', { limit: async () => revoked }],
  ['the wait for its body', { awaitContent: async () => revoked }],
])('a request that %s refuses is answered once and not forwarded', async (_step, given) => {
  const { calls } = begin(given)
  await settle()
  expect(calls.filter((call) => call !== 'authenticate')).toEqual(['key_revoked'])
})

test('a request that needs no wait is forwarded in the same tick', () => {
  expect(begin().calls).toEqual(['authenticate', 'forward'])
})

test.each(['limit', 'awaitContent'] as const)(
  'a key that is revoked while its request waits (%s) is refused',
  async (step) => {
    const wait = Promise.withResolvers<undefined>()
    let isRevoked = false
    const { calls } = begin({ authenticate: () => (isRevoked ? revoked : principal), [step]: () => wait.promise })
    await settle()
    isRevoked = true
    wait.resolve(undefined)
    await settle()
    expect(calls).toEqual(['key_revoked'])
  },
)

test('a caller that keeps its access while its request waits is authenticated again and served', async () => {
  const { calls } = begin({ limit: async () => undefined, awaitContent: async () => undefined })
  await settle()
  expect(calls).toEqual(['authenticate', 'authenticate', 'authenticate', 'forward'])
})

test('a request no longer counts as waiting before the wait for its body, and before it is forwarded', async () => {
  const order: string[] = []
  begin({
    limit: async () => void order.push('limit'),
    endWait: () => void order.push('endWait'),
    awaitContent: async () => void order.push('awaitContent'),
    forward: () => void order.push('forward'),
  })
  await settle()
  expect(order).toEqual(['limit', 'endWait', 'awaitContent', 'endWait', 'forward'])
})

test('a request whose client disconnects while its key is looked up is not carried out', async () => {
  const lookup = Promise.withResolvers<typeof principal>()
  const { calls, response } = begin({ authenticate: () => lookup.promise })
  response.destroy()
  lookup.resolve(principal)
  await settle()
  expect(calls).toEqual(['gone'])
})

test('a request whose body the route does not take is refused instead of forwarded', () => {
  const { calls } = begin({ forward: () => refusal('bad_request') })
  expect(calls).toEqual(['authenticate', 'bad_request'])
})

test('a public route is served without a caller', () => {
  const route = routeTable.find(({ access }) => access.kind === 'public')
  if (route === undefined) throw new Error('no public route')
  const callers: unknown[] = []
  const { calls } = begin(
    {
      authorize: (_exchange, caller) => {
        callers.push(caller)
        return undefined
      },
    },
    { match: () => ({ kind: 'route', route, params: {} }) },
  )
  expect([calls, callers]).toEqual([['forward'], [undefined]])
})
