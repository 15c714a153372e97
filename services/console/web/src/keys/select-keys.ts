import { type ApiKey, type GrantableScope, type KeyState, scopesWith } from '@postern/contracts'

const dayMs = 86_400_000
export const expiringDays = 14

export type Attention = 'expiring' | 'old'

/** Revoking is final. */
export function canChange({ state }: Pick<ApiKey, 'state'>): boolean {
  return state !== 'revoked'
}

const none: ReadonlySet<string> = new Set()

/** Keys with a successor that is not revoked. */
export function rotatedIds(keys: readonly ApiKey[]): ReadonlySet<string> {
  return new Set(keys.flatMap(({ rotated_from: from, state }) => (from === null || state === 'revoked' ? [] : [from])))
}

/**
 * Returns why a key needs attention, the most urgent reason first. `rotationDays` is the age of the key policy;
 * `rotated` contains ids of rotated keys.
 */
export function attentionOf(
  key: ApiKey,
  now: number,
  rotationDays: number,
  rotated: ReadonlySet<string> = none,
): readonly Attention[] {
  if (key.state !== 'active' || rotated.has(key.id)) return []
  const isExpiring = Date.parse(key.expires_at) - now <= expiringDays * dayMs
  const isOld = now - Date.parse(key.created_at) > rotationDays * dayMs
  return [...(isExpiring ? (['expiring'] as const) : []), ...(isOld ? (['old'] as const) : [])]
}

export const columns = ['label', 'state', 'created_by', 'created_at', 'expires_at', 'last_used_at'] as const
export type Column = (typeof columns)[number]

export interface Sorting {
  readonly column: Column
  readonly isDescending: boolean
}

export interface Filter {
  /** Part of the label, last four characters, creator or owner; case-insensitive. */
  readonly text: string
  readonly state: KeyState | 'all'
  readonly scope: GrantableScope | 'all'
  readonly needsAttention: boolean
}

export const noFilter: Filter = { text: '', state: 'all', scope: 'all', needsAttention: false }

export function isFiltering(filter: Filter): boolean {
  return filter.text.trim() !== '' || filter.state !== 'all' || filter.scope !== 'all' || filter.needsAttention
}

export function selectKeys(
  keys: readonly ApiKey[],
  filter: Filter,
  sorting: Sorting,
  now: number,
  rotationDays: number,
): readonly ApiKey[] {
  const text = filter.text.trim().toLowerCase()
  const scopes = filter.scope === 'all' ? undefined : scopesWith(filter.scope)
  const rotated = rotatedIds(keys)
  const left = keys.filter(
    (key) =>
      (filter.state === 'all' || key.state === filter.state) &&
      (scopes === undefined || key.scopes.some((scope) => scopes.includes(scope))) &&
      (!filter.needsAttention || attentionOf(key, now, rotationDays, rotated).length > 0) &&
      (text === '' ||
        key.label.toLowerCase().includes(text) ||
        key.masked.toLowerCase().includes(text) ||
        key.created_by.label.toLowerCase().includes(text) ||
        [key.owner?.name, key.owner?.id, key.owner?.contact].some((part) => part?.toLowerCase().includes(text))),
  )
  const sign = sorting.isDescending ? -1 : 1
  const isTime = sorting.column.endsWith('_at')
  const compare = (one: string, other: string) => {
    // Timestamps sort as text.
    if (isTime) return one === other ? 0 : one < other ? -1 : 1
    return words.compare(one, other)
  }
  const values = new Map(left.map((key) => [key.id, valueOf(key, sorting.column)]))
  return left.toSorted((one, other) => {
    const difference = compare(values.get(one.id) ?? '', values.get(other.id) ?? '')
    return difference === 0 ? (one.id < other.id ? 1 : -1) : sign * difference
  })
}

const words = new Intl.Collator(undefined, { sensitivity: 'base', numeric: true })

function valueOf(key: ApiKey, column: Column): string {
  switch (column) {
    case 'created_by':
      return key.created_by.label
    case 'last_used_at':
      return key.last_used_at ?? ''
    default:
      return key[column]
  }
}

export function countKeys(keys: readonly ApiKey[], now: number, rotationDays: number) {
  const counts = { all: keys.length, active: 0, expired: 0, revoked: 0, expiring: 0, old: 0, attention: 0 }
  const rotated = rotatedIds(keys)
  for (const key of keys) {
    counts[key.state] += 1
    const attention = attentionOf(key, now, rotationDays, rotated)
    if (attention.includes('expiring')) counts.expiring += 1
    if (attention.includes('old')) counts.old += 1
    if (attention.length > 0) counts.attention += 1
  }
  return counts
}
