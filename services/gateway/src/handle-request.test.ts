import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { keyRecord } from '../test/builders.ts'
import { keyPrincipal } from './authenticate/principal.ts'
import { type Exchange, isTakenNoMore } from './exchange.ts'
import type { Match } from './authorize/route-match.ts'
import { type Steps, createRequestHandler } from './handle-request.ts'
import type { Bucket } from './limit/rate-limit.ts'

function unasked(): never {
  throw new Error('not asked for')
}

function setUp(given: Partial<Steps>) {
  const crashed: [string, unknown][] = []
  const gone: string[] = []
  const handle = createRequestHandler({
    match: () => ({ kind: 'none' }),
    authenticate: unasked,
    rateLimit: { limitsOf: unasked, tryTake: unasked, take: unasked, limitShare: unasked },
    publicRequests: { take: () => 0 },
    unreadableRequests: { take: () => 0 },
    callerHeaders: () => [],
    serve: unasked,
    clientAddress: () => '192.0.2.1',
    requestId: (id) => id ?? 'new',
    maxUrlBytes: 1000,
    clientTimeoutMs: 1000,
    openRequests: { add: unasked, remove: unasked },
    lookupBudget: { reserve: () => true, release: () => undefined },
    pressure: { isLate: false },
    isDraining: () => false,
    onRefusal: unasked,
    onUnserved: unasked,
    onDenied: unasked,
    onGone: ({ requestId }: Exchange) => void gone.push(requestId),
    onCrash: ({ requestId }: Exchange, error: unknown) => void crashed.push([requestId, error]),
    trace: undefined,
    ...given,
  })
  const request = new IncomingMessage(new Socket())
  Object.assign(request, { method: 'GET', url: '/api/v1/findings', httpVersionMajor: 1, httpVersionMinor: 1 })
  request.rawHeaders.push('Host', 'a', 'X-Request-Id', 'its-own')
  const response = new ServerResponse(request)
  handle(request, response)
  return { request, response, crashed, gone }
}

test('a request on which the gateway fails is told of with what is known of it', () => {
  const error = new Error('a fault of ours')
  const authenticate = (): never => {
    throw error
  }
  expect(setUp({ authenticate }).crashed).toEqual([['its-own', error]])
})

test('a request of which nobody knows from where is not looked at, and is told of as of a client that went away', () => {
  const { request, crashed, gone } = setUp({ clientAddress: () => '' })
  expect([crashed, gone, request.socket.destroyed]).toEqual([[], ['its-own'], true])
})

test('whoever asks too often is refused, and was there all the same', () => {
  const principal = keyPrincipal(keyRecord())
  const bucket = { kind: 'api_key', tenantId: principal.tenantId, id: principal.id, limit: 1 } as Bucket
  const codes: string[] = []
  const seen: unknown[] = []
  setUp({
    authenticate: (exchange, { limited }) => {
      exchange.principal = principal
      limited(exchange, { kind: 'refused', bucket, retryAfterSeconds: 3 })
    },
    onRefusal: (_exchange, code) => void codes.push(code),
    onUnserved: ({ id }, address) => void seen.push([id, address]),
  })
  expect([codes, seen]).toEqual([['too_many_requests'], [[principal.id, '192.0.2.1']]])
})

test('whoever asks too often for what needs no key is refused, and the connection with it', () => {
  const codes: string[] = []
  const route = { access: { kind: 'public' } } as Extract<Match, { kind: 'route' }>['route']
  const { request, response } = setUp({
    match: () => ({ kind: 'route', route, params: {} }),
    publicRequests: { take: (address) => (address === '192.0.2.1' ? 7 : 0) },
    onRefusal: (_exchange, code) => void codes.push(code),
  })
  expect(codes).toEqual(['too_many_requests'])
  expect([response.statusCode, isTakenNoMore(request)]).toEqual([429, true])
})

test('whoever asks too often without credentials is refused likewise, whatever is asked for', () => {
  const codes: string[] = []
  const ask = (waitSeconds: number) =>
    setUp({
      authenticate: (exchange, { unreadable }) => unreadable(exchange, 'missing_credentials', {}),
      unreadableRequests: { take: () => waitSeconds },
      onRefusal: (_exchange, code) => void codes.push(code),
    })
  expect([ask(0).response.statusCode, ask(7).response.statusCode]).toEqual([401, 429])
  expect(codes).toEqual(['missing_credentials', 'too_many_requests'])
})

test('a request that would wait for a look-up gets 503 if too much waits already', () => {
  const codes: string[] = []
  let waits: boolean | undefined
  const { response } = setUp({
    lookupBudget: { reserve: () => false, release: () => undefined },
    authenticate: (exchange, { mayWait }) => {
      waits = mayWait(exchange)
    },
    onRefusal: (_exchange, code) => void codes.push(code),
  })
  expect([waits, response.statusCode, codes]).toEqual([false, 503, ['overloaded']])
})
