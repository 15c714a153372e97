import type { Logger } from '@postern/service-kit'
import type { TenantDb, Tx } from '@postern/tenant-db'
import type { Enforcer } from '../revocation/revoke.ts'

const batchSize = 500

/** Lets the overlap of the old key begin with the first use of its successor. Lock the old key first. */
export async function setPendingOverlap(
  tx: Tx,
  pending: {
    readonly tenantId: string
    readonly keyId: string
    readonly successorId: string
    readonly overlap: string
  },
): Promise<void> {
  await tx.execute({
    name: 'keys_set_pending_overlap',
    text: `
      insert into keys.pending_overlap (tenant_id, key_id, successor_id, overlap)
      values ($1, $2, $3, $4)
          on conflict (tenant_id, key_id) do update
         set successor_id = excluded.successor_id, overlap = excluded.overlap`,
    values: [pending.tenantId, pending.keyId, pending.successorId, pending.overlap],
  })
}

/** Whether the overlap of the active predecessor begins with the first use of this key. */
export async function isFirstUseAwaited(
  tx: Tx,
  { id, rotatedFrom }: { readonly id: string; readonly rotatedFrom: string | null },
): Promise<boolean> {
  if (rotatedFrom === null) return false
  const rows = await tx.query<{ key_id: string }>({
    name: 'keys_find_awaiting_predecessor',
    text: `
      select p.key_id
        from keys.pending_overlap as p
        join keys.api_key as k on k.id = p.key_id
       where p.key_id = $1
         and p.successor_id = $2
         and k.revoked_at is null
         and k.expires_at > clock_timestamp()`,
    values: [rotatedFrom, id],
  })
  return rows.length > 0
}

/** Begins the overlaps whose new key was used, and enforces the old keys' new expiry on every gateway. */
export async function startOverlaps({
  db,
  enforcer,
  logger,
}: {
  readonly db: Pick<TenantDb, 'system'>
  readonly enforcer: Pick<Enforcer, 'enforceKeys'>
  readonly logger: Logger
}): Promise<void> {
  const shortened = await db.system(
    async (tx) =>
      await tx.query<{ readonly tenant_id: string; readonly id: string; readonly hash: string }>({
        name: 'keys_start_overlaps',
        text: `select k.tenant_id, k.id, encode(k.hash, 'hex') as hash from keys.start_overlaps($1) as k`,
        values: [batchSize],
      }),
  )
  if (shortened.length === 0) return
  // Operators repeat these events after restoring a backup that lacks the change.
  for (const { id, tenant_id: tenantId } of shortened) {
    logger.info({ event: 'key_narrowed', key_id: id, tenant_id: tenantId })
  }
  await enforcer.enforceKeys(shortened.map(({ hash }) => hash))
}
