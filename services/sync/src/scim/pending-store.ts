import type { PushedPerson } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import { getRow, statement } from '../sql/store.ts'

/** A push that the universe may have applied although the user is not stored. */
export interface PendingPush {
  readonly personKey: string
  /** Null if only units were pushed. */
  readonly pushed: PushedPerson | null
  /** The person if no user is stored. */
  readonly fallback: PushedPerson
  readonly unitKeys: readonly string[]
}

const insert = statement(
  'sync_scim_insert_pending',
  `insert into sync.scim_pending (tenant_id, person_key, pushed, fallback, unit_keys)
  values ((select tenancy.tenant_id()), $1, $2, $3, $4)
  returning id`,
)

export async function insertPendingPush(
  tx: Tx,
  { personKey, pushed, fallback, unitKeys }: PendingPush,
): Promise<string> {
  const values = [personKey, pushed === null ? null : JSON.stringify(pushed), JSON.stringify(fallback), unitKeys]
  return getRow(await tx.query<{ id: string }>(insert(values))).id
}

const remove = statement('sync_scim_delete_pending', 'delete from sync.scim_pending p where p.id = any ($1::uuid[])')

export async function deletePendingPushes(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await tx.execute(remove([ids]))
}

const list = statement(
  'sync_scim_list_pending',
  `select p.id, p.person_key as "personKey", p.pushed, p.fallback, p.unit_keys as "unitKeys",
    p.created_at < now() - make_interval(secs => $1) as "isAbandoned"
  from sync.scim_pending p
  order by p.id
  limit $2`,
)

/** Lists the oldest pushes. `isAbandoned`: older than `abandonedAfterSeconds`. */
export async function listPendingPushes(
  tx: Tx,
  { abandonedAfterSeconds, limit }: { readonly abandonedAfterSeconds: number; readonly limit: number },
): Promise<(PendingPush & { readonly id: string; readonly isAbandoned: boolean })[]> {
  return await tx.query<PendingPush & { id: string; isAbandoned: boolean }>(list([abandonedAfterSeconds, limit]))
}
