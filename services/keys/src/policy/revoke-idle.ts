import type { Logger } from '@postern/service-kit'
import type { TenantDb, Tx } from '@postern/tenant-db'
import type { Enforcer } from '../revocation/revoke.ts'

const batchSize = 500

interface IdleKey {
  readonly tenant_id: string
  readonly id: string
  readonly hash: string
}

/** Announces keys that the policy is about to revoke. Served by api_key_last_used. */
export async function recordIdle(tx: Tx): Promise<void> {
  await tx.execute({ name: 'keys_note_idle', text: 'select keys.note_idle()', values: [] })
}

/** Revokes keys that were announced and are still idle, and enforces that on every gateway. */
export async function revokeIdleKeys({
  db,
  enforcer,
  logger,
}: {
  readonly db: Pick<TenantDb, 'system'>
  readonly enforcer: Pick<Enforcer, 'enforceKeys'>
  readonly logger: Logger
}): Promise<void> {
  const revoked = await db.system(
    async (tx) =>
      await tx.query<IdleKey>({
        name: 'keys_revoke_idle_keys',
        text: `select k.tenant_id, k.id, encode(k.hash, 'hex') as hash from keys.revoke_idle_keys($1) as k`,
        values: [batchSize],
      }),
  )
  if (revoked.length === 0) return
  // Operators repeat these events after restoring a backup that lacks the revocation.
  for (const { id, tenant_id: tenantId } of revoked) {
    logger.info({ event: 'key_revoked', key_id: id, tenant_id: tenantId })
  }
  await enforcer.enforceKeys(revoked.map(({ hash }) => hash))
}
