import type { TenantAssertion, TenantDb, Tx } from '@postern/tenant-db'
import type { CheckpointSigner } from './sign.ts'
import { assertHolds, signEnd } from './signed-end.ts'
import {
  type StoredCheckpoint,
  findDayEnd,
  findSealed,
  findSignedEnd,
  hasUnplacedEntries,
  holdLog,
  insertCheckpoint,
  placeEntries,
  placedAtOnce,
} from './store.ts'

/** Behind every day: what is asked for then is the end of the last day that is over. */
const lastDay = '9999-12-31'

/**
 * Gives committed entries their positions, and signs the end that they leave. Holds the end of the log until the commit: other
 * sealers wait for that, and writers do not. Returns whether more entries may wait.
 */
export async function sealLog(
  tx: Tx,
  { tenantId, checkpoints }: { readonly tenantId: string; readonly checkpoints: CheckpointSigner },
): Promise<boolean> {
  const [, isWaiting, signed] = await Promise.all([holdLog(tx), hasUnplacedEntries(tx), findSignedEnd(tx)])
  if (!isWaiting) return false
  await assertHolds(signed, { tenantId, checkpoints })
  const { before, end, count, now } = await placeEntries(tx)
  const today = now.toISOString().slice(0, 10)
  // The first entries of a new day: no entry of the days before comes in front of them any more.
  const last = before.recordedAt?.toISOString().slice(0, 10)
  if (last !== undefined && last < today) await sealDays(tx, { tenantId, checkpoints })
  // Two processes may have different days around midnight.
  const day = [today, signed?.day ?? today].toSorted().at(-1) ?? today
  await signEnd(tx, { ...end, day }, { tenantId, checkpoints, now })
  return count === placedAtOnce
}

/**
 * The stored checkpoint of the last day, up to a given one, on which something was written and which is over (UTC, by the
 * clock of the database). Signed now where nobody has written since, so that no end of a day waits for the next writer.
 * Undefined where nothing was written by then. `today` is the day of the database by which that was judged.
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
    await holdLog(tx)
    await sealDays(tx, { tenantId, checkpoints, day })
    return (await findSealed(tx, day)).checkpoint
  })
  return { checkpoint: made, today }
}

/**
 * Gives the last day up to a given one that is over its checkpoint, where it has none: what its last writer has signed, as
 * long as the log still is that. Signed only now where others have written since, of a release that did not sign, and
 * where no published key has signed it. The end of
 * the log is held.
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
  const isGenuine = await assertHolds(signed, { tenantId, checkpoints })
  const { now, ...of } = end
  const isSigned = isGenuine && signed?.position === of.position && signed.day === of.day
  const jws = isSigned ? signed.jws : await checkpoints.sign({ tenant: tenantId, ...of, signed_at: now.toISOString() })
  await insertCheckpoint(tx, { ...of, jws })
}
