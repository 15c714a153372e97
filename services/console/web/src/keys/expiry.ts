import { type CalendarDate, getLocalTimeZone } from '@internationalized/date'
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

/**
 * The last second of a day in the person's zone: whoever says until Friday means all of Friday. Where clocks are put back until then
 * that day may end an hour behind the longest time that the tenant allows, which it is then, less a minute for a clock that is ahead.
 */
export function endOfDay(
  day: CalendarDate,
  { maxDays, now }: { readonly maxDays: number; readonly now: number },
): Date {
  const end = day.add({ days: 1 }).toDate(getLocalTimeZone()).valueOf() - 1000
  return new Date(Math.min(end, now + maxDays * dayMs - 60_000))
}
