import { CalendarDate, resetLocalTimeZone, setLocalTimeZone } from '@internationalized/date'
import { afterEach, expect, test } from 'vitest'
import { endOfDay } from './expiry.ts'

afterEach(() => resetLocalTimeZone())

test('a key that is to end on a day ends with its last second, where the person is', () => {
  setLocalTimeZone('Europe/Berlin')
  const now = Date.parse('2026-06-01T10:00:00Z')
  expect(endOfDay(new CalendarDate(2026, 6, 30), { maxDays: 90, now }).toISOString()).toBe('2026-06-30T21:59:59.000Z')
})

test('the last day that the calendar offers is not refused because clocks are put back before it', () => {
  setLocalTimeZone('Europe/Berlin')
  const now = Date.parse('2026-08-31T22:30:00Z')
  const end = endOfDay(new CalendarDate(2026, 11, 29), { maxDays: 90, now })
  expect(end.toISOString()).toBe('2026-11-29T22:29:00.000Z')
})
