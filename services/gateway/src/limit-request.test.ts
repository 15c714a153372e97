import { expect, test } from 'vitest'
import { exchangeOf, fakeClocks, keyRecord } from '../test/builders.ts'
import { keyPrincipal } from './authenticate/principal.ts'
import { createLimitRequest } from './limit-request.ts'
import { createRateLimit } from './limit/rate-limit.ts'
import { refusal } from './refusal.ts'

const address = '192.0.2.1'

function setUp(given: { limit?: number; publicWait?: number; isBusy?: boolean } = {}) {
  const { limit = 100, publicWait = 0, isBusy = false } = given
  const clocks = fakeClocks()
  let left = limit
  const rateLimit = createRateLimit({
    source: {
      isHealthy: () => true,
      lease: async (_name, _limit, wanted) => {
        const granted = Math.min(left, wanted)
        left -= granted
        return { granted, left, windowLeftMs: 60_000 }
      },
    },
    clocks,
    gateways: () => 1,
  })
  const counted: string[] = []
  const used: unknown[] = []
  const limitRequest = createLimitRequest({
    rateLimit,
    publicRequests: {
      count: (of) => {
        counted.push(of)
        return publicWait
      },
    },
    usage: { used: ({ id }, of, route) => void used.push([id, of, route]) },
    reserveWait: () => (isBusy ? refusal('overloaded') : undefined),
  })
  const principal = keyPrincipal(keyRecord({ keyLimit: limit, tenantLimit: 1_000_000 }))
  return { limitRequest, principal, counted, used }
}

test('a request consumes one token', async () => {
  const { limitRequest, principal } = setUp({ limit: 1 })
  expect(await limitRequest(exchangeOf(), principal)).toBeUndefined()
  expect(await limitRequest(exchangeOf(), principal)).toMatchObject({ code: 'too_many_requests' })
})

test('a request with available tokens waits for no promise', async () => {
  const { limitRequest, principal } = setUp({ limit: 1000 })
  expect(limitRequest(exchangeOf(), principal)).toBeUndefined()
})

test('a caller over its limit is refused, and recorded as a caller', async () => {
  const { limitRequest, principal, used } = setUp({ limit: 0 })
  expect(await limitRequest(exchangeOf(), principal)).toMatchObject({ code: 'too_many_requests' })
  expect(used).toEqual([[principal.id, address, undefined]])
})

test('a request that would wait for tokens is refused if too many requests wait', async () => {
  const { limitRequest, principal, used } = setUp({ limit: 1, isBusy: true })
  expect(await limitRequest(exchangeOf(), principal)).toMatchObject({ code: 'overloaded' })
  expect(used).toEqual([])
})

test('a request for a public route is counted by its address', () => {
  const { limitRequest, counted } = setUp()
  expect(limitRequest(exchangeOf(), undefined)).toBeUndefined()
  expect(counted).toEqual([address])
})

test('an address with too many requests for public routes is rejected, and its connection ends', () => {
  const { limitRequest } = setUp({ publicWait: 7 })
  expect(limitRequest(exchangeOf(), undefined)).toMatchObject({
    code: 'too_many_requests',
    answer: { retryAfterSeconds: 7, headers: ['connection', 'close'] },
  })
})
