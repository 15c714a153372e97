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

/** When a key that is made now with this period will end, in milliseconds. */
export function endOf(choice: Exclude<Expiry, 'custom'>, now: number): number {
  return now + { '30d': 30, '90d': 90, '1y': 365 }[choice] * dayMs
}

/** The last second of a day in the person's zone: whoever says until Friday means all of Friday. */
export function endOfDay(day: CalendarDate): Date {
  return new Date(day.add({ days: 1 }).toDate(getLocalTimeZone()).valueOf() - 1000)
}
