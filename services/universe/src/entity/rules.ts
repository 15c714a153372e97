import type { Entity } from '@postern/contracts'

/** `YYYY-MM-DD` in UTC, so dates can be compared as text. */
export type CalendarDate = string

/** `stale` is computed for the current day. */
export type StoredEntity = Omit<Entity, 'stale'>

const riskFreshMonths = 12
const lastDate: CalendarDate = '9999-12-31'

export function asRead(stored: StoredEntity, today: CalendarDate): Entity {
  return { ...stored, stale: isStale(stored, today) }
}

function isStale({ risk_assessed_at }: StoredEntity, today: CalendarDate): boolean {
  return risk_assessed_at === null || addMonths(risk_assessed_at, riskFreshMonths) < today
}

/** The result is the last day of a shorter month, and never after the year 9999. */
export function addMonths(date: CalendarDate, months: number): CalendarDate {
  const [year = 0, month = 1, day = 1] = date.split('-').map(Number)
  const monthIndex = year * 12 + (month - 1) + months
  const [toYear, toMonth] = [Math.floor(monthIndex / 12), monthIndex % 12]
  if (toYear > 9999) return lastDate
  const toDay = Math.min(day, daysInMonth(toYear, toMonth))
  return [String(toYear).padStart(4, '0'), pad(toMonth + 1), pad(toDay)].join('-')
}

function daysInMonth(year: number, monthIndex: number): number {
  return new Date(Date.UTC(year, monthIndex + 1, 0)).getUTCDate()
}

function pad(number: number): string {
  return String(number).padStart(2, '0')
}

/** Returns an `ETag` from the version, the day and the last read of the source. */
export function entityTag(
  { version, source }: Pick<StoredEntity, 'version' | 'source'>,
  today: CalendarDate,
  expanded?: string,
): string {
  const seen = source === null ? [] : [`s${Date.parse(source.last_seen_at)}`]
  return `"${[version, today, ...seen, ...(expanded === undefined ? [] : [expanded])].join('.')}"`
}
