import { type GrantableScope, type HealthReason, type KeyOwner, type KeyState, scopesWith } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import type { Actor } from '../actor.ts'
import type { Owner } from './owner.ts'

/** Contains the hash: never log or return it. */
export interface StoredKey {
  readonly id: string
  /** SHA-256 of the key, lower-case hex. */
  readonly hash: string
  readonly lastFour: string
  readonly label: string
  readonly note: string | null
  readonly owner: Owner | null
  /** When the directory deactivated the owner. */
  readonly ownerLeftAt: Date | null
  readonly scopes: readonly string[]
  readonly addresses: readonly string[]
  readonly createdBy: Actor
  readonly createdAt: Date
  readonly expiresAt: Date
  /** The time from creation to the original expiry. */
  readonly lifetimeMs: number
  readonly revoked: { readonly at: Date; readonly by: Actor; readonly reason: string | null } | null
  readonly lastUsedAt: Date | null
  readonly lastRefusedAt: Date | null
  readonly rotatedFrom: string | null
  readonly version: number
  /** On the database clock. */
  readonly readAt: Date
}

export interface NewKey {
  readonly hash: string
  readonly lastFour: string
  readonly label: string
  readonly note: string | null
  readonly owner: Owner | null
  readonly scopes: readonly string[]
  readonly addresses: readonly string[]
  readonly createdAt: Date
  readonly expiresAt: Date
  readonly rotatedFrom: string | null
}

interface KeyRow {
  readonly [column: string]: unknown
  readonly id: string
  readonly hash: string
  readonly last_four: string
  readonly label: string
  readonly note: string | null
  readonly owner_type: KeyOwner['type'] | null
  readonly owner_id: string | null
  readonly owner_name: string | null
  readonly owner_contact: string | null
  readonly owner_left_at: Date | null
  readonly scopes: string[]
  readonly allowed_addresses: string[]
  readonly created_by_type: string
  readonly created_by_id: string
  readonly created_by_label: string
  readonly created_at: Date
  readonly expires_at: Date
  readonly lifetime_ms: number
  readonly revoked_at: Date | null
  readonly revoked_by_type: string | null
  readonly revoked_by_id: string | null
  readonly revoked_by_label: string | null
  readonly revoke_reason: string | null
  readonly last_used_at: Date | null
  readonly last_refused_at: Date | null
  readonly rotated_from: string | null
  readonly version: number
  readonly read_at: Date
}

const columns = `
  k.id, encode(k.hash, 'hex') as hash, k.last_four, k.label, k.note,
  k.owner_type, k.owner_id, k.owner_name, k.owner_contact,
  (select m.left_at from keys.member as m where m.id = k.owner_id) as owner_left_at,
  k.scopes, k.allowed_addresses::text[] as allowed_addresses,
  k.created_by_type, k.created_by_id, k.created_by_label, k.created_at, k.expires_at,
  (extract(epoch from k.made_for) * 1000)::float8 as lifetime_ms,
  k.revoked_at, k.revoked_by_type, k.revoked_by_id, k.revoked_by_label, k.revoke_reason,
  k.last_used_at, k.last_refused_at, k.rotated_from, k.version, clock_timestamp() as read_at`

export async function insertKey(tx: Tx, tenantId: string, key: NewKey, actor: Actor): Promise<StoredKey> {
  const [row] = await tx.query<KeyRow>({
    name: 'keys_insert_key',
    text: `
      with made as (
        insert into keys.api_key as k (
          tenant_id, hash, last_four, label, scopes, allowed_addresses,
          created_by_type, created_by_id, created_by_label, created_at, expires_at, rotated_from,
          note, owner_type, owner_id, owner_name, owner_contact)
        values ($1, decode($2, 'hex'), $3, $4, $5, $6::text[]::cidr[], $7, $8, $9, $10, $11, $12, $14, $15, $16, $17, $18)
        returning ${columns}),
      noted as (
        insert into keys.api_key_event (tenant_id, key_id, type, actor_type, actor_id, actor_label, detail)
        select $1, made.id, 'created', $7, $8, $9,
               jsonb_strip_nulls(jsonb_build_object(
                 'label', made.label, 'scopes', made.scopes, 'allowed_addresses', made.allowed_addresses,
                 'expires_at', $13::text, 'rotated_from', made.rotated_from, 'note', made.note, 'owner', $19::jsonb))
          from made)
      select * from made`,
    values: [
      tenantId,
      key.hash,
      key.lastFour,
      key.label,
      key.scopes,
      key.addresses,
      actor.type,
      actor.id,
      actor.label,
      key.createdAt.toISOString(),
      key.expiresAt.toISOString(),
      key.rotatedFrom,
      key.expiresAt.toISOString(),
      key.note,
      ...ownerValues(key.owner),
      key.owner === null ? null : JSON.stringify(key.owner),
    ],
  })
  if (row === undefined) throw new Error('the insert returned no row')
  return toKey(row)
}

