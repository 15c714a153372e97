import { expect, test } from 'vitest'
import { fakeClocks } from '../../test/builders.ts'
import { createTtlCache } from './ttl-cache.ts'

test('expired values are not returned, and new values remove them', () => {
  const clocks = fakeClocks()
  const memory = createTtlCache<true>({ max: 100, ttlMs: 1000, now: clocks.monotonic })
  for (let count = 0; count < 50; count += 1) memory.set(`old ${count}`, true)
  clocks.pass(600)
  memory.set('new', true)
  expect(memory.get('old 1')).toBe(true)
  clocks.pass(401)
  expect(memory.get('old 1')).toBeUndefined()
  memory.set('newest', true)
  expect(memory.size).toBe(2)
  expect([memory.get('new'), memory.get('newest')]).toEqual([true, true])
  clocks.pass(1001)
  memory.set('last', true)
  expect(memory.size).toBe(1)
})

test('the cache holds at most its maximum, and nothing after it was cleared', () => {
  const memory = createTtlCache<true>({ max: 2, ttlMs: 1000, now: fakeClocks().monotonic })
  for (const name of ['a', 'b', 'c']) memory.set(name, true)
  expect([memory.get('a'), memory.get('b'), memory.get('c')]).toEqual([undefined, true, true])
  memory.clear()
  expect(memory.get('c')).toBeUndefined()
})
