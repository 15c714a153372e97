import { describe, expect, test } from 'vitest'
import { describeMoved, movedParts } from './against.ts'
import { coldStartVerdicts, steadyOf } from './cold-start.ts'
import { hitsApart, hitsBetween } from './hits.ts'
import { slowdownVerdict } from './hot-keys.ts'
import type { Parts } from './parts.ts'
import type { Results } from './report.ts'
import { failedVerdicts } from './verdicts.ts'

const names = ['parse: headers, target, route', 'hash', 'look-up and decision', 'limit', 'sign']
const partsOf = (costs: readonly number[], http: number, forward: number): Parts => ({
  alone: names.map((name, at) => ({ name, cpuMicroseconds: costs[at] ?? 0 })),
  answered: undefined,
  forwarded: undefined,
  http,
  forward,
})
const before = partsOf([0.8, 1.5, 0.4, 0.5, 3.9], 110, 48)

test('a part that has become dearer is named', () => {
  const slow = partsOf([0.8, 3.1, 0.4, 0.5, 3.9], 110, 48)
  expect(movedParts(before, slow).map(({ part, times }) => [part, times])).toEqual([['hash', 2.07]])
  expect(describeMoved(movedParts(before, slow))).toEqual([
    expect.stringMatching(/^DEARER: hash, 1.5 µs before, 3.1 now/),
  ])
  expect(movedParts(slow, before).map(({ part, times }) => [part, times < 1])).toEqual([['hash', true]])
})

test('so it is on another machine, on which alone nothing is', () => {
  const twice = (parts: Parts): Parts =>
    partsOf(
      parts.alone.map(({ cpuMicroseconds }) => 2 * cpuMicroseconds),
      2 * (parts.http ?? 0),
      2 * (parts.forward ?? 0),
    )
  expect(movedParts(before, twice(before))).toEqual([])
  const slow = twice(partsOf([0.8, 1.5, 0.4, 0.5, 3.9], 110, 90))
  expect(movedParts(before, slow).map(({ part }) => part)).toEqual(['forward: HTTP with the service'])
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

test('hits are as far apart as they are at the level at which they differ most, in any of the rounds', () => {
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
  const good = { hotKeys: 100, keys: 100, together: 8, lookupsAtKeys: 104, transactions: 60, steadySeconds: 9 }
  const no = (given: Partial<typeof good>): string[] =>
    coldStartVerdicts({ ...good, ...given }).filter((line) => line.includes(': NO ('))

  test('passes when keys and PostgreSQL are asked no more than there are keys', () => {
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

  test('fails when it never becomes steady', () => {
    const never = coldStartVerdicts({ ...good, steadySeconds: undefined })
    expect(never).toContain('steady in the end: NO (after no s)')
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

test('the bench fails for what says NO and for what is dearer, and for nothing else', () => {
  expect(failedVerdicts(resultsOf('is it: yes (1)', 'none: NO figures'), [])).toEqual([])
  expect(failedVerdicts(resultsOf('is it: yes (1)', 'is it: NO (2)'), [])).toEqual([
    'cold-start: is it: NO (2)',
    'hot-keys: is it: NO (2)',
  ])
  const slow = partsOf([0.8, 3.1, 0.4, 0.5, 3.9], 110, 48)
  expect(failedVerdicts({ parts: {} }, movedParts(before, slow))).toEqual([
    expect.stringMatching(/^parts: DEARER: hash/),
  ])
  expect(failedVerdicts({ parts: {} }, movedParts(slow, before))).toEqual([])
})

test('a gateway is steady when five seconds have seen nine tenths of what it answers at the end', () => {
  const rising = [10, 20, 40, 60, 80, 95, 95, 95, 95, 95, 100, 100, 100, 100, 100, 100, 100, 100, 100, 3]
  expect(steadyOf(rising)).toEqual([100, 9])
  expect(steadyOf([100, 100, 100, 100, 100, 100, 7])).toEqual([100, 5])
})
