import type { Schedule } from '@postern/contracts'
import { Cron } from 'croner'

/** Least time between two runs of a schedule. */
const minGapMs = 5 * 60_000
/** Runs that are looked at to see how close two of them come. */
const runsLookedAt = 60

/** Why a schedule cannot be kept, and which of its members is at fault; undefined where it can. */
export function scheduleFault(
  schedule: Schedule,
  now: Date,
): { readonly field: 'cron' | 'time_zone'; readonly detail: string } | undefined {
  if (!isTimeZone(schedule.time_zone)) return { field: 'time_zone', detail: 'is no IANA time zone' }
  let runs: readonly Date[]
  try {
    runs = cronOf(schedule).nextRuns(runsLookedAt, now)
  } catch {
    return {
      field: 'cron',
      detail: 'must be five fields: minute, hour, day of the month, month, day of the week',
    }
  }
  if (runs.length === 0) return { field: 'cron', detail: 'is never due' }
  const isTooClose = runs.some(
    (run, index) => index > 0 && run.getTime() - (runs[index - 1]?.getTime() ?? 0) < minGapMs,
  )
  return isTooClose ? { field: 'cron', detail: 'must leave five minutes between two runs' } : undefined
}

/**
 * When a schedule is due next after a moment. Where clocks go forward over the time of day, it is due as soon as they
 * have; where they go back over it, it is due the first time and not again.
 */
export function nextRun(schedule: Schedule, after: Date): Date | undefined {
  return cronOf(schedule).nextRun(after) ?? undefined
}

function cronOf({ cron, time_zone }: Schedule): Cron {
  // Five fields and no more: seconds and nicknames are refused.
  if (cron.trim().split(/\s+/).length !== 5) throw new RangeError('a schedule has five fields')
  return new Cron(cron, { timezone: time_zone, paused: true, mode: '5-part' })
}

function isTimeZone(name: string): boolean {
  // Offsets such as +02:00 know no daylight saving, and are no zones.
  if (!/^[A-Za-z]/.test(name)) return false
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== ''
  } catch {
    return false
  }
}
