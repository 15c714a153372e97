import { afterEach, describe, expect, test, vi } from 'vitest'
import { ShareExceededError, createTenantShares } from './tenant-shares.ts'

afterEach(() => vi.useRealTimers())

const kibibyte = 1024
const limits = { maxRequests: 3, maxLargeAnswers: 2, maxBytes: 4096 * kibibyte }

test('one tenant may hold three quarters of everything, and less beside others', () => {
  const shares = createTenantShares(limits, () => undefined)
  const alone = shares.enter('a')
  expect(alone.reserve(3072 * kibibyte)).toBe(true)
  expect(alone.reserve(kibibyte)).toBe(false)
  const neighbour = shares.enter('b')
  expect(neighbour.reserve(768 * kibibyte)).toBe(true)
  expect(neighbour.reserve(kibibyte)).toBe(false)
})

test('a small request is served regardless of its tenant’s memory', () => {
  const shares = createTenantShares(limits, () => undefined)
  expect(shares.enter('a').reserve(3072 * kibibyte)).toBe(true)
  const small = shares.enter('a')
  expect(small.reserve(64 * kibibyte)).toBe(true)
  expect(small.reserve(1)).toBe(false)
})

test('a request releases its rows when they were sent, and everything when it ends', () => {
  const shares = createTenantShares(limits, () => undefined)
  const request = shares.enter('a')
  request.reserveBytes(100)
  request.reserve(1000)
  expect(shares.heldBytes).toBe(1100)
  request.releaseRows()
  expect(shares.heldBytes).toBe(100)
  request.leave()
  expect(shares.heldBytes).toBe(0)
})

/** Whether a request has begun to read, looked at when everything that can run has run. */
async function hasBegun(read: Promise<void>): Promise<boolean> {
  return await Promise.race([read.then(() => true), new Promise<false>((resolve) => setImmediate(resolve, false))])
}

test('expected rows are reserved once, and a second large request of the tenant waits for memory', async () => {
  const shares = createTenantShares(limits, () => undefined)
  const first = shares.enter('a')
  await first.acquireRead(() => 2048 * kibibyte)
  expect(first.reserve(1024 * kibibyte)).toBe(true)
  expect(shares.heldBytes).toBe(2048 * kibibyte)
  first.releaseRead()
  const second = shares.enter('a')
  const read = second.acquireRead(() => 2048 * kibibyte)
  expect(await hasBegun(read)).toBe(false)
  first.leave()
  await read
  expect(second.reserve(2049 * kibibyte)).toBe(true)
  second.releaseRows()
  expect(shares.heldBytes).toBe(0)
})

test('a tenant without other requests is served even if its estimate exceeds its share', async () => {
  const shares = createTenantShares(limits, () => undefined)
  const request = shares.enter('a')
  await request.acquireRead(() => limits.maxBytes)
  expect(request.reserve(1024 * kibibyte)).toBe(true)
  expect([request.rowBytes, request.rowCount]).toEqual([1024 * kibibyte, 1])
})

/** A page so large that no two are read at once. */
const large = (): number => 768 * kibibyte