/** Served by api_key_pk. */
export async function findKey(tx: Tx, id: string): Promise<StoredKey | undefined> {
  const [row] = await tx.query<KeyRow>({
    name: 'keys_find_key',
    text: `select ${columns} from keys.api_key as k where k.id = $1`,
    values: [id],
  })
  return row === undefined ? undefined : toKey(row)
}

/** Served by api_key_hash_unique. */
export async function findKeyByHash(tx: Tx, hash: string): Promise<StoredKey | undefined> {
  const [row] = await tx.query<KeyRow>({
    name: 'keys_find_key_by_hash',
    text: `select ${columns} from keys.api_key as k where k.hash = decode($1, 'hex')`,
    values: [hash],
  })
  return row === undefined ? undefined : toKey(row)
}

export async function findKeyForChange(tx: Tx, id: string): Promise<StoredKey | undefined> {
  const [row] = await tx.query<KeyRow>({
    name: 'keys_find_key_for_change',
    text: `select ${columns} from keys.api_key as k where k.id = $1 for no key update`,
    values: [id],
  })
  return row === undefined ? undefined : toKey(row)
}

/** Returns those of the keys that exist, in the order of their ids. */
export async function findKeys(tx: Tx, ids: readonly string[]): Promise<StoredKey[]> {
  const rows = await tx.query<KeyRow>({
    name: 'keys_find_keys',
    text: `select ${columns} from keys.api_key as k where k.id = any ($1::uuid[]) order by k.id`,
    values: [ids],
  })
  return rows.map(toKey)
}

/** Locks in the order of the ids, as every statement over several keys does. */
export async function findKeysForChange(tx: Tx, ids: readonly string[]): Promise<StoredKey[]> {
  const rows = await tx.query<KeyRow>({
    name: 'keys_find_keys_for_change',
    text: `
      select ${columns} from keys.api_key as k where k.id = any ($1::uuid[]) order by k.id for no key update`,
    values: [ids],
  })
  return rows.map(toKey)
}

/** Returns the active key that replaces this one. Lock the old key first. Served by api_key_successor. */
export async function findLiveSuccessor(tx: Tx, id: string): Promise<string | undefined> {
  const [row] = await tx.query<{ id: string }>({
    name: 'keys_find_live_successor',
    text: `
      select k.id
        from keys.api_key as k
       where k.rotated_from = $1
         and k.revoked_at is null
         and k.expires_at > clock_timestamp()
       order by k.id desc
       limit 1`,
    values: [id],
  })
  return row?.id
}

/** Otherwise rotations of each new key would give any number of active keys. */
export async function isPredecessorActive(tx: Tx, id: string | null): Promise<boolean> {
  if (id === null) return false
  const rows = await tx.query<{ id: string }>({
    name: 'keys_find_active_predecessor',
    text: 'select k.id from keys.api_key as k where k.id = $1 and k.revoked_at is null and k.expires_at > clock_timestamp()',
    values: [id],
  })
  return rows.length > 0
}

/**
 * Revokes a key and records the event in one statement. Undefined if it is already revoked or missing. Concurrent calls
 * record one event.
 */
