import { type CalendarDate, fromAbsolute, getLocalTimeZone, toCalendarDate } from '@internationalized/date'
import type { Expiry } from '../api/keys.ts'

const dayMs = 86_400_000

export const expiryChoices: readonly { readonly value: Expiry; readonly label: string }[] = [
  { value: '30d', label: '30 days' },
  { value: '90d', label: '90 days' },
  { value: '1y', label: '1 year' },
  { value: 'custom', label: 'Custom' },
]

const choiceDays = { '30d': 30, '90d': 90, '1y': 365 } as const

export function isAllowed(choice: Expiry, maxDays: number): boolean {
  return choice === 'custom' || choiceDays[choice] <= maxDays
}

export function usualExpiry(maxDays: number): Expiry {
  return (['90d', '30d'] as const).find((choice) => isAllowed(choice, maxDays)) ?? 'custom'
}

/** Returns the wanted expiry if the policy allows it, otherwise the usual one. */
export function allowedExpiry(wanted: Expiry | undefined, maxDays: number): Expiry {
  return wanted !== undefined && isAllowed(wanted, maxDays) ? wanted : usualExpiry(maxDays)
}

export function endOf(choice: Exclude<Expiry, 'custom'>, now: number): number {
  return now + choiceDays[choice] * dayMs
}

export interface ExpiryBounds {
  readonly maxDays: number
  readonly now: number
}

/** In the person's time zone. */
export function possibleDays({ maxDays, now }: ExpiryBounds): {
  readonly first: CalendarDate
  readonly last: CalendarDate
} {
  const first = toCalendarDate(fromAbsolute(now, getLocalTimeZone()))
  return { first, last: first.add({ days: maxDays - 1 }) }
}

const dayForm = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' })

export function faultInDay(day: CalendarDate | null, life: ExpiryBounds): string | undefined {
  if (day === null) return 'Choose the last day'
  const { first, last } = possibleDays(life)
  if (day.compare(first) >= 0 && day.compare(last) <= 0) return undefined
  // A calendar day is formatted the same in every zone.
  const [from, to] = [first, last].map((each) => dayForm.format(each.toDate('UTC')))
  return `Choose a day from ${from} to ${to}`
}

/**
 * Returns the last second of a day in the person's zone, at most the tenant's maximum less a minute for fast clocks.
 */
export function endOfDay(day: CalendarDate, { maxDays, now }: ExpiryBounds): Date {
  const end = day.add({ days: 1 }).toDate(getLocalTimeZone()).valueOf() - 1000
  return new Date(Math.min(end, now + maxDays * dayMs - 60_000))
}
