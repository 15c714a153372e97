import { isNarrowerOrEqual } from '@postern/api-key'
import { type InputError, addressForms, deprecatedAddress } from '@postern/contracts'
import { canonicalRange, isDeprecatedRange, isNarrowerOrEqualList } from './addresses.ts'

const dayMs = 24 * 60 * 60 * 1000

/** Days of the choices that are not custom. A year is 365 days, so that a key lives as long whenever it is made. */
const choiceDays = { '30d': 30, '90d': 90, '1y': 365 } as const

/** The longest overlap of a rotation. */
const maxOverlapMs = 7 * dayMs

/** What a rule gives: the decided value, or what the caller must mend. */
export type Ruling<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly errors: readonly InputError[] }

function allow<T>(value: T): Ruling<T> {
  return { ok: true, value }
}

function refuse(pointer: string, code: string, detail: string): Ruling<never> {
  return { ok: false, errors: [{ pointer, code, detail }] }
}

export interface LifeRequest {
  readonly choice: keyof typeof choiceDays | 'custom'
  /** RFC 3339, with `custom`. */
  readonly expiresAt: string | undefined
  /** On the database clock. */
  readonly now: Date
  readonly maxKeyDays: number
}

/** Decides when a new key expires: in the future, and not beyond the tenant's maximum. */
export function decideExpiry({ choice, expiresAt, now, maxKeyDays }: LifeRequest): Ruling<Date> {
  const latest = now.valueOf() + maxKeyDays * dayMs
  if (choice !== 'custom') {
    const expiry = now.valueOf() + choiceDays[choice] * dayMs
    if (expiry > latest) return refuse('/expires_in', 'too_long', tooLong(maxKeyDays))
    return allow(new Date(expiry))
  }
  const expiry = Date.parse(expiresAt ?? '')
  // Written so that a date that cannot be read (NaN) is refused.
  if (!(expiry > now.valueOf())) return refuse('/expires_at', 'not_in_future', 'must be in the future')
  if (!(expiry <= latest)) return refuse('/expires_at', 'too_long', tooLong(maxKeyDays))
  return allow(new Date(expiry))
}

/** Decides when a key that replaces another expires: as asked, or as long as the old one was made for. */
export function decideSuccessorExpiry(
  request: Omit<LifeRequest, 'choice' | 'expiresAt'> & {
    readonly choice: keyof typeof choiceDays | undefined
    readonly madeForMs: number
  },
): Ruling<Date> {
  const { choice, madeForMs, now, maxKeyDays } = request
  if (choice !== undefined) return decideExpiry({ choice, expiresAt: undefined, now, maxKeyDays })
  return allow(new Date(now.valueOf() + Math.min(madeForMs, maxKeyDays * dayMs)))
}

function tooLong(maxKeyDays: number): string {
  return `must be at most ${maxKeyDays} days ahead, the maximum of this tenant`
}

const unitMs = { s: 1000, m: 60_000, h: 3_600_000, d: dayMs } as const

/** Decides how long the old key of a rotation still works, in milliseconds, from a text that the contract has accepted. */
export function decideOverlap(overlap: string): Ruling<number> {
  const [, count = '', unit = ''] = /^(\d{1,4})([smhd])$/.exec(overlap) ?? []
  const ms = unit === 's' || unit === 'm' || unit === 'h' || unit === 'd' ? Number(count) * unitMs[unit] : Number.NaN
  return ms >= 0 && ms <= maxOverlapMs ? allow(ms) : refuse('/overlap', 'too_long', 'must be at most 7 days (7d)')
}

/** Gives an address list in the form in which it is stored, without repeats. */
export function decideAddresses(given: readonly string[], pointer = '/allowed_addresses'): Ruling<string[]> {
  const errors: InputError[] = []
  const ranges = new Set<string>()
  for (const [place, text] of given.entries()) {
    const range = canonicalRange(text)
    if (range === undefined) {
      errors.push({
        pointer: `${pointer}/${place}`,
        code: 'invalid',
        detail: isDeprecatedRange(text) ? deprecatedAddress : addressForms,
      })
    } else {
      ranges.add(range)
    }
  }
  return errors.length > 0 ? { ok: false, errors } : allow([...ranges])
}

/** Refuses a list that lets in addresses outside the networks that the tenant requires. */
export function decideRequired(addresses: readonly string[], required: readonly string[]): Ruling<readonly string[]> {
  if (required.length === 0) return allow(addresses)
  const networks = required.join(', ')
  if (addresses.length === 0) {
    return refuse(
      '/allowed_addresses',
      'required',
      `must name addresses: this tenant requires them, within ${networks}`,
    )
  }
  const errors = addresses.flatMap((range, place): InputError[] =>
    isNarrowerOrEqualList([range], required)
      ? []
      : [
          {
            pointer: `/allowed_addresses/${place}`,
            code: 'outside_required',
            detail: `must lie within ${networks}, which this tenant requires`,
          },
        ],
  )
  return errors.length > 0 ? { ok: false, errors } : allow(addresses)
}

const keyInText = /postern_[0-9A-Za-z]{49}/

/** Refuses a text that holds a key: people paste what they are talking about, and a label or reason is kept and shown. */
export function decideText(pointer: string, text: string): Ruling<string> {
  return keyInText.test(text)
    ? refuse(pointer, 'holds_key', 'must not hold a key; its last four characters say which')
    : allow(text)
}

/** What of a key can be changed. */
export interface Mutable {
  readonly label: string
  readonly scopes: readonly string[]
  readonly addresses: readonly string[]
  readonly expiresAt: Date
}

export type Change =
  | { readonly kind: 'refused'; readonly errors: readonly InputError[] }
  | {
      readonly kind: 'change'
      /** The key as it shall be. */
      readonly next: Mutable
      /** For the audit trail: what changes, from what to what. Empty when nothing does. */
      readonly changes: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>
      /** Whether something was possible before that is not any more. */
      readonly isNarrowing: boolean
    }

/** Decides a change of a key: the label is free, everything else may become narrower and never wider. */
export function decideChange(current: Mutable, wanted: Partial<Mutable>): Change {
  const next = { ...current, ...wanted }
  const errors: InputError[] = []
  if (!isNarrowerOrEqual(next.scopes, current.scopes)) errors.push(wider('/scopes', 'scopes that it does not have'))
  if (!isNarrowerOrEqualList(next.addresses, current.addresses)) {
    errors.push(wider('/allowed_addresses', 'addresses that are not in its list'))
  }
  if (!(next.expiresAt <= current.expiresAt)) errors.push(wider('/expires_at', 'a later expiry'))
  if (errors.length > 0) return { kind: 'refused', errors }

  const changes: Record<string, { from: unknown; to: unknown }> = {}
  if (next.label !== current.label) changes['label'] = { from: current.label, to: next.label }
  if (!isSameList(next.scopes, current.scopes)) changes['scopes'] = { from: current.scopes, to: next.scopes }
  if (!isSameList(next.addresses, current.addresses)) {
    changes['allowed_addresses'] = { from: current.addresses, to: next.addresses }
  }
  if (next.expiresAt.valueOf() !== current.expiresAt.valueOf()) {
    changes['expires_at'] = { from: current.expiresAt.toISOString(), to: next.expiresAt.toISOString() }
  }
  return { kind: 'change', next, changes, isNarrowing: Object.keys(changes).some((field) => field !== 'label') }
}

function wider(pointer: string, what: string): InputError {
  return { pointer, code: 'widens', detail: `would give the key ${what}` }
}

function isSameList(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((value, place) => value === right[place])
}
