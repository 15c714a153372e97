import type { CreatedBy, LogEntry } from '@postern/contracts'
import type { RequestInfo } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { actorOf } from '../request.ts'
import type { LogDraft } from './rules.ts'
import type { CheckpointSigner } from './sign.ts'
import { sealDays } from './seal.ts'
import { assertHolds, signEnd } from './signed-end.ts'
import { appendEntries } from './store.ts'

/** Writes entries of the tracker log for one caller. Comes last in the transaction of the change. */
export type Recorder = (tx: Tx, drafts: readonly LogDraft[]) => Promise<readonly LogEntry[]>

/** The recorder of a request: entries name its caller. */
export function recorderOf(context: RequestInfo['context'], checkpoints: CheckpointSigner): Recorder {
  return recorderFor({ actor: actorOf(context), tenantId: context.tenantId }, checkpoints)
}

/** The recorder of what somebody does in a tenant; the end of a day that is over gets its checkpoint. */
export function recorderFor(
  { actor, tenantId }: { readonly actor: CreatedBy; readonly tenantId: string },
  checkpoints: CheckpointSigner,
): Recorder {
  return async (tx, drafts) => {
    if (drafts.length === 0) return []
    const { entries, before, end, signed, now } = await appendEntries(tx, actor, drafts)
    await assertHolds(signed, { tenantId, checkpoints })
    const today = now.toISOString().slice(0, 10)
    // The first to write on a new day: nothing is of the days before any more that is not behind what they ended with.
    const last = before.recordedAt?.toISOString().slice(0, 10)
    if (last !== undefined && last < today) await sealDays(tx, { tenantId, checkpoints })
    // Who began before midnight, and writes behind one of the next day, writes on the next day.
    const day = [today, signed?.day ?? today].toSorted().at(-1) ?? today
    await signEnd(tx, { ...end, day }, { tenantId, checkpoints, now })
    return entries
  }
}
