import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import { createReplayCache } from './replay-cache.ts'

const validForMs = 30_000

describe('a nonce is rejected', () => {
  test('when it is used again before its signature has expired', () => {
    const cache = createReplayCache(10)
    expect(cache.use('n', validForMs, 0)).toBe('first')
    for (const nowMs of [0, 1, 15_000, validForMs]) expect(cache.use('n', validForMs, nowMs)).toBe('again')
  })

  test('until its signature has expired', () => {
    const cache = createReplayCache(10)
    cache.use('older', 100, 0)
    cache.use('younger', 200, 0)
    expect(cache.use('older', 100, 100)).toBe('again')
  })

  test('when the cache is full, until old nonces are forgotten', () => {
    const cache = createReplayCache(2)
    expect(cache.use('a', validForMs, 0)).toBe('first')
    expect(cache.use('b', validForMs, 0)).toBe('first')
    expect(cache.use('c', validForMs, 0)).toBe('full')
    expect(cache.use('a', validForMs, 0)).toBe('again')
    const laterMs = 3 * validForMs
    expect(cache.use('c', laterMs + validForMs, laterMs)).toBe('first')
  })

  test('when a cache for one nonce is full, until that nonce expires', () => {
    const cache = createReplayCache(1)
    expect(cache.use('a', validForMs, 0)).toBe('first')
    expect(cache.use('b', validForMs, 0)).toBe('full')
    expect(cache.use('b', 3 * validForMs, 2 * validForMs)).toBe('first')
  })

  test('while it is valid, even if an older signature was seen after it', () => {
    const cache = createReplayCache(10)
    cache.use('before', 30_000, 0)
    cache.use('young', 36_000, 1)
    cache.use('old', 10_000, 2)
    cache.use('next', 60_001, 30_001)
    cache.use('after', 60_002, 30_002)
    expect(cache.use('young', 36_000, 35_000)).toBe('again')
  })

  test('while it is valid, after any other uses and even if the clock was set back', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({ nonce: fc.nat(20), stepMs: fc.integer({ min: -20_000, max: 20_000 }), aheadMs: fc.nat(5000) }),
          {
            maxLength: 200,
          },
        ),
        (uses) => {
          const cache = createReplayCache(1000)
          const validUntil = new Map<string, number>()
          let nowMs = 1_000_000
          for (const { nonce, stepMs, aheadMs } of uses) {
            nowMs += stepMs
            // The cache may forget a nonce that a jump forward has made invalid.
            for (const [known, untilMs] of validUntil) if (untilMs < nowMs) validUntil.delete(known)
            const untilMs = nowMs + aheadMs + validForMs
            const result = cache.use(`n${nonce}`, untilMs, nowMs)
            if (validUntil.has(`n${nonce}`)) expect(result).toBe('again')
            if (result === 'first') validUntil.set(`n${nonce}`, untilMs)
          }
        },
      ),
    )
  })
})

describe('a replay cache', () => {
  test('needs space for only two generations of a steady stream', () => {
    const perSecond = 10
    const cache = createReplayCache(perSecond * 75)
    for (let n = 0; n < 10_000; n += 1) {
      const nowMs = n * (1000 / perSecond)
      if (cache.use(`n${n}`, nowMs + validForMs, nowMs) !== 'first') expect.fail(`nonce ${n} was refused`)
    }
    expect(cache.use('n0', 2_000_000, 2_000_000)).toBe('first')
  })
})
