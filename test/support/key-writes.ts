import type { TestStack } from '@postern/local-stack/testing'
import { type History, type Key, narrowedScopes } from './promises.ts'
import { select } from './writes.ts'

/** The stored state of a key. */
export interface StoredKey {
  readonly tenantId: string
  readonly scopes: readonly string[]
  readonly isRevoked: boolean
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
  /** The number of audit events by type. */
  readonly events: Readonly<Record<string, number>>
}

/** The stored state of a tenant. Its version starts at 1 and grows with each status change. */
export interface StoredTenant {
  readonly status: string
  readonly version: number
}

/** By id. */
export interface StoredChanges {
  readonly keys: ReadonlyMap<string, StoredKey>
  readonly tenants: ReadonlyMap<string, StoredTenant>
}

/** Reads keys and tenants from PostgreSQL. */
export async function readChanges(stack: TestStack): Promise<StoredChanges> {
  const keys = await select<StoredKey & { id: string }>(
    stack,
    `select k.id, k.tenant_id as "tenantId", k.scopes, k.revoked_at is not null as "isRevoked",
            (extract(epoch from k.expires_at) * 1000)::double precision as "expiresAt",
            coalesce((select jsonb_object_agg(e.type, e.times)
                        from (select type, count(*) as times from keys.api_key_event as e
                               where e.tenant_id = k.tenant_id and e.key_id = k.id group by type) as e), '{}') as events
       from keys.api_key as k`,
  )
  const tenants = await select<StoredTenant & { id: string }>(
    stack,
    `select tenant_id as id, status, version from keys.tenant`,
  )
  return {
    keys: new Map(keys.map((key) => [key.id, key])),
    tenants: new Map(tenants.map((tenant) => [tenant.id, tenant])),
  }
}

/**
 * Returns differences between stored data and responses, one per line: changes must be stored once, with their audit
 * event, and nothing else may have changed.
 */
export function findWrongChanges(
  { keys, changes }: Pick<History, 'keys' | 'changes'>,
  stored: StoredChanges,
): string[] {
  const changesOf = Map.groupBy(changes, ({ of }) => of)
  const ofKeys = keys.flatMap((key) => {
    const found = stored.keys.get(key.id)
    if (found === undefined) return [`key ${key.id} was made and is not there`]
    const ofKey = changesOf.get(key.id) ?? []
    const stateOf = (kind: 'revoked' | 'narrowed'): Asked => {
      const asked = ofKey.filter((change) => change.kind === kind)
      return asked.length === 0
        ? 'not asked'
        : asked.some(({ returnedAt }) => returnedAt !== undefined)
          ? 'done'
          : 'open'
    }
    return wrongOfKey(key, found, stateOf('revoked'), stateOf('narrowed')).map((what) => `key ${key.id} ${what}`)
  })
  const ofTenants = [...changesOf].flatMap(([id, ofTenant]) => {
    const last = ofTenant.findLast(({ kind }) => kind === 'suspended' || kind === 'resumed')
    if (last === undefined || ofTenant.some(({ returnedAt }) => returnedAt === undefined)) return []
    const { status, version } = stored.tenants.get(id) ?? { status: 'not there', version: 0 }
    const expected = last.kind === 'suspended' ? 'suspended' : 'active'
    return [
      ...(status === expected ? [] : [`tenant ${id} was ${last.kind} and is ${status}`]),
      ...(version === 1 + ofTenant.length
        ? []
        : [`tenant ${id} was suspended and resumed ${ofTenant.length} times, and ${version - 1} are stored`]),
    ]
  })
  return [...ofKeys, ...ofTenants]
}

/** Whether a change was requested and had returned. */
type Asked = 'not asked' | 'open' | 'done'

function wrongOfKey(key: Key, found: StoredKey, revoked: Asked, narrowed: Asked): string[] {
  const { created = 0, revoked: timesRevoked = 0, updated = 0 } = found.events
  const isNarrow = sameSet(found.scopes, narrowedScopes)
  const wrong: readonly (readonly [boolean, string])[] = [
    [found.tenantId !== key.tenantId, `is of tenant ${found.tenantId}, made for ${key.tenantId}`],
    [found.expiresAt !== key.expiresAt, 'expires at another time than was answered'],
    [created !== 1, `was made once, and noted ${created} times`],
    [revoked === 'done' && !found.isRevoked, 'was revoked and is not'],
    [revoked === 'not asked' && found.isRevoked, 'is revoked, and nobody has asked for it'],
    [timesRevoked !== (found.isRevoked ? 1 : 0), `has its revocation ${timesRevoked} times in the audit trail`],
    [narrowed === 'done' && !isNarrow, 'was narrowed and is not'],
    [narrowed === 'done' && updated !== 1, `was narrowed once, and noted ${updated} times`],
    [
      narrowed === 'not asked' && (updated !== 0 || (key.scopes !== undefined && !sameSet(found.scopes, key.scopes))),
      'has other scopes than it was made with',
    ],
  ]
  return wrong.filter(([isWrong]) => isWrong).map(([, what]) => what)
}

function sameSet(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((scope) => other.includes(scope))
}
