import type { KeyOwner } from '@postern/contracts'
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
  /** The overlap that begins with the first use of the successor. */
  readonly pendingOverlap: string | null
  readonly version: number
  /** On the database clock. */
  readonly readAt: Date
}

/** A row of `keyColumns`. */
export interface KeyRow {
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
  readonly pending_overlap: string | null
  readonly version: number
  readonly read_at: Date
}

/** Columns of `keys.api_key as k`. */
export const keyColumns = `
  k.id, encode(k.hash, 'hex') as hash, k.last_four, k.label, k.note,
  k.owner_type, k.owner_id, k.owner_name, k.owner_contact,
  (select m.left_at from keys.member as m where m.id = k.owner_id) as owner_left_at,
  k.scopes, k.allowed_addresses::text[] as allowed_addresses,
  k.created_by_type, k.created_by_id, k.created_by_label, k.created_at, k.expires_at,
  (extract(epoch from k.made_for) * 1000)::float8 as lifetime_ms,
  k.revoked_at, k.revoked_by_type, k.revoked_by_id, k.revoked_by_label, k.revoke_reason,
  k.last_used_at, k.last_refused_at, k.rotated_from,
  (select p.overlap
     from keys.pending_overlap as p
     join keys.api_key as s on s.id = p.successor_id
    where p.key_id = k.id
      and s.revoked_at is null
      and s.expires_at > clock_timestamp()) as pending_overlap,
  k.version, clock_timestamp() as read_at`

export function toKey(row: KeyRow): StoredKey {
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
    pendingOverlap: row.pending_overlap,
    version: row.version,
    readAt: row.read_at,
  }
}

function toOwner(row: KeyRow): Owner | null {
  const { owner_type: type, owner_id: id, owner_name: name, owner_contact: contact } = row
  return type === null || name === null ? null : { type, id, name, contact }
}
