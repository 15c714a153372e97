import type { Random } from './random.ts'

const dayMs = 86_400_000
const minuteMs = 60_000

/** Dates and times counted back from one day (UTC), so that what is overdue stays overdue whenever it is made. */
export interface Calendar {
  /** The date so many days before today; negative: after it. As Postern writes dates. */
  readonly date: (daysAgo: number) => string
  /** A time within office hours on that day. It is never later than now when the day is over. */
  readonly time: (daysAgo: number, random: Random) => Date
  /** How many days before today a date is. */
  readonly daysAgo: (date: string) => number
}

/** The calendar of a day, of which only the date (UTC) matters. */
export function calendarOf(today: Date): Calendar {
  const midnight = Math.floor(today.getTime() / dayMs) * dayMs
  return {
    date: (daysAgo) => new Date(midnight - daysAgo * dayMs).toISOString().slice(0, 10),
    time: (daysAgo, random) => new Date(midnight - daysAgo * dayMs + random.int(7 * 60, 17 * 60) * minuteMs),
    daysAgo: (date) => Math.round((midnight - Date.parse(date)) / dayMs),
  }
}
