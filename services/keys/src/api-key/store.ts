import type { Tx } from '@postern/tenant-db'
import type { Actor } from '../actor.ts'
import type { Owner } from './owner.ts'
import { type KeyRow, type StoredKey, keyColumns, toKey } from './stored-key.ts'

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
        returning ${keyColumns}),
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
    text: `select ${keyColumns} from keys.api_key as k where k.id = $1`,
    values: [id],
  })
  return row === undefined ? undefined : toKey(row)
}

/** Served by api_key_hash_unique. */
export async function findKeyByHash(tx: Tx, hash: string): Promise<StoredKey | undefined> {
  const [row] = await tx.query<KeyRow>({
    name: 'keys_find_key_by_hash',
    text: `select ${keyColumns} from keys.api_key as k where k.hash = decode($1, 'hex')`,
    values: [hash],
  })
  return row === undefined ? undefined : toKey(row)
}

export async function findKeyForChange(tx: Tx, id: string): Promise<StoredKey | undefined> {
  const [row] = await tx.query<KeyRow>({
    name: 'keys_find_key_for_change',
    text: `select ${keyColumns} from keys.api_key as k where k.id = $1 for no key update`,
    values: [id],
  })
  return row === undefined ? undefined : toKey(row)
}

/** Returns the keys that exist, in the order of their ids. */
export async function findKeys(tx: Tx, ids: readonly string[]): Promise<StoredKey[]> {
  const rows = await tx.query<KeyRow>({
    name: 'keys_find_keys',
    text: `select ${keyColumns} from keys.api_key as k where k.id = any ($1::uuid[]) order by k.id`,
    values: [ids],
  })
  return rows.map(toKey)
}

/** Locks in the order of the ids, as every statement over several keys does. */
export async function findKeysForChange(tx: Tx, ids: readonly string[]): Promise<StoredKey[]> {
  const rows = await tx.query<KeyRow>({
    name: 'keys_find_keys_for_change',
    text: `
      select ${keyColumns} from keys.api_key as k where k.id = any ($1::uuid[]) order by k.id for no key update`,
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

/** Without this check, rotating each new key would give any number of active keys. */
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
        returning k.tenant_id, ${keyColumns}),
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
        returning k.tenant_id, ${keyColumns}),
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
        returning k.tenant_id, ${keyColumns}),
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
        returning k.tenant_id, w.detail, ${keyColumns}),
      noted as (
        insert into keys.api_key_event (tenant_id, key_id, type, actor_type, actor_id, actor_label, detail)
        select changed.tenant_id, changed.id, 'updated', $2, $3, $4, changed.detail
          from changed)
      select * from changed`,
    values: [JSON.stringify(changes), actor.type, actor.id, actor.label],
  })
  return rows.map(toKey)
}

function ownerValues(owner: Owner | null): unknown[] {
  return [owner?.type ?? null, owner?.id ?? null, owner?.name ?? null, owner?.contact ?? null]
}