describe('large pages of one tenant', () => {
  test('are read one after the other in their order, and hold up no small page and no other tenant', async () => {
    const shares = createTenantShares({ ...limits, maxRequests: 10 }, () => undefined)
    const [first, second, third] = [shares.enter('a'), shares.enter('a'), shares.enter('a')]
    await first.acquireRead(large)
    const [next, last] = [second.acquireRead(large), third.acquireRead(() => undefined)]
    await shares.enter('a').acquireRead(() => 64 * kibibyte)
    await shares.enter('b').acquireRead(large)
    expect([await hasBegun(next), await hasBegun(last)]).toEqual([false, false])
    first.releaseRead()
    await next
    expect(await hasBegun(last)).toBe(false)
    second.releaseRead()
    await last
  })

  test('are read together if they are not so large', async () => {
    const shares = createTenantShares(limits, () => undefined)
    const [first, second, third] = [shares.enter('a'), shares.enter('a'), shares.enter('a')]
    await first.acquireRead(() => 512 * kibibyte)
    await second.acquireRead(() => 512 * kibibyte)
    expect(await hasBegun(third.acquireRead(() => 512 * kibibyte))).toBe(false)
  })

  test('get 429 after waiting five seconds, and the next one takes their place', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    let refused = 0
    const shares = createTenantShares(limits, () => (refused += 1))
    const [first, second, third] = [shares.enter('a'), shares.enter('a'), shares.enter('a')]
    await first.acquireRead(() => 512 * kibibyte)
    const tooLarge = second.acquireRead(large).catch((error: unknown) => error)
    vi.advanceTimersByTime(3000)
    const fits = third.acquireRead(() => 512 * kibibyte)
    expect(await hasBegun(fits)).toBe(false)
    vi.advanceTimersByTime(2000)
    expect(await tooLarge).toBeInstanceOf(ShareExceededError)
    await fits
    expect(refused).toBe(1)
  })

  test('pause while other tenants are served, the longer the more requests wait', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const shares = createTenantShares({ ...limits, maxRequests: 5 }, () => undefined)
    const turns = Array.from({ length: 4 }, () => shares.enter('a'))
    const read = async (at: number) => await turns[at]?.acquireRead(large)
    const finish = (at: number) => {
      vi.advanceTimersByTime(100)
      turns[at]?.releaseRead()
    }
    await read(0)
    const [second, third, fourth] = [read(1), read(2), read(3)]
    finish(0)
    expect(await hasBegun(second), 'without other tenants').toBe(true)
    await shares.enter('b').acquireRead(() => 64 * kibibyte)
    finish(1)
    for (const [isAtEnd, ms] of [
      [false, 199],
      [true, 1],
    ] as const) {
      vi.advanceTimersByTime(ms)
      expect(await hasBegun(third), 'two wait').toBe(isAtEnd)
    }
    finish(2)
    vi.advanceTimersByTime(99)
    expect(await hasBegun(fourth), 'one waits').toBe(false)
    vi.advanceTimersByTime(1)
    expect(await hasBegun(fourth), 'one waits').toBe(true)
    finish(3)
    turns[0]?.leave()
    const lone = shares.enter('a').acquireRead(large)
    expect(await hasBegun(lone), 'none waited').toBe(true)
  })

  test('keep their turn until they have been read, although their clients have gone', async () => {
    const shares = createTenantShares(limits, () => undefined)
    const first = shares.enter('a')
    await first.acquireRead(large)
    first.leave()
    expect(first.reserve(kibibyte)).toBe(false)
    const next = shares.enter('a').acquireRead(large)
    expect(await hasBegun(next)).toBe(false)
    first.releaseRead()
    await next
  })

  test('are not read for a client that has gone', async () => {
    let refused = 0
    const shares = createTenantShares(limits, () => (refused += 1))
    const [first, second, third] = [shares.enter('a'), shares.enter('a'), shares.enter('a')]
    await first.acquireRead(large)
    const read = second.acquireRead(large)
    const next = third.acquireRead(large)
    second.leave()
    await expect(read).rejects.toBeInstanceOf(ShareExceededError)
    await expect(second.acquireRead(large)).rejects.toBeInstanceOf(ShareExceededError)
    first.releaseRead()
    await next
    expect(refused).toBe(0)
  })
})

test('a request whose client disconnected releases its memory', () => {
  const shares = createTenantShares(limits, () => undefined)
  const request = shares.enter('a')
  request.leave()
  expect(request.reserve(kibibyte)).toBe(true)
  expect(() => request.reserveBytes(kibibyte)).toThrow(ShareExceededError)
  expect(shares.heldBytes).toBe(0)
})

test('a tenant at its limit of requests gets 429, and others are served', () => {
  let refused = 0
  const shares = createTenantShares(limits, () => (refused += 1))
  const [first] = [shares.enter('a'), shares.enter('a'), shares.enter('a')]
  expect(() => shares.enter('a')).toThrow(ShareExceededError)
  expect(refused).toBe(1)
  shares.enter('b')
  first.leave()
  shares.enter('a')
})

test('a response beyond the share is rejected with 429 and Retry-After', () => {
  const shares = createTenantShares(limits, () => undefined)
  const request = shares.enter('a')
  const error = (() => {
    try {
      return request.reserveBytes(limits.maxBytes)
    } catch (thrown) {
      return thrown
    }
  })()
  expect(error).toMatchObject({ code: 'too_many_requests', options: { retryAfterSeconds: 1 } })
})

test('a tenant at its limit of exports gets 429 for them, and all other requests are served', () => {
  const shares = createTenantShares(limits, () => undefined)
  const [first, second, third] = [shares.enter('a'), shares.enter('a'), shares.enter('a')]
  first.enterLargeAnswer()
  first.enterLargeAnswer()
  second.enterLargeAnswer()
  expect(() => third.enterLargeAnswer()).toThrow(ShareExceededError)
  expect(third.reserve(kibibyte)).toBe(true)
  shares.enter('b').enterLargeAnswer()
  first.leave()
  third.enterLargeAnswer()
})
