import { usageError } from './cli-error.ts'

export type ExpiryInput =
  | { readonly expires_in: '30d' | '90d' | '1y' }
  | { readonly expires_in: 'custom'; readonly expires_at: string }

// RFC 3339 §5.6. A time without an offset is ambiguous.
const timestampPattern = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/i
const datePattern = /^\d{4}-\d{2}-\d{2}$/

/**
 * Parses `--expires`; a date includes its whole day in UTC. The server decides whether the tenant allows the expiry.
 */
export function parseExpiry(text: string): ExpiryInput {
  if (text === '30d' || text === '90d' || text === '1y') return { expires_in: text }
  if (isDate(text)) return { expires_in: 'custom', expires_at: `${text}T23:59:59Z` }
  if (isTimestamp(text)) return { expires_in: 'custom', expires_at: text }
  throw usageError(
    '--expires must be 30d, 90d, 1y, a date such as 2027-06-30 (its last second in UTC), or an RFC 3339 time such as 2027-06-30T18:00:00+02:00',
  )
}

export function parseEnd(text: string, option = '--expires'): string {
  return parseTime(text, option, 'last')
}

export function parseStart(text: string, option: string): string {
  return parseTime(text, option, 'first')
}

function parseTime(text: string, option: string, second: 'first' | 'last'): string {
  if (isDate(text)) return `${text}T${second === 'first' ? '00:00:00' : '23:59:59'}Z`
  if (isTimestamp(text)) return text
  throw usageError(`${option} must be a date such as 2027-06-30 (its ${second} second in UTC), or an RFC 3339 time`)
}

function isTimestamp(text: string): boolean {
  return timestampPattern.test(text) && isDate(text.slice(0, 10)) && !Number.isNaN(Date.parse(text))
}

/** JavaScript reads 30 February as 2 March. */
function isDate(text: string): boolean {
  const day = datePattern.test(text) ? new Date(`${text}T00:00:00Z`) : undefined
  return day !== undefined && !Number.isNaN(day.valueOf()) && day.toISOString().startsWith(text)
}