export async function revokeKey(
  tx: Tx,
  { id, reason, actor }: { id: string; reason: string | undefined; actor: Actor },
): Promise<StoredKey | undefined> {
  const [row] = await tx.query<KeyRow>({
    name: 'keys_revoke_key',
    text: `
      with revoked as (
        update keys.api_key as k
           set revoked_at = clock_timestamp(), revoked_by_type = $2, revoked_by_id = $3, revoked_by_label = $4,
               revoke_reason = $5
         where k.id = $1
           and k.revoked_at is null
        returning k.tenant_id, ${columns}),
      noted as (
        insert into keys.api_key_event (tenant_id, key_id, type, actor_type, actor_id, actor_label, detail)
        select revoked.tenant_id, revoked.id, 'revoked', $2, $3, $4,
               jsonb_strip_nulls(jsonb_build_object('reason', revoked.revoke_reason))
          from revoked)
      select * from revoked`,
    values: [id, actor.type, actor.id, actor.label, reason ?? null],
  })
  return row === undefined ? undefined : toKey(row)
}

/** Changes a key and records the event in one statement. PostgreSQL rejects changes that widen or reactivate it. */
export async function updateKey(
  tx: Tx,
  change: {
    readonly id: string
    readonly label: string
    readonly note: string | null
    readonly owner: Owner | null
    readonly scopes: readonly string[]
    readonly addresses: readonly string[]
    readonly expiresAt: Date
    readonly event: 'updated' | 'rotated'
    readonly detail: Readonly<Record<string, unknown>>
    readonly actor: Actor
  },
): Promise<StoredKey> {
  const { actor } = change
  const [row] = await tx.query<KeyRow>({
    name: 'keys_update_key',
    text: `
      with changed as (
        update keys.api_key as k
           set label = $2, scopes = $3, allowed_addresses = $4::text[]::cidr[], expires_at = $5,
               note = $11, owner_type = $12, owner_id = $13, owner_name = $14, owner_contact = $15
         where k.id = $1
        returning k.tenant_id, ${columns}),
      noted as (
        insert into keys.api_key_event (tenant_id, key_id, type, actor_type, actor_id, actor_label, detail)
        select changed.tenant_id, changed.id, $6, $7, $8, $9, $10
          from changed)
      select * from changed`,
    values: [
      change.id,
      change.label,
      change.scopes,
      change.addresses,
      change.expiresAt.toISOString(),
      change.event,
      actor.type,
      actor.id,
      actor.label,
      JSON.stringify(change.detail),
      change.note,
      ...ownerValues(change.owner),
    ],
  })
  if (row === undefined) throw new Error('the locked key no longer exists')
  return toKey(row)
}

/** Revokes locked keys and records an event for each. Returns those that were not revoked before. */
export async function revokeKeys(
  tx: Tx,
  { ids, reason, bulk, actor }: { ids: readonly string[]; reason: string | undefined; bulk: string; actor: Actor },
): Promise<StoredKey[]> {
  const rows = await tx.query<KeyRow>({
    name: 'keys_revoke_keys',
    text: `
      with revoked as (
        update keys.api_key as k
           set revoked_at = clock_timestamp(), revoked_by_type = $2, revoked_by_id = $3, revoked_by_label = $4,
               revoke_reason = $5
         where k.id = any ($1::uuid[])
           and k.revoked_at is null
        returning k.tenant_id, ${columns}),
      noted as (
        insert into keys.api_key_event (tenant_id, key_id, type, actor_type, actor_id, actor_label, detail)
        select revoked.tenant_id, revoked.id, 'revoked', $2, $3, $4,
               jsonb_strip_nulls(jsonb_build_object('reason', revoked.revoke_reason, 'bulk', $6::text))
          from revoked)
      select * from revoked`,
    values: [ids, actor.type, actor.id, actor.label, reason ?? null, bulk],
  })
  return rows.map(toKey)
}

export interface KeyChange {
  readonly id: string
  readonly label: string
  readonly owner: Owner | null
  readonly expiresAt: Date
  readonly detail: Readonly<Record<string, unknown>>
}

