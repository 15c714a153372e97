import { once } from 'node:events'
import { type TestRedis, startTestRedis } from '@postern/local-stack/testing'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fakeClocks } from '../../test/builders.ts'
import { createFailedAttempts } from './failed-attempts.ts'
import { createTokenSource } from './token-source.ts'

let server: TestRedis
let redis: Redis
let operator: Redis

beforeAll(async () => {
  server = await startTestRedis()
  operator = new Redis(server.url)
  redis = new Redis(server.urls.gateway, {
    enableReadyCheck: false,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
  })
  await once(redis, 'ready')
})

afterAll(async () => {
  redis?.disconnect()
  operator?.disconnect()
  await server?.stop()
})

describe('tokens that Redis counts', () => {
  test('are granted once, even to concurrent requests', async () => {
    const source = createTokenSource(redis)
    const leases = await Promise.all(Array.from({ length: 40 }, async () => await source.lease('{t}:one', 100, 7)))
    // The answers may straddle the end of a window; then twice the limit is right.
    const windows = new Set(leases.map(({ windowLeftMs }) => windowLeftMs > 30_000)).size
    expect(leases.reduce((sum, { granted }) => sum + granted, 0)).toBe(100 * windows)
    expect(leases.at(-1)).toMatchObject({ granted: 0, left: 0 })
  })

  test('end with their window, and so does the counter', async () => {
    const { windowLeftMs } = await createTokenSource(redis).lease('{t}:two', 10, 1)
    expect(windowLeftMs).toBeGreaterThan(0)
    expect(windowLeftMs).toBeLessThanOrEqual(60_000)
    const [key = ''] = await operator.keys('postern:rate:{t}:two:*')
    expect(await operator.pttl(key)).toBeGreaterThan(60_000)
    expect(await operator.pttl(key)).toBeLessThanOrEqual(120_000)
  })
})

describe('failed attempts of an address', () => {
  test('are counted over all gateways, and stop its look-ups until the minute is over', async () => {
    const clocks = fakeClocks()
    const [one, other] = [1, 2].map(() => createFailedAttempts({ redis, clocks, limit: 3, kind: 'key' }))
    for (let times = 0; times < 3; times += 1) one?.note('192.0.2.1')
    expect(one?.waitSeconds('192.0.2.1')).toBe(0)
    await redis.ping()
    other?.note('192.0.2.1')
    await expect.poll(() => other?.waitSeconds('192.0.2.1')).toBe(60)
    expect(other?.waitSeconds('192.0.2.2')).toBe(0)
    // Failures of another kind are counted separately in Redis.
    const tokens = createFailedAttempts({ redis, clocks, limit: 3, kind: 'token' })
    tokens.note('192.0.2.1')
    await redis.ping()
    expect(tokens.waitSeconds('192.0.2.1')).toBe(0)
    clocks.pass(59_001)
    expect(other?.waitSeconds('192.0.2.1')).toBe(1)
    clocks.pass(999)
    expect(other?.waitSeconds('192.0.2.1')).toBe(0)
  })

  test('are counted together for one IPv6 network, because one client can use all its addresses', async () => {
    const clocks = fakeClocks()
    const [one, other] = [1, 2].map(() => createFailedAttempts({ redis, clocks, limit: 3, kind: 'key' }))
    for (let host = 1; host <= 4; host += 1) one?.note(`2001:db8:0:1::${host}`)
    expect(one?.waitSeconds('2001:db8:0:1:ffff::9')).toBe(60)
    expect(one?.waitSeconds('2001:db8:0:2::1')).toBe(0)
    await redis.ping()
    other?.note('2001:db8:0:1::5')
    await expect.poll(() => other?.waitSeconds('2001:db8:0:1::6')).toBe(60)
  })

  test('are counted by each gateway separately while Redis is unavailable', () => {
    const away = new Redis({ lazyConnect: true })
    const attempts = createFailedAttempts({ redis: away, clocks: fakeClocks(), limit: 1, kind: 'key' })
    attempts.note('192.0.2.1')
    expect(attempts.waitSeconds('192.0.2.1')).toBe(0)
    attempts.note('192.0.2.1')
    expect(attempts.waitSeconds('192.0.2.1')).toBe(60)
  })
})
