import type { CreatedBy, LogEntry } from '@postern/contracts'
import type { RequestInfo } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { actorOf } from '../request.ts'
import type { LogDraft } from './rules.ts'
import type { CheckpointSigner } from './sign.ts'
import { sealDays } from './seal.ts'
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
    const { entries, before: end, now } = await appendEntries(tx, actor, drafts)
    // The first to write on a new day: nothing is of the days before any more that is not behind what they ended with.
    const before = end.recordedAt?.toISOString().slice(0, 10)
    if (before !== undefined && before < now.toISOString().slice(0, 10)) await sealDays(tx, { tenantId, checkpoints })
    return entries
  }
}
