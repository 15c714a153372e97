import { isNarrowerOrEqual } from '@postern/api-key'
import { type InputError, type KeyOwner, addressForms, deprecatedAddress } from '@postern/contracts'
import { canonicalRange, isDeprecatedRange, isNarrowerOrEqualList } from './addresses.ts'

const dayMs = 24 * 60 * 60 * 1000

/** A year is always 365 days. */
const choiceDays = { '30d': 30, '90d': 90, '1y': 365 } as const

const maxOverlapMs = 7 * dayMs

export type RuleResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly errors: readonly InputError[] }

function allow<T>(value: T): RuleResult<T> {
  return { ok: true, value }
}

function refuse(pointer: string, code: string, detail: string): RuleResult<never> {
  return { ok: false, errors: [{ pointer, code, detail }] }
}

export interface ExpiryRequest {
  readonly choice: keyof typeof choiceDays | 'custom'
  /** RFC 3339; set if `choice` is `custom`. */
  readonly expiresAt: string | undefined
  /** On the database clock. */
  readonly now: Date
  readonly maxKeyDays: number
}

/** Returns the expiry, which must be in the future and within the tenant's maximum. */
export function decideExpiry({ choice, expiresAt, now, maxKeyDays }: ExpiryRequest): RuleResult<Date> {
  const latest = now.valueOf() + maxKeyDays * dayMs
  if (choice !== 'custom') {
    const expiry = now.valueOf() + choiceDays[choice] * dayMs
    if (expiry > latest) return refuse('/expires_in', 'too_long', tooLongDetail(maxKeyDays))
    return allow(new Date(expiry))
  }
  const expiry = Date.parse(expiresAt ?? '')
  // Also rejects invalid dates (NaN).
  if (!(expiry > now.valueOf())) return refuse('/expires_at', 'not_in_future', 'must be in the future')
  if (!(expiry <= latest)) return refuse('/expires_at', 'too_long', tooLongDetail(maxKeyDays))
  return allow(new Date(expiry))
}

/** Returns the requested expiry, or one after the old key's original lifetime. */
export function decideSuccessorExpiry(
  request: Omit<ExpiryRequest, 'choice' | 'expiresAt'> & {
    readonly choice: keyof typeof choiceDays | undefined
    readonly lifetimeMs: number
  },
): RuleResult<Date> {
  const { choice, lifetimeMs, now, maxKeyDays } = request
  if (choice !== undefined) return decideExpiry({ choice, expiresAt: undefined, now, maxKeyDays })
  return allow(new Date(now.valueOf() + Math.min(lifetimeMs, maxKeyDays * dayMs)))
}

function tooLongDetail(maxKeyDays: number): string {
  return `must be at most ${maxKeyDays} days ahead, the maximum for this tenant`
}

const unitMs = { s: 1000, m: 60_000, h: 3_600_000, d: dayMs } as const

/** Returns the overlap of a rotation in milliseconds. The contract has validated the text. */
export function decideOverlap(overlap: string): RuleResult<number> {
  const [, count = '', unit = ''] = /^(\d{1,4})([smhd])$/.exec(overlap) ?? []
  const ms = unit === 's' || unit === 'm' || unit === 'h' || unit === 'd' ? Number(count) * unitMs[unit] : Number.NaN
  return ms >= 0 && ms <= maxOverlapMs ? allow(ms) : refuse('/overlap', 'too_long', 'must be at most 7 days (7d)')
}

