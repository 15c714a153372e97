import { describe, expect, test } from 'vitest'
import { describeMoved, movedParts } from './against.ts'
import { coldStartVerdicts, steadyOf } from './cold-start.ts'
import { hitsApart, hitsBetween } from './hits.ts'
import { slowdownVerdict } from './hot-keys.ts'
import type { Parts } from './parts.ts'
import type { Results } from './report.ts'
import { failedVerdicts } from './verdicts.ts'

const names = ['parse: headers, target, route', 'hash', 'look-up and decision', 'limit', 'sign']
const partsOf = (costs: readonly number[], http: number, forwarded: number, times = 1): Parts => ({
  yardsticks: { processor: 3 * times, http: 90 * times },
  alone: names.map((name, at) => ({ name, cpuMicroseconds: costs[at] ?? 0 })),
  answered: undefined,
  forwarded,
  http,
  forward: undefined,
})
const costs = [0.8, 1.5, 0.4, 0.5, 3.9]
const before = partsOf(costs, 110, 160)

test('a part of a request that costs more is named', () => {
  const slow = partsOf([0.8, 3.1, 0.4, 0.5, 3.9], 110, 160)
  expect(movedParts(before, slow).map(({ part, times }) => [part, times])).toEqual([['hash', 2.07]])
  expect(describeMoved(movedParts(before, slow))).toEqual([
    expect.stringMatching(/^DEARER: hash, 1.5 µs before, 3.1 now/),
  ])
  expect(movedParts(slow, before).map(({ part, times }) => [part, times < 1])).toEqual([['hash', true]])
})

test.each([0.4, 2])('a part that costs more is named on a machine that is %d times slower, too', (times) => {
  const there = (forwarded: number): Parts =>
    partsOf(
      costs.map((cost) => times * cost),
      times * 110,
      times * forwarded,
      times,
    )
  expect(movedParts(before, there(160))).toEqual([])
  expect(movedParts(before, there(200)).map(({ part }) => part)).toEqual(['a request that it forwards'])
})

const ratioOf = (throughput: number, cpu: number) => ({ against: 'few', throughput, cpu, stolen: 0 })

test.each([
  [ratioOf(0.97, 0.95), ratioOf(1.01, 0.99), 0.4, /^less than 10 % slower: yes \(5 %\)/],
  [ratioOf(0.97, 0.85), ratioOf(1.01, 0.99), 0, /^less than 10 % slower: NO \(15 %\)/],
  [ratioOf(0.9, 0.95), ratioOf(1.01, 0.99), 0, /^less than 10 % slower: NO \(10 %\)/],
  [ratioOf(1, 1), ratioOf(1.01, 0.9), 0, /^none: two gateways before the same keys differ by 10 %/],
  [ratioOf(1, 1), ratioOf(1, 1), 0.6, /^as many keys found at each level: NO \(0.6 percentage points apart\)/],
  [ratioOf(1, 1), ratioOf(1, 1), Number.NaN, /^as many keys found at each level: NO/],
])(
  'many keys are judged where two of the same cost the same and as many are in memory',
  (found, same, apart, verdict) => {
    expect(slowdownVerdict(found, same, apart)).toMatch(verdict)
  },
)

test('the difference in hits is the largest of any level and pair', () => {
  const alike = [
    { memory: 950, redis: 0, keys: 50 },
    { memory: 1900, redis: 0, keys: 100 },
  ]
  expect(hitsApart(alike)).toBe(0)
  expect(hitsApart([...alike, { memory: 950, redis: 40, keys: 10 }])).toBeCloseTo(4)
  expect(hitsApart([{ memory: 100 }, { memory: 96, redis: 4 }])).toBeCloseTo(4)
  expect(hitsApart([])).toBeNaN()
  expect(hitsBetween({ memory: 3 }, { memory: 10, keys: 2 })).toEqual({ memory: 7, keys: 2 })
})

