import type { Random } from './random.ts'

const dayMs = 86_400_000
const minuteMs = 60_000

export interface Calendar {
  readonly date: (daysAgo: number) => string
  readonly time: (daysAgo: number, random: Random) => Date
  readonly daysAgo: (date: string) => number
}

export function calendarOf(today: Date): Calendar {
  const midnight = Math.floor(today.getTime() / dayMs) * dayMs
  return {
    date: (daysAgo) => new Date(midnight - daysAgo * dayMs).toISOString().slice(0, 10),
    time: (daysAgo, random) => new Date(midnight - daysAgo * dayMs + random.int(7 * 60, 17 * 60) * minuteMs),
    daysAgo: (date) => Math.round((midnight - Date.parse(date)) / dayMs),
  }
}
