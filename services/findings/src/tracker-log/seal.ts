import type { TenantAssertion, TenantDb, Tx } from '@postern/tenant-db'
import type { CheckpointSigner } from './sign.ts'
import { verifySignedEnd, signEnd } from './signed-end.ts'
import {
  type StoredCheckpoint,
  findDayEnd,
  findSealed,
  findSignedEnd,
  hasUnplacedEntries,
  lockLog,
  insertCheckpoint,
  placeEntries,
  placeBatch,
} from './store.ts'

/** Later than every day, to ask for the last finished day. */
const lastDay = '9999-12-31'

/**
 * Gives committed entries their positions and signs the new end of the log. Locks the end until commit, which blocks other
 * sealers but not writers. Returns whether more entries may wait.
 */
export async function sealLog(
  tx: Tx,
  { tenantId, checkpoints }: { readonly tenantId: string; readonly checkpoints: CheckpointSigner },
): Promise<boolean> {
  const [, isWaiting, signed] = await Promise.all([lockLog(tx), hasUnplacedEntries(tx), findSignedEnd(tx)])
  if (!isWaiting) return false
  await verifySignedEnd(signed, { tenantId, checkpoints })
  const { before, end, count, now } = await placeEntries(tx)
  const today = now.toISOString().slice(0, 10)
  // With the first entries of a new day, the days before are complete.
  const last = before.recordedAt?.toISOString().slice(0, 10)
  if (last !== undefined && last < today) await sealDays(tx, { tenantId, checkpoints })
  // Around midnight, two processes may have different days.
  const day = [today, signed?.day ?? today].toSorted().at(-1) ?? today
  await signEnd(tx, { ...end, day }, { tenantId, checkpoints, now })
  return count === placeBatch
}

/**
 * Returns the checkpoint of the last finished day (UTC, clock of the database) with entries, up to `day`. Creates it if it is
 * missing. Undefined if there are no entries. `today` is the day of the database.
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
): Promise<{ readonly checkpoint: StoredCheckpoint | undefined; readonly today: string }> {
  const { checkpoint, isBehind, today } = await db.read(tenant, async (tx) => findSealed(tx, day))
  if (!isBehind) return { checkpoint, today }
  const made = await db.write(tenant, async (tx) => {
    await lockLog(tx)
    await sealDays(tx, { tenantId, checkpoints, day })
    return (await findSealed(tx, day)).checkpoint
  })
  return { checkpoint: made, today }
}

/**
 * Stores the checkpoint of the last finished day up to `day`, if it has none. Uses the signed end of that day if a published
 * key signed it, otherwise signs a new checkpoint. The end of the log must be locked.
 */
export async function sealDays(
  tx: Tx,
  {
    tenantId,
    checkpoints,
    day = lastDay,
  }: { readonly tenantId: string; readonly checkpoints: CheckpointSigner; readonly day?: string },
): Promise<void> {
  const end = await findDayEnd(tx, day)
  if (end === undefined) return
  const signed = await findSignedEnd(tx)
  const isGenuine = await verifySignedEnd(signed, { tenantId, checkpoints })
  const { now, ...of } = end
  const isSigned = isGenuine && signed?.position === of.position && signed.day === of.day
  const jws = isSigned ? signed.jws : await checkpoints.sign({ tenant: tenantId, ...of, signed_at: now.toISOString() })
  await insertCheckpoint(tx, { ...of, jws })
}
