import type { Schedule } from '@postern/contracts'
import { Cron } from 'croner'

const minPauseMs = 5 * 60_000
const checkedRuns = 60

/** Returns what is wrong and with which member, or undefined. */
export function scheduleFault(
  schedule: Schedule,
  now: Date,
): { readonly field: 'cron' | 'time_zone'; readonly detail: string } | undefined {
  if (!isTimeZone(schedule.time_zone))
    return { field: 'time_zone', detail: 'must be an IANA time zone such as Europe/Berlin' }
  let runs: readonly Date[]
  try {
    // In UTC, because a time that clocks skip is due right after the change.
    runs = cronOf({ ...schedule, time_zone: 'UTC' }).nextRuns(checkedRuns, now)
  } catch {
    return {
      field: 'cron',
      detail: 'must be five fields: minute, hour, day of the month, month, day of the week',
    }
  }
  if (runs.length === 0) return { field: 'cron', detail: 'is never due' }
  const isTooClose = runs.some(
    (run, index) => index > 0 && run.getTime() - (runs[index - 1]?.getTime() ?? 0) < minPauseMs,
  )
  return isTooClose ? { field: 'cron', detail: 'must leave five minutes between two runs' } : undefined
}

/**
 * A time that clocks skip is due right after the change; one that occurs twice is due once. An hourly schedule follows
 * elapsed time.
 */
export function nextRun(schedule: Schedule, after: Date): Date | undefined {
  if (plainFields(schedule.cron)[1] === '*') return cronOf(schedule).nextRun(after) ?? undefined
  const zone = zoneOf(schedule.time_zone)
  // Croner does this only for schedules with one minute and one hour.
  const times = cronOf({ ...schedule, time_zone: 'UTC' })
  for (let time = times.nextRun(new Date(zone.timeAt(after.getTime()))); time !== null; time = times.nextRun(time)) {
    const due = firstMomentOf(zone, time.getTime())
    if (due > after.getTime()) return new Date(due)
  }
  return undefined
}

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs

interface Zone {
  /** Milliseconds, as if the local time were UTC. */
  timeAt(moment: number): number
}

function zoneOf(name: string): Zone {
  const format = new Intl.DateTimeFormat('en', {
    timeZone: name,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  return {
    timeAt: (moment) => {
      const parts = new Map(format.formatToParts(moment).map(({ type, value }) => [type, Number(value)]))
      const [year, month, day] = [parts.get('year') ?? 0, parts.get('month') ?? 0, parts.get('day') ?? 0]
      return Date.UTC(year, month - 1, day, parts.get('hour'), parts.get('minute'), parts.get('second'))
    },
  }
}

/** Assumes that clocks change at most once in two days. */
function firstMomentOf(zone: Zone, time: number): number {
  const aheadAt = (moment: number): number => zone.timeAt(moment) - moment
  const [before, behind] = [time - aheadAt(time - dayMs), time - aheadAt(time + dayMs)]
  if (zone.timeAt(before) === time) return before
  if (zone.timeAt(behind) === time) return behind
  // Clocks go forward between the two moments.
  let [early, late] = [behind, before]
  const ahead = aheadAt(late)
  while (late - early > minuteMs) {
    const middle = early + Math.round((late - early) / 2 / minuteMs) * minuteMs
    if (aheadAt(middle) === ahead) late = middle
    else early = middle
  }
  return late
}

function cronOf({ cron, time_zone }: Schedule): Cron {
  return new Cron(plainFields(cron).join(' '), { timezone: time_zone, paused: true, mode: '5-part' })
}

/**
 * For each field, a pattern with only this field and how often it is due within `days` if the field covers all values.
 */
const wholeFields = [
  { pattern: (field: string) => `${field} 0 1 1 *`, count: 60, days: 1 },
  { pattern: (field: string) => `0 ${field} 1 1 *`, count: 24, days: 1 },
  { pattern: (field: string) => `0 0 ${field} 1 *`, count: 31, days: 31 },
  { pattern: (field: string) => `0 0 1 ${field} *`, count: 12, days: 366 },
  { pattern: (field: string) => `0 0 * 1 ${field}`, count: 7, days: 7 },
] as const

function plainFields(cron: string): readonly string[] {
  const fields = cron.trim().split(/\s+/)
  if (fields.length !== wholeFields.length) throw new RangeError('a schedule has five fields')
  const start = new Date('2023-12-31T23:59:59Z')
  return wholeFields.map(({ pattern, count, days }, at) => {
    const field = fields[at] ?? ''
    if (field === '*') return field
    const runs = new Cron(pattern(field), { timezone: 'UTC', paused: true, mode: '5-part' }).nextRuns(count, start)
    const last = runs.at(-1)
    const isWhole = runs.length === count && last !== undefined && last.getTime() <= start.getTime() + days * dayMs
    return isWhole ? '*' : field
  })
}

function isTimeZone(name: string): boolean {
  // Offsets such as +02:00 have no daylight saving and are not zones.
  if (!/^[A-Za-z]/.test(name)) return false
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== ''
  } catch {
    return false
  }
}
