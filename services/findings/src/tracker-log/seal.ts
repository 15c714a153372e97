import type { TenantAssertion, TenantDb, Tx } from '@postern/tenant-db'
import type { CheckpointSigner } from './sign.ts'
import { verifySignedEnd, signEnd } from './signed-end.ts'
import {
  type StoredCheckpoint,
  findCheckpoint,
  findDayEnd,
  findSignedEnd,
  insertCheckpoint,
  lockLog,
} from './end/store.ts'
import { assignEntryPositions, hasUnplacedEntries, placeBatch } from './store.ts'

const lastDay = '9999-12-31'

/**
 * Assigns positions to committed entries and signs the new end. Blocks other sealers, but no writers. Returns whether
 * more entries may wait.
 */
export async function sealLog(
  tx: Tx,
  { tenantId, checkpoints }: { readonly tenantId: string; readonly checkpoints: CheckpointSigner },
): Promise<boolean> {
  const [, isWaiting, signed] = await Promise.all([lockLog(tx), hasUnplacedEntries(tx), findSignedEnd(tx)])
  if (!isWaiting) return false
  await verifySignedEnd(signed, { tenantId, checkpoints })
  const { before, end, count, now } = await assignEntryPositions(tx)
  const today = now.toISOString().slice(0, 10)
  const last = before.recordedAt?.toISOString().slice(0, 10)
  if (last !== undefined && last < today) await sealDays(tx, { tenantId, checkpoints })
  // Around midnight, two processes may have different days.
  const day = [today, signed?.day ?? today].toSorted().at(-1) ?? today
  await signEnd(tx, { ...end, day }, { tenantId, checkpoints, now })
  return count === placeBatch
}

/** Returns the last finished day's checkpoint up to `day`, and creates it if missing. Undefined without entries. */
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
  const { checkpoint, isBehind, today } = await db.read(tenant, async (tx) => findCheckpoint(tx, day))
  if (!isBehind) return { checkpoint, today }
  const made = await db.write(tenant, async (tx) => {
    await lockLog(tx)
    await sealDays(tx, { tenantId, checkpoints, day })
    return (await findCheckpoint(tx, day)).checkpoint
  })
  return { checkpoint: made, today }
}

/** Uses the signed end of the day if a published key signed it. The end of the log must be locked. */
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
