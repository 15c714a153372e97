import type { Transform } from '@postern/contracts'
import { excerptOf } from './excerpt.ts'

export interface FieldFault {
  readonly field: string | null
  readonly code: string
  readonly message: string
  /** At most 80 characters of the value. */
  readonly excerpt: string | null
}

export class TransformError extends Error {
  override readonly name = 'TransformError'
  readonly excerpt: string | null

  constructor(message: string, value: unknown) {
    super(message)
    this.excerpt = excerptOf(value)
  }
}

const yes: ReadonlySet<string> = new Set(['true', 'yes', 'y', '1', 'active', 'enabled'])
const no: ReadonlySet<string> = new Set(['false', 'no', 'n', '0', 'inactive', 'disabled'])

/** The value must not be empty. Throws TransformError. */
export function applyTransform(transform: Transform, value: unknown): unknown {
  switch (transform.kind) {
    case 'trim':
      return typeof value === 'string' ? value.trim() : value
    case 'lower':
      return typeof value === 'string' ? value.toLowerCase() : value
    case 'upper':
      return typeof value === 'string' ? value.toUpperCase() : value
    case 'number':
      return asNumber(value)
    case 'boolean':
      return asBoolean(value)
    case 'split':
      return typeof value === 'string'
        ? value
            .split(transform.separator)
            .map((part) => part.trim())
            .filter((part) => part !== '')
        : value
    case 'date':
      return asDate(value, transform.format)
    case 'map': {
      const mapped = Object.hasOwn(transform.values, String(value)) ? transform.values[String(value)] : undefined
      if (mapped === undefined) throw new TransformError('is not among the values of the mapping', value)
      return mapped
    }
    default:
      return transform satisfies never
  }
}

function asNumber(value: unknown): number {
  if (typeof value === 'number') return value
  const text = String(value).trim()
  // A database may print more decimals than a double has.
  if (!/^-?[0-9]{1,15}(\.[0-9]{1,100})?$/.test(text)) {
    throw new TransformError('must be a number with a point before its decimals', value)
  }
  return Number(text)
}

function asBoolean(value: unknown): boolean {
  if (typeof value === 'boolean') return value
  const text = String(value).trim().toLowerCase()
  if (yes.has(text)) return true
  if (no.has(text)) return false
  throw new TransformError('must be yes or no, true or false, 1 or 0', value)
}

type DateFormat = Extract<Transform, { kind: 'date' }>['format']

/** Only a time of day may follow an ISO date, because other text would be lost. */
const datePatterns: Readonly<Record<DateFormat, RegExp>> = {
  'YYYY-MM-DD':
    /^(?<year>\d{4})-(?<month>\d{2})-(?<day>\d{2})(?:[T ](?:[01]\d|2[0-3]):[0-5]\d(?::(?:[0-5]\d|60)(?:[.,]\d{1,9})?)? ?(?:Z|UTC|GMT|[AP]M|[+-](?:0\d|1[0-5])(?::?[0-5]\d)?(?::[0-5]\d)?)?)?$/i,
  'DD.MM.YYYY': /^(?<day>\d{1,2})\.(?<month>\d{1,2})\.(?<year>\d{4})$/,
  'DD/MM/YYYY': /^(?<day>\d{1,2})\/(?<month>\d{1,2})\/(?<year>\d{4})$/,
  'MM/DD/YYYY': /^(?<month>\d{1,2})\/(?<day>\d{1,2})\/(?<year>\d{4})$/,
  YYYYMMDD: /^(?<year>\d{4})(?<month>\d{2})(?<day>\d{2})$/,
}

/** Accepts ISO dates with every format, because date cells of workbooks and databases have them. */
function asDate(value: unknown, format: DateFormat): string {
  const text = String(value).trim()
  const found = datePatterns[format].exec(text) ?? datePatterns['YYYY-MM-DD'].exec(text)
  const { year, month, day } = found?.groups ?? {}
  if (year === undefined || month === undefined || day === undefined) {
    throw new TransformError(`must be a date as ${format}`, value)
  }
  return `${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`
}