/** Returns the list in canonical form, without duplicates. */
export function decideAddresses(given: readonly string[], pointer = '/allowed_addresses'): RuleResult<string[]> {
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

/** Rejects addresses outside the networks that the tenant requires. */
export function decideRequired(
  addresses: readonly string[],
  required: readonly string[],
): RuleResult<readonly string[]> {
  if (required.length === 0) return allow(addresses)
  const networks = required.join(', ')
  if (addresses.length === 0) {
    return refuse(
      '/allowed_addresses',
      'required',
      `must list addresses within ${networks}, because this tenant requires them`,
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

/** Rejects wildcards if the tenant's policy forbids them. */
export function decideScopes<T extends string>(
  scopes: readonly T[],
  forbidWildcards: boolean,
): RuleResult<readonly T[]> {
  const errors = scopes.flatMap((scope, place): InputError[] =>
    forbidWildcards && scope.includes('*')
      ? [
          {
            pointer: `/scopes/${place}`,
            code: 'wildcard_forbidden',
            detail: 'must not be a wildcard, because this tenant forbids them; name the scopes',
          },
        ]
      : [],
  )
  return errors.length > 0 ? { ok: false, errors } : allow(scopes)
}

/** Rejects a missing owner if the tenant's policy requires one. */
export function decideOwner(owner: MutableFields['owner'], requireOwner: boolean): RuleResult<MutableFields['owner']> {
  return owner === null && requireOwner
    ? refuse('/owner', 'required', 'must name a person or a team, because this tenant requires an owner')
    : allow(owner)
}

const keyInText = /postern_[0-9A-Za-z]{49}/

/** Rejects a text with a key: labels and reasons are stored and shown, and people paste keys into them. */
export function decideText(pointer: string, text: string): RuleResult<string> {
  return keyInText.test(text)
    ? refuse(pointer, 'holds_key', 'must not contain a key; use its last four characters to identify it')
    : allow(text)
}

export interface MutableFields {
  readonly label: string
  readonly note: string | null
  readonly owner: Pick<KeyOwner, 'type' | 'id' | 'name' | 'contact'> | null
  readonly scopes: readonly string[]
  readonly addresses: readonly string[]
  readonly expiresAt: Date
}

export type Change =
  | { readonly kind: 'refused'; readonly errors: readonly InputError[] }
  | {
      readonly kind: 'change'
      readonly next: MutableFields
      /** For the audit trail; empty if nothing changes. */
      readonly changes: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>
      /** Whether the change removes a permission. */
      readonly isNarrowing: boolean
    }

/** Label, note and owner can change freely; every other field can only become narrower. */
export function decideChange(current: MutableFields, wanted: Partial<MutableFields>): Change {
  const next = { ...current, ...wanted }
  const errors: InputError[] = []
  if (!isNarrowerOrEqual(next.scopes, current.scopes))
    errors.push(wideningError('/scopes', 'scopes that it does not have'))
  if (!isNarrowerOrEqualList(next.addresses, current.addresses)) {
    errors.push(wideningError('/allowed_addresses', 'addresses that are not in its list'))
  }
  if (!(next.expiresAt <= current.expiresAt)) errors.push(wideningError('/expires_at', 'a later expiry'))
  if (errors.length > 0) return { kind: 'refused', errors }

  const changes: Record<string, { from: unknown; to: unknown }> = {}
  if (next.label !== current.label) changes['label'] = { from: current.label, to: next.label }
  if (next.note !== current.note) changes['note'] = { from: current.note, to: next.note }
  if (!isSameOwner(next.owner, current.owner)) changes['owner'] = { from: current.owner, to: next.owner }
  if (!isSameList(next.scopes, current.scopes)) changes['scopes'] = { from: current.scopes, to: next.scopes }
  if (!isSameList(next.addresses, current.addresses)) {
    changes['allowed_addresses'] = { from: current.addresses, to: next.addresses }
  }
  if (next.expiresAt.valueOf() !== current.expiresAt.valueOf()) {
    changes['expires_at'] = { from: current.expiresAt.toISOString(), to: next.expiresAt.toISOString() }
  }
  return { kind: 'change', next, changes, isNarrowing: Object.keys(changes).some(isNarrowable) }
}

const narrowable: ReadonlySet<string> = new Set(['scopes', 'allowed_addresses', 'expires_at'])

/** Whether a change of this field can remove a permission. */
export function isNarrowable(field: string): boolean {
  return narrowable.has(field)
}

function isSameOwner(left: MutableFields['owner'], right: MutableFields['owner']): boolean {
  if (left === null || right === null) return left === right
  // The name of a person follows the identity provider.
  return (
    left.type === right.type &&
    left.id === right.id &&
    left.contact === right.contact &&
    (left.type === 'person' || left.name === right.name)
  )
}

function wideningError(pointer: string, what: string): InputError {
  return { pointer, code: 'widens', detail: `would give the key ${what}` }
}

function isSameList(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((value, place) => value === right[place])
}
