import { describe, expect, test } from 'vitest'
import { formatFilter, parseFilter, usualSorting } from './filter-url.ts'
import { noFilter } from './select-keys.ts'

describe('the address of the list of keys', () => {
  test('holds nothing for the usual list', () => {
    expect(formatFilter(noFilter, usualSorting)).toBe('')
    expect(parseFilter('')).toEqual({ filter: noFilter, sorting: usualSorting })
  })

  test('brings search, filters and order back', () => {
    const filter = { text: 'BI & export', state: 'active', scope: 'read:*', needsAttention: true } as const
    const sorting = { column: 'last_used_at', isDescending: false } as const
    expect(parseFilter(formatFilter(filter, sorting))).toEqual({ filter, sorting })
  })

  test('ignores what it does not know', () => {
    const search = '?state=lost&scope=read:everything&sort=-hash&needs=love&other=1'
    expect(parseFilter(search)).toEqual({ filter: noFilter, sorting: usualSorting })
  })

  test('never holds a key that somebody searches for', () => {
    expect(formatFilter({ ...noFilter, text: `postern_${'k'.repeat(49)}` }, usualSorting)).toBe('')
  })
})
