import { expect, test } from 'vitest'
import { fakeClocks } from '../../test/builders.ts'
import { createPublicRequests } from './public-requests.ts'

test('an address with too many public requests must wait until its minute is over; others need not', () => {
  const clocks = fakeClocks()
  const requests = createPublicRequests({ clocks, limit: 3 })
  expect([1, 2, 3, 4].map(() => requests.count('192.0.2.1'))).toEqual([0, 0, 0, 60])
  expect(requests.count('192.0.2.2')).toBe(0)
  clocks.pass(59_500)
  expect(requests.count('192.0.2.1')).toBe(1)
  clocks.pass(500)
  expect(requests.count('192.0.2.1')).toBe(0)
})

test('an expensive request counts as several', () => {
  const requests = createPublicRequests({ clocks: fakeClocks(), limit: 40 })
  expect([20, 20, 1].map((cost) => requests.count('192.0.2.1', cost))).toEqual([0, 0, 60])
})

test('the addresses of one IPv6 network count as one, because one client can use them all', () => {
  const requests = createPublicRequests({ clocks: fakeClocks(), limit: 3 })
  const waits = [1, 2, 3, 4].map((host) => requests.count(`2001:db8:0:1::${host}`))
  expect(waits).toEqual([0, 0, 0, 60])
  expect(requests.count('2001:db8:0:2::1')).toBe(0)
})
