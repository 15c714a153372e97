import { describe, expect, test } from 'vitest'
import { moment, sheet, table } from './table.ts'

describe('tables', () => {
  test('a value cannot steer the terminal that shows it', () => {
    expect(table(['NAME'], [['\u001b[31mred\u202e\n']])).toBe('NAME\n?[31mred??')
    expect(sheet([['label', 'a\rb']])).toBe('label  a?b')
    expect(sheet([['a\nb', 'c']])).toBe('a?b  c')
  })

  test('columns are aligned, even with characters beyond the BMP', () => {
    expect(
      table(
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
      table(
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
