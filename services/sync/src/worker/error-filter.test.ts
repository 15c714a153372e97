import { expect, test } from 'vitest'
import type { RowError } from '../run/error-store.ts'
import { createErrorFilter } from './error-filter.ts'

const fault = (row: number): RowError => ({ row, key: null, field: null, code: 'c', message: 'm', excerpt: null })
const warning = (row: number): RowError => ({ ...fault(row), severity: 'warning' })
const rowsOf = (kept: readonly RowError[]): (number | null)[] => kept.map(({ row }) => row)

test('a run keeps errors up to its limit, over all batches', () => {
  const keep = createErrorFilter({ errors: 3, warnings: 3 })
  expect(rowsOf(keep([1, 2].map(fault)))).toEqual([1, 2])
  expect(rowsOf(keep([3, 4].map(fault)))).toEqual([3])
  expect(rowsOf(keep([fault(5)]))).toEqual([])
})

test('warnings never take the place of an error, nor errors that of a warning', () => {
  const keep = createErrorFilter({ errors: 2, warnings: 2 })
  expect(rowsOf(keep([1, 2, 3, 4, 5].map(warning)))).toEqual([1, 2])
  expect(rowsOf(keep([warning(6), fault(7), warning(8), fault(9), fault(10)]))).toEqual([7, 9])
  const other = createErrorFilter({ errors: 1, warnings: 2 })
  expect(rowsOf(other([fault(1), fault(2), warning(3), warning(4), warning(5)]))).toEqual([1, 3, 4])
})
