import { expect, test } from 'vitest'
import { rankDistance } from './rank-test.ts'

const steps = (from: number): number[] => Array.from({ length: 100 }, (_, at) => from + at)

test('two samples of one distribution do not differ, with or without ties', () => {
  expect(rankDistance(steps(0), steps(0))).toBeCloseTo(0)
  expect(rankDistance([1, 1, 1], [1, 1, 1])).toBeCloseTo(0)
})

test('a shift is detected with its direction, and one outlier is ignored', () => {
  expect(rankDistance(steps(50), steps(0))).toBeGreaterThan(5)
  expect(rankDistance(steps(0), steps(50))).toBeLessThan(-5)
  expect(Math.abs(rankDistance([...steps(0), 1e9], steps(0)))).toBeLessThan(1)
})

test('a sample completely above another has the maximum distance', () => {
  // 0 of 9 pairs are below: (9 - 4.5) / sqrt(9 * 7 / 12).
  expect(rankDistance([4, 5, 6], [1, 2, 3])).toBeCloseTo(1.964, 3)
})
