import { type GrantableScope, type HealthReason, type KeyState, scopesWith } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import { type KeyRow, type StoredKey, keyColumns, toKey } from './stored-key.ts'

export interface KeyFilter {
  readonly states: readonly KeyState[] | undefined
  /** Matches keys with one of these scopes, also through a wildcard. */
  readonly scopes: readonly GrantableScope[] | undefined
  /** Matches part of the label, case-insensitively. */
  readonly label: string | undefined
  /** The id of a person or the e-mail address of a team. */
  readonly owner: string | undefined
  /** Matches active keys with one of these reasons. */
  readonly health: readonly HealthReason[] | undefined
  /** RFC 3339, as is `unusedSince`. */
  readonly expiresBefore: string | undefined
  readonly unusedSince: string | undefined
}

interface Condition {
  readonly value: unknown
  text(parameter: string): string
}

/** Each filter has its own statement, so that PostgreSQL can choose an index for it. */
function conditionsOf(filter: KeyFilter): Readonly<Record<string, Condition>> {
  const { states, scopes, label, owner, expiresBefore, unusedSince } = filter
  return {
    state: {
      value: states,
      text: (parameter) => `
        case when k.revoked_at is not null then 'revoked' when k.expires_at <= clock_timestamp() then 'expired' else 'active' end
          = any (${parameter}::text[])`,
    },
    scope: { value: scopes?.flatMap(scopesWith), text: (parameter) => `k.scopes && ${parameter}::text[]` },
    label: {
      value: label === undefined ? undefined : `%${label.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`,
      text: (parameter) => `k.label ilike ${parameter}`,
    },
    owner: { value: owner, text: (parameter) => `coalesce(k.owner_id, k.owner_contact) = ${parameter}` },
    expires: { value: expiresBefore, text: (parameter) => `k.expires_at < ${parameter}::timestamptz` },
    unused: {
      value: unusedSince,
      text: (parameter) => `coalesce(k.last_used_at, '-infinity') < ${parameter}::timestamptz`,
    },
  }
}

function selectionOf(filter: KeyFilter, firstParameter: number) {
  const given = Object.entries(conditionsOf(filter)).filter(([, { value }]) => value !== undefined)
  return {
    /** For the name of the statement. */
    suffix: given.map(([word]) => `_${word}`).join(''),
    where: given.map(([, { text }], place) => ` and ${text(`$${firstParameter + place}`)}`).join(''),
    values: given.map(([, { value }]) => value),
  }
}

/**
 * Lists keys after the id `after`, newest first: UUIDv7 ids grow with time. Served by api_key_pk, api_key_expires or
 * api_key_last_used, or for each reason by api_key_health_by_reason.
 */
export async function listKeys(
  tx: Tx,
  filter: KeyFilter,
  page: { readonly after: string | undefined; readonly limit: number },
): Promise<StoredKey[]> {
  const reasons = filter.health
  const { suffix, where, values } = selectionOf(filter, reasons === undefined ? 3 : 4)
  const ofReason = `
             cross join lateral (
                     select h.key_id as id
                       from keys.api_key_health as h${
                         where === '' ? '' : ' join keys.api_key as k on k.tenant_id = h.tenant_id and k.id = h.key_id'
                       }
                      where h.reason = r.reason
                        and ($1::uuid is null or h.key_id < $1)${where}
                      order by h.key_id desc
                      limit $2) as k`
  const rows = await tx.query<KeyRow>({
    name: `keys_list_keys${reasons === undefined ? '' : '_of_reasons'}${suffix}`,
    // Finds the ids first, because an index alone can return them.
    text: `
      with found as (
        select ${reasons === undefined ? 'k.id' : 'distinct k.id'}
          from ${reasons === undefined ? 'keys.api_key as k' : `unnest($3::text[]) as r (reason)${ofReason}`}
         where ($1::uuid is null or k.id < $1)${reasons === undefined ? where : ''}
         order by k.id desc
         limit $2)
      select ${keyColumns}
        from found
        join keys.api_key as k on k.id = found.id
       order by k.id desc`,
    values: [page.after ?? null, page.limit, ...(reasons === undefined ? [] : [reasons]), ...values],
  })
  return rows.map(toKey)
}

export async function countKeys(tx: Tx, filter: KeyFilter): Promise<number> {
  const reasons = filter.health
  const { suffix, where, values } = selectionOf(filter, reasons === undefined ? 1 : 2)
  const [row] = await tx.query<{ count: number }>(
    reasons === undefined
      ? {
          name: `keys_count_keys${suffix}`,
          text: `select count(*)::float8 as count from keys.api_key as k where true${where}`,
          values,
        }
      : {
          name: `keys_count_keys_of_reasons${suffix}`,
          text: `
            select count(*)::float8 as count
              from (select distinct h.tenant_id, h.key_id from keys.api_key_health as h where h.reason = any ($1)) as h
              join keys.api_key as k on k.tenant_id = h.tenant_id and k.id = h.key_id
             where true${where}`,
          values: [reasons, ...values],
        },
  )
  return row?.count ?? 0
}

export async function countActiveKeys(tx: Tx): Promise<number> {
  const [row] = await tx.query<{ count: number }>({
    name: 'keys_count_active_keys',
    text: `
      select count(*)::float8 as count
        from keys.api_key as k
       where k.revoked_at is null
         and k.expires_at > clock_timestamp()`,
    values: [],
  })
  return row?.count ?? 0
}
