import type { Random } from './random.ts'

const dayMs = 86_400_000
const minuteMs = 60_000

/** Dates and times before a given day (UTC), so that a demo of any day has the same overdue rows. */
export interface Calendar {
  /** The date so many days before today, as YYYY-MM-DD. */
  readonly date: (daysAgo: number) => string
  /** A time within office hours on that day. */
  readonly time: (daysAgo: number, random: Random) => Date
  /** How many days before today a date is. */
  readonly daysAgo: (date: string) => number
}

/** The calendar of a day (UTC). */
export function calendarOf(today: Date): Calendar {
  const midnight = Math.floor(today.getTime() / dayMs) * dayMs
  return {
    date: (daysAgo) => new Date(midnight - daysAgo * dayMs).toISOString().slice(0, 10),
    time: (daysAgo, random) => new Date(midnight - daysAgo * dayMs + random.int(7 * 60, 17 * 60) * minuteMs),
    daysAgo: (date) => Math.round((midnight - Date.parse(date)) / dayMs),
  }
}
