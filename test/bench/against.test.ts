import { expect, test } from 'vitest'
import { describeMoved, movedParts } from './against.ts'
import { steadyOf } from './cold-start.ts'
import { slowdownVerdict } from './hot-keys.ts'
import type { Parts } from './parts.ts'

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
  [ratioOf(0.97, 0.95), ratioOf(1.01, 0.99), /^less than 10 % slower: yes \(5 %\)/],
  [ratioOf(0.97, 0.85), ratioOf(1.01, 0.99), /^less than 10 % slower: NO \(15 %\)/],
  [ratioOf(1, 1), ratioOf(1.01, 0.9), /^none: two gateways before the same keys differ by 10 %/],
])('what many keys cost is judged only where two of the same cost the same', (found, same, verdict) => {
  expect(slowdownVerdict(found, same)).toMatch(verdict)
})

test('a gateway is steady when five seconds have seen nine tenths of what it answers at the end', () => {
  const rising = [10, 20, 40, 60, 80, 95, 95, 95, 95, 95, 100, 100, 100, 100, 100, 100, 100, 100, 100, 3]
  expect(steadyOf(rising)).toEqual([100, 9])
  expect(steadyOf([100, 100, 100, 100, 100, 100, 7])).toEqual([100, 5])
})
