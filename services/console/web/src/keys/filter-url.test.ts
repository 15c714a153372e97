import { describe, expect, test } from 'vitest'
import { formatFilter, parseFilter, usualSorting } from './filter-url.ts'
import { noFilter } from './select-keys.ts'

describe('the URL of the key list', () => {
  test('has no query for the default list', () => {
    expect(formatFilter(noFilter, usualSorting)).toBe('')
    expect(parseFilter('')).toEqual({ filter: noFilter, sorting: usualSorting })
  })

  test('restores search, filters and order', () => {
    const filter = { text: 'BI & export', state: 'active', scope: 'read:*', needsAttention: true } as const
    const sorting = { column: 'last_used_at', isDescending: false } as const
    expect(parseFilter(formatFilter(filter, sorting))).toEqual({ filter, sorting })
  })

  test('ignores unknown values', () => {
    const search = '?state=lost&scope=read:everything&sort=-hash&needs=love&other=1'
    expect(parseFilter(search)).toEqual({ filter: noFilter, sorting: usualSorting })
  })

  test('never contains a complete key', () => {
    expect(formatFilter({ ...noFilter, text: `postern_${'k'.repeat(49)}` }, usualSorting)).toBe('')
  })
})
