const dayForm = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' })
const timeForm = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' })
const momentForm = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
const relativeForm = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' })

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

export const timeZone: string = Intl.DateTimeFormat().resolvedOptions().timeZone

export function exactUtc(at: string): string {
  return `${new Date(at).toISOString().replace('T', ' ').replace('Z', '')} UTC`
}

/** `3 days ago`, `in 2 hours`. */
export function distance(at: string, now: number): string {
  const difference = Date.parse(at) - now
  const size = Math.abs(difference)
  if (size < minute) return difference > 0 ? 'in a moment' : 'just now'
  if (size < hour) return relativeForm.format(Math.trunc(difference / minute), 'minute')
  if (size < day) return relativeForm.format(Math.trunc(difference / hour), 'hour')
  if (size < 60 * day) return relativeForm.format(Math.trunc(difference / day), 'day')
  if (size < 730 * day) return relativeForm.format(Math.round(difference / (30.44 * day)), 'month')
  return relativeForm.format(Math.round(difference / (365.25 * day)), 'year')
}

/** Tolerates clock differences. */
export function ago(at: string, now: number): string {
  return distance(at, Math.max(now, Date.parse(at)))
}

export function dayOf(at: string): string {
  return dayForm.format(new Date(at))
}

interface Props {
  readonly at: string
  readonly as?: 'day' | 'time' | 'moment' | 'distance' | 'until'
  readonly now?: number
}

/** Shows UTC on hover. */
export function When({ at, as = 'moment', now = Date.now() }: Props) {
  return (
    <time dateTime={at} title={exactUtc(at)}>
      {wordsOf(at, as, now)}
    </time>
  )
}

function wordsOf(at: string, as: NonNullable<Props['as']>, now: number): string {
  switch (as) {
    case 'day':
      return dayOf(at)
    case 'time':
      return timeForm.format(new Date(at))
    case 'moment':
      return momentForm.format(new Date(at))
    case 'distance':
      return ago(at, now)
    case 'until':
      return distance(at, now)
    default:
      return as satisfies never
  }
}