/** Changes locked keys and records an event for each. PostgreSQL rejects changes that widen a key. */
export async function updateKeys(
  tx: Tx,
  { changes, actor }: { changes: readonly KeyChange[]; actor: Actor },
): Promise<StoredKey[]> {
  const rows = await tx.query<KeyRow>({
    name: 'keys_update_keys',
    text: `
      with wanted as (
        select w.*
          from jsonb_to_recordset($1::jsonb) as w (
            id uuid, label text, "expiresAt" timestamptz, owner jsonb, detail jsonb)),
      changed as (
        update keys.api_key as k
           set label = w.label, expires_at = w."expiresAt",
               owner_type = w.owner ->> 'type', owner_id = w.owner ->> 'id',
               owner_name = w.owner ->> 'name', owner_contact = w.owner ->> 'contact'
          from wanted as w
         where k.id = w.id
        returning k.tenant_id, w.detail, ${columns}),
      noted as (
        insert into keys.api_key_event (tenant_id, key_id, type, actor_type, actor_id, actor_label, detail)
        select changed.tenant_id, changed.id, 'updated', $2, $3, $4, changed.detail
          from changed)
      select * from changed`,
    values: [JSON.stringify(changes), actor.type, actor.id, actor.label],
  })
  return rows.map(toKey)
}

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
  /** `at` is the place of the value. */
  text(at: string): string
}

/** Only the conditions of the filter are in the statement, so that PostgreSQL can choose an index for them. */
function conditionsOf(filter: KeyFilter): Readonly<Record<string, Condition>> {
  const { states, scopes, label, owner, expiresBefore, unusedSince } = filter
  return {
    state: {
      value: states,
      text: (at) => `
        case when k.revoked_at is not null then 'revoked' when k.expires_at <= clock_timestamp() then 'expired' else 'active' end
          = any (${at}::text[])`,
    },
    scope: { value: scopes?.flatMap(scopesWith), text: (at) => `k.scopes && ${at}::text[]` },
    label: {
      value: label === undefined ? undefined : `%${label.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`,
      text: (at) => `k.label ilike ${at}`,
    },
    owner: { value: owner, text: (at) => `coalesce(k.owner_id, k.owner_contact) = ${at}` },
    expires: { value: expiresBefore, text: (at) => `k.expires_at < ${at}::timestamptz` },
    unused: { value: unusedSince, text: (at) => `coalesce(k.last_used_at, '-infinity') < ${at}::timestamptz` },
  }
}

function selectionOf(filter: KeyFilter, firstPlace: number) {
  const given = Object.entries(conditionsOf(filter)).filter(([, { value }]) => value !== undefined)
  return {
    /** For the name of the statement. */
    suffix: given.map(([word]) => `_${word}`).join(''),
    where: given.map(([, { text }], place) => ` and ${text(`$${firstPlace + place}`)}`).join(''),
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
    // The ids first: an index can have them all.
    text: `
      with found as (
        select ${reasons === undefined ? 'k.id' : 'distinct k.id'}
          from ${reasons === undefined ? 'keys.api_key as k' : `unnest($3::text[]) as r (reason)${ofReason}`}
         where ($1::uuid is null or k.id < $1)${reasons === undefined ? where : ''}
         order by k.id desc
         limit $2)
      select ${columns}
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

function ownerValues(owner: Owner | null): unknown[] {
  return [owner?.type ?? null, owner?.id ?? null, owner?.name ?? null, owner?.contact ?? null]
}

function toOwner(row: KeyRow): Owner | null {
  const { owner_type: type, owner_id: id, owner_name: name, owner_contact: contact } = row
  return type === null || name === null ? null : { type, id, name, contact }
}

function toKey(row: KeyRow): StoredKey {
  return {
    id: row.id,
    hash: row.hash,
    lastFour: row.last_four,
    label: row.label,
    note: row.note,
    owner: toOwner(row),
    ownerLeftAt: row.owner_left_at,
    scopes: row.scopes,
    addresses: row.allowed_addresses,
    createdBy: { type: row.created_by_type, id: row.created_by_id, label: row.created_by_label },
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    lifetimeMs: row.lifetime_ms,
    revoked:
      row.revoked_at === null
        ? null
        : {
            at: row.revoked_at,
            by: {
              type: row.revoked_by_type ?? '',
              id: row.revoked_by_id ?? '',
              label: row.revoked_by_label ?? '',
            },
            reason: row.revoke_reason,
          },
    lastUsedAt: row.last_used_at,
    lastRefusedAt: row.last_refused_at,
    rotatedFrom: row.rotated_from,
    version: row.version,
    readAt: row.read_at,
  }
}
