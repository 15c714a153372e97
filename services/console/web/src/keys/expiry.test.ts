import { CalendarDate, resetLocalTimeZone, setLocalTimeZone } from '@internationalized/date'
import { afterEach, expect, test } from 'vitest'
import { endOfDay, faultInDay } from './expiry.ts'

afterEach(() => resetLocalTimeZone())

test('a key ends with the last second of the chosen day in the person’s zone', () => {
  setLocalTimeZone('Europe/Berlin')
  const now = Date.parse('2026-06-01T10:00:00Z')
  expect(endOfDay(new CalendarDate(2026, 6, 30), { maxDays: 90, now }).toISOString()).toBe('2026-06-30T21:59:59.000Z')
})

test('the last offered day is accepted even if clocks change before it', () => {
  setLocalTimeZone('Europe/Berlin')
  const now = Date.parse('2026-08-31T22:30:00Z')
  const end = endOfDay(new CalendarDate(2026, 11, 29), { maxDays: 90, now })
  expect(end.toISOString()).toBe('2026-11-29T22:29:00.000Z')
})

const inWords = (year: number, month: number, day: number) =>
  new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' }).format(Date.UTC(year, month - 1, day))

test.each([
  ['over', [2026, 8, 31]],
  ['beyond the maximum lifetime', [2026, 11, 30]],
  ['centuries ago', [26, 9, 1]],
] as const)('a day that is %s is rejected with the possible days', (_why, [year, month, day]) => {
  setLocalTimeZone('Europe/Berlin')
  const now = Date.parse('2026-08-31T22:30:00Z')
  const words = `Choose a day from ${inWords(2026, 9, 1)} to ${inWords(2026, 11, 29)}`
  expect(faultInDay(new CalendarDate(year, month, day), { maxDays: 90, now })).toBe(words)
})

test.each([
  ['today', [2026, 9, 1]],
  ['the last possible day', [2026, 11, 29]],
] as const)('%s is not refused', (_which, [year, month, day]) => {
  setLocalTimeZone('Europe/Berlin')
  const now = Date.parse('2026-08-31T22:30:00Z')
  expect(faultInDay(new CalendarDate(year, month, day), { maxDays: 90, now })).toBeUndefined()
})

test('a missing day is rejected', () => {
  expect(faultInDay(null, { maxDays: 90, now: 0 })).toBe('Choose the last day')
})
