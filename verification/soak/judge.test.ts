/**
 * @promise Operation: Nothing grows under a steady load: heap, resident memory, descriptors, database sessions, Redis keys.
 * @alsoShownBy npm run test:soak
 */

import { describe, expect, test } from 'vitest'
import { median } from '../bench/stats.ts'
import { type Point, judge, leastOfEachMinute } from './judge.ts'

const minuteMs = 60_000

/** Numbers from 0 to 1, the same in every run. */
function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32
    return state / 2 ** 32
  }
}

/**
 * Twenty minutes of a process, a look every ten seconds: 90 MiB, garbage of up to 6 MiB that is collected now and
 * then, a peak of 40 MiB in one look of thirty, and what `more` adds at a minute.
 */
function minutesOf(seed: number, more: (minute: number) => number): Point[] {
  const random = numbers(seed)
  let waiting = 0
  return times.map((at, index) => {
    waiting = random() < 0.2 ? 0 : Math.min(6, waiting + random() * 2)
    const peak = random() < 1 / 30 ? 40 : 0
    return { at, value: 90 + waiting + peak + more(index / 6) }
  })
}

/** Of looks every ten seconds, from the tenth minute to the thirtieth. */
const times = Array.from({ length: 120 }, (_none, index) => 10 * minuteMs + index * 10_000)
const boundPerHour = 24
const seeds = Array.from({ length: 50 }, (_none, index) => index + 1)
const verdicts = (more: (minute: number) => number) =>
  new Set(seeds.map((seed) => judge(minutesOf(seed, more), boundPerHour).verdict))

describe('the judge of the soak', () => {
  test('detects a leak of one and a half times the bound among garbage and peaks', () => {
    expect(verdicts((minute) => (1.5 * boundPerHour * minute) / 60)).toEqual(new Set(['rises']))
    const found = seeds.map(
      (seed) =>
        judge(
          minutesOf(seed, (minute) => minute),
          boundPerHour,
        ).risePerHour,
    )
    expect(median(found)).toBeGreaterThan(55)
    expect(median(found)).toBeLessThan(70)
  })

  test('detects a leak that begins in the last third, and a single step', () => {
    expect(verdicts((minute) => Math.max(0, minute - 14) * 4)).toEqual(new Set(['rises']))
    expect(verdicts((minute) => (minute < 13 ? 0 : 20))).toEqual(new Set(['rises']))
  })

  test('reports garbage, peaks and falling values as flat', () => {
    expect(verdicts(() => 0)).toEqual(new Set(['flat']))
    expect(verdicts((minute) => -minute)).toEqual(new Set(['flat']))
  })

  test('detects one more descriptor in a thousand requests, at ten requests a second', () => {
    const steady = times.map((at, index) => ({ at, value: 40 + (index % 3) }))
    const leaking = steady.map(({ at, value }, index) => ({ at, value: value + Math.floor((index * 100) / 1000) }))
    expect(judge(leaking, 12)).toMatchObject({ verdict: 'rises' })
    expect(judge(steady, 12)).toMatchObject({ verdict: 'flat', early: 41, late: 41 })
  })

  test('detects a single rise of a figure with a bound of 0', () => {
    expect(
      judge(
        times.map((at, index) => ({ at, value: index < 60 ? 0 : 1 })),
        0,
      ).verdict,
    ).toBe('rises')
    expect(
      judge(
        times.map((at) => ({ at, value: 0 })),
        0,
      ).verdict,
    ).toBe('flat')
  })

  test('reports "unclear" if noise could hide a rise as large as the bound', () => {
    const random = numbers(7)
    const points = times.map((at) => ({ at, value: 100 * random() }))
    expect(judge(points, 20).verdict).toBe('unclear')
    expect(judge(points, 1000).verdict).toBe('flat')
  })
})

test('a figure that was not read, even once, or was sampled too seldom is not flat', () => {
  const flat = times.map((at) => ({ at, value: 40 }))
  for (const bound of [0, 12]) {
    expect(judge(flat, bound).verdict).toBe('flat')
    for (const value of [Number.NaN, Infinity]) {
      expect(judge(flat.with(60, { at: 20 * minuteMs, value }), bound).verdict).toBe('unread')
      expect(
        judge(
          times.map((at) => ({ at, value })),
          bound,
        ).verdict,
      ).toBe('unread')
    }
    for (const count of [0, 1, 7]) expect(judge(flat.slice(0, count), bound).verdict).toBe('unread')
  }
})

describe('for figures that follow peaks of the load', () => {
  /** A look every five seconds at a process with 45 to 50 descriptors, and up to a hundred more in two of three looks. */
  const looks = Array.from({ length: 15 * 12 + 1 }, (_none, index) => 21 * minuteMs + index * 5000)
  const descriptors = (seed: number, more: (minute: number) => number): Point[] => {
    const random = numbers(seed)
    return looks.map((at, index) => {
      const peak = random() < 2 / 3 ? Math.floor(100 * random()) : 0
      return { at, value: 45 + Math.floor(5 * random()) + peak + Math.floor(more(index / 12)) }
    })
  }

  test('the lowest value of each minute shows a leak that single samples do not show', () => {
    const few = seeds.slice(0, 10)
    const steady = few.map((seed) => descriptors(seed, () => 0))
    expect(new Set(steady.map((points) => judge(leastOfEachMinute(points), 12).verdict))).toEqual(new Set(['flat']))
    expect(new Set(steady.map((points) => judge(points, 12).verdict))).not.toContain('flat')
    const leaking = few.map((seed) => descriptors(seed, (minute) => 0.6 * minute))
    expect(new Set(leaking.map((points) => judge(leastOfEachMinute(points), 12).verdict))).toEqual(new Set(['rises']))
  })

  test('a minute with too few samples is ignored', () => {
    const points = descriptors(1, () => 0)
    expect(leastOfEachMinute(points)).toHaveLength(15)
    expect(leastOfEachMinute(points)[0]).toEqual({
      at: 21.5 * minuteMs,
      value: Math.min(...points.slice(0, 12).map(({ value }) => value)),
    })
  })
})
