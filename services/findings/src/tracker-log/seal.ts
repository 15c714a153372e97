import type { TenantAssertion, TenantDb } from '@postern/tenant-db'
import type { CheckpointSigner } from './sign.ts'
import { type StoredCheckpoint, findDayEnd, findSealed, holdLog, insertCheckpoint } from './store.ts'

/** Behind every day: what is asked for then is the end of the last day that is over. */
const lastDay = '9999-12-31'

/**
 * The stored checkpoint of the last day, up to a given one, on which something was written and which is over (UTC, by the
 * clock of the database). Signed now where nobody has written since, so that no end of a day waits for the next writer.
 * Undefined where nothing was written by then.
 */
export async function sealedCheckpoint(
  db: TenantDb,
  tenant: TenantAssertion,
  {
    tenantId,
    checkpoints,
    day = lastDay,
  }: {
    readonly tenantId: string
    readonly checkpoints: CheckpointSigner
    readonly day?: string
  },
): Promise<StoredCheckpoint | undefined> {
  const { checkpoint, isBehind } = await db.read(tenant, async (tx) => findSealed(tx, day))
  if (!isBehind) return checkpoint
  return await db.write(tenant, async (tx) => {
    await holdLog(tx)
    const end = await findDayEnd(tx, day)
    if (end !== undefined) {
      const { now, ...of } = end
      const jws = await checkpoints.sign({ tenant: tenantId, ...of, signed_at: now.toISOString() })
      await insertCheckpoint(tx, { ...of, jws })
    }
    return (await findSealed(tx, day)).checkpoint
  })
}
