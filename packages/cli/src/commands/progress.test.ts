import { type Run, runCountsSchema } from '@postern/contracts'
import { expect, test } from 'vitest'
import { progressLine } from './show-run.ts'

const none = runCountsSchema.parse(Object.fromEntries(Object.keys(runCountsSchema.shape).map((name) => [name, 0])))

const lineOf = (status: Run['status'], counts: Partial<Run['counts']> = {}) =>
  progressLine({ status, counts: { ...none, ...counts } })

const changes = { created: 1000, updated: 500, moved: 100, deactivated: 300, reactivated: 100 }

test.each([
  [0, '........................', '0'],
  [83, '........................', '83'],
  [84, '#.......................', '84'],
  [1000, '############............', '1,000'],
  [1999, '#######################.', '1,999'],
  [2000, '########################', '2,000'],
])('of 2,000 changes %i fill the bar with %s', (applied, bar, said) => {
  expect(lineOf('applying', { ...changes, applied })).toBe(`applying  [${bar}] ${said} of 2,000 changes`)
})

test('a run without changes shows a full bar, and a fetching run shows its rows', () => {
  expect(lineOf('applying')).toBe(`applying  [${'#'.repeat(24)}] 0 of 0 changes`)
  expect(lineOf('fetching', { fetched: 12_345, invalid: 2 })).toBe('fetching  12,345 rows, 2 with errors')
})
