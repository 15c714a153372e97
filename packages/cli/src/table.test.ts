import { describe, expect, test } from 'vitest'
import { formatSheet, formatTable, moment } from './table.ts'

describe('tables', () => {
  test('a value cannot steer the terminal that shows it', () => {
    expect(formatTable(['NAME'], [['\u001b[31mred\u202e\n']])).toBe('NAME\n?[31mred??')
    expect(formatSheet([['label', 'a\rb']])).toBe('label  a?b')
    expect(formatSheet([['a\nb', 'c']])).toBe('a?b  c')
  })

  test('columns are aligned, even with characters beyond the BMP', () => {
    expect(
      formatTable(
        ['A', 'B'],
        [
          ['😀', 'x'],
          ['long', 'y'],
        ],
      ),
    ).toBe('A     B\n😀     x\nlong  y')
  })

  test('a table can have very many rows', () => {
    expect(
      formatTable(
        ['A'],
        Array.from({ length: 300_000 }, () => ['x']),
      ).length,
    ).toBe(600_001)
  })

  test('moments are shown in UTC, to the second', () => {
    expect(moment('2026-11-21T09:30:00.123Z')).toBe('2026-11-21 09:30:00Z')
    expect(moment(null)).toBe('-')
  })
})