describe('a cold start', () => {
  const good = {
    hotKeys: 100,
    keys: 100,
    together: 8,
    seconds: 8,
    lookupsAtKeys: 104,
    transactions: 60,
    steadySeconds: 9,
  }
  const no = (given: Partial<Parameters<typeof coldStartVerdicts>[0]>): string[] =>
    coldStartVerdicts({ ...good, ...given }).filter((line) => line.includes(': NO ('))

  test('passes if the keys service and PostgreSQL are asked at most once per key', () => {
    expect(no({})).toEqual([])
    expect(coldStartVerdicts(good)).toHaveLength(4)
  })

  test.each([
    [{ keys: 99 }, 'all 100 keys were used'],
    [{ lookupsAtKeys: 106 }, 'at most 1.05 look-ups'],
    [{ lookupsAtKeys: Number.NaN }, 'at most 1.05 look-ups'],
    [{ transactions: 105 }, 'no more transactions'],
  ])('fails with %j', (given, question) => {
    expect(no(given)).toContainEqual(expect.stringContaining(question))
  })

  test('fails if it becomes steady late or never', () => {
    expect(no({ steadySeconds: undefined })).toEqual([expect.stringContaining('steady at most')])
    expect(no({ steadySeconds: 39 })).toEqual([expect.stringContaining('steady at most')])
    expect(no({ steadySeconds: 38 })).toEqual([])
  })
})

const part = <T>(figures: T) => ({ measuredAt: '', minutes: 1, loadBefore: 0, figures })
const hotKeys = (verdict: string) => ({
  title: '',
  measured: [],
  shares: {},
  sameAgainstSame: ratioOf(1, 1),
  against: [{ name: '', ratio: ratioOf(1, 1), hitsApart: 0, verdict }],
})
const coldStart = (verdicts: readonly string[]) => ({
  hotKeys: 1,
  keys: 1,
  together: 1,
  requests: 1,
  seconds: 1,
  p50: 1,
  p99: 1,
  lookupsAtKeys: 1,
  transactions: 1,
  coldPerSecond: 1,
  warmPerSecond: 1,
  steadySeconds: 1,
  verdicts,
})

const resultsOf = (one: string, other: string): Pick<Results, 'parts'> => ({
  parts: { 'hot-keys': part([hotKeys(one), hotKeys(other)]), 'cold-start': part(coldStart([one, other])) },
})

test('the bench fails for a verdict NO and for a part that costs more, and for nothing else', () => {
  expect(failedVerdicts(resultsOf('is it: yes (1)', 'none: NO figures'), [])).toEqual([])
  expect(failedVerdicts(resultsOf('is it: yes (1)', 'is it: NO (2)'), [])).toEqual([
    'cold-start: is it: NO (2)',
    'hot-keys: is it: NO (2)',
  ])
  const slow = partsOf([0.8, 3.1, 0.4, 0.5, 3.9], 110, 160)
  expect(failedVerdicts({ parts: {} }, movedParts(before, slow))).toEqual([
    expect.stringMatching(/^parts: DEARER: hash/),
  ])
  expect(failedVerdicts({ parts: {} }, movedParts(slow, before))).toEqual([])
})

test('a gateway is steady once it answers 90 % of its final rate for five seconds', () => {
  const rising = [10, 20, 40, 60, 80, 95, 95, 95, 95, 95, 100, 100, 100, 100, 100, 100, 100, 100, 100, 3]
  expect(steadyOf(rising)).toEqual([100, 9])
  expect(steadyOf([100, 100, 100, 100, 100, 100, 7])).toEqual([100, 5])
})

test('a gateway that gets slower and slower is never steady', () => {
  expect(steadyOf(Array.from({ length: 20 }, (_none, at) => 200 - 9 * at))).toEqual([60.5, undefined])
  expect(steadyOf([100, 100])[1]).toBeUndefined()
})

test('a part that only one of the files has is reported, and the bench fails', () => {
  const { alone } = before
  const renamed = { ...before, alone: alone.map((one) => (one.name === 'hash' ? { ...one, name: 'digest' } : one)) }
  expect(failedVerdicts({ parts: {} }, movedParts(before, renamed))).toEqual([
    'parts: MISSING: hash is gone, and compared with nothing',
    'parts: MISSING: digest is new, and compared with nothing',
  ])
})
