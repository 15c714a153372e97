import type { CreatedBy, LogEntry } from '@postern/contracts'
import type { RequestInfo } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { actorOf } from '../request.ts'
import type { LogDraft } from './rules.ts'
import type { CheckpointSigner } from './sign.ts'
import { appendEntries, insertCheckpoint } from './store.ts'

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
    const { entries, before, now } = await appendEntries(tx, actor, drafts)
    const day = before.recordedAt?.toISOString().slice(0, 10)
    // The first to write on a new day: nothing can be appended to the day before any more.
    if (day !== undefined && day < now.toISOString().slice(0, 10)) {
      const { position, root } = before
      const signed_at = now.toISOString()
      const jws = await checkpoints.sign({ tenant: tenantId, position, root, day, signed_at })
      await insertCheckpoint(tx, { day, position, root, jws })
    }
    return entries
  }
}
