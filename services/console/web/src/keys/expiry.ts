import { type CalendarDate, fromAbsolute, getLocalTimeZone, toCalendarDate } from '@internationalized/date'
import type { Expiry } from '../api/keys.ts'

const dayMs = 86_400_000

/** The periods that are offered, in the order in which they stand. */
export const expiryChoices: readonly { readonly value: Expiry; readonly label: string }[] = [
  { value: '30d', label: '30 days' },
  { value: '90d', label: '90 days' },
  { value: '1y', label: '1 year' },
  { value: 'custom', label: 'Custom' },
]

const choiceDays = { '30d': 30, '90d': 90, '1y': 365 } as const

/** Whether a tenant that lets keys live so long allows a period. */
export function isAllowed(choice: Expiry, maxDays: number): boolean {
  return choice === 'custom' || choiceDays[choice] <= maxDays
}

/** The period that is chosen as long as nobody has chosen one: 90 days, or the longest that the tenant allows below. */
export function usualExpiry(maxDays: number): Expiry {
  return (['90d', '30d'] as const).find((choice) => isAllowed(choice, maxDays)) ?? 'custom'
}

/** When a key that is made now with this period will end, in milliseconds. */
export function endOf(choice: Exclude<Expiry, 'custom'>, now: number): number {
  return now + choiceDays[choice] * dayMs
}

/** How long a key may live that is made now. */
export interface Life {
  /** Longest life of a key of this tenant, in days. */
  readonly maxDays: number
  /** In milliseconds. */
  readonly now: number
}

/** The days that a key may end with, where the person is. */
export function possibleDays({ maxDays, now }: Life): { readonly first: CalendarDate; readonly last: CalendarDate } {
  const first = toCalendarDate(fromAbsolute(now, getLocalTimeZone()))
  return { first, last: first.add({ days: maxDays - 1 }) }
}

const dayForm = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' })

/** Why a key may not end with a day, for the person; nothing where it may. */
export function faultInDay(day: CalendarDate | null, life: Life): string | undefined {
  if (day === null) return 'Choose the last day of the key'
  const { first, last } = possibleDays(life)
  if (day.compare(first) >= 0 && day.compare(last) <= 0) return undefined
  // A day is one of the calendar and no moment: the same words in every zone.
  const [from, to] = [first, last].map((each) => dayForm.format(each.toDate('UTC')))
  return `Choose a day from ${from} to ${to}`
}

/**
 * The last second of a day in the person's zone: whoever says until Friday means all of Friday. Where clocks are put back until then
 * that day may end an hour behind the longest time that the tenant allows, which it is then, less a minute for a clock that is ahead.
 */
export function endOfDay(day: CalendarDate, { maxDays, now }: Life): Date {
  const end = day.add({ days: 1 }).toDate(getLocalTimeZone()).valueOf() - 1000
  return new Date(Math.min(end, now + maxDays * dayMs - 60_000))
}
