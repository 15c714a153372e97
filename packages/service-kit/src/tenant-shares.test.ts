import { expect, test } from 'vitest'
import { ShareExceededError, createTenantShares } from './tenant-shares.ts'

const kibibyte = 1024
const limits = { maxRequests: 3, maxLargeAnswers: 2, maxBytes: 4096 * kibibyte }

test('one tenant may hold three quarters of all while it is alone, and less beside others', () => {
  const shares = createTenantShares(limits, () => undefined)
  const alone = shares.enter('a')
  expect(alone.reserve(3072 * kibibyte)).toBe(true)
  expect(alone.reserve(kibibyte)).toBe(false)
  const neighbour = shares.enter('b')
  expect(neighbour.reserve(768 * kibibyte)).toBe(true)
  expect(neighbour.reserve(kibibyte)).toBe(false)
})

test('a small request is served however much its tenant holds', () => {
  const shares = createTenantShares(limits, () => undefined)
  expect(shares.enter('a').reserve(3072 * kibibyte)).toBe(true)
  const small = shares.enter('a')
  expect(small.reserve(64 * kibibyte)).toBe(true)
  expect(small.reserve(1)).toBe(false)
})

test('a request gives back what it holds: its rows when they were passed on, and all when it has ended', () => {
  const shares = createTenantShares(limits, () => undefined)
  const request = shares.enter('a')
  request.hold(100)
  request.reserve(1000)
  expect(shares.heldBytes).toBe(1100)
  request.releaseRows()
  expect(shares.heldBytes).toBe(100)
  request.leave()
  expect(shares.heldBytes).toBe(0)
})

test('rows that are expected are reserved once, and a second such request of the tenant is refused before it reads', () => {
  const shares = createTenantShares(limits, () => undefined)
  const first = shares.enter('a')
  first.expect(2048 * kibibyte)
  expect(first.reserve(1024 * kibibyte)).toBe(true)
  expect(shares.heldBytes).toBe(2048 * kibibyte)
  const second = shares.enter('a')
  expect(() => second.expect(2048 * kibibyte)).toThrow(ShareExceededError)
  first.leave()
  second.expect(2048 * kibibyte)
  expect(second.reserve(2049 * kibibyte)).toBe(true)
  second.releaseRows()
  expect(shares.heldBytes).toBe(0)
})

test('a tenant that holds nothing is served even if more is expected than it may hold', () => {
  const shares = createTenantShares(limits, () => undefined)
  const request = shares.enter('a')
  request.expect(limits.maxBytes)
  expect(request.reserve(1024 * kibibyte)).toBe(true)
  expect(request.rowBytes).toBe(1024 * kibibyte)
})

test('a tenant with as many requests as it may have is told to wait, and others are served', () => {
  let refused = 0
  const shares = createTenantShares(limits, () => (refused += 1))
  const [first] = [shares.enter('a'), shares.enter('a'), shares.enter('a')]
  expect(() => shares.enter('a')).toThrow(ShareExceededError)
  expect(refused).toBe(1)
  shares.enter('b')
  first.leave()
  shares.enter('a')
})

test('what would be held beyond the share is refused with 429 and a time to come back', () => {
  const shares = createTenantShares(limits, () => undefined)
  const request = shares.enter('a')
  const error = (() => {
    try {
      return request.hold(limits.maxBytes)
    } catch (thrown) {
      return thrown
    }
  })()
  expect(error).toMatchObject({ code: 'too_many_requests', options: { retryAfterSeconds: 1 } })
})

test('a tenant with as many exports as it may have is told to wait, and its other requests and other tenants are served', () => {
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
