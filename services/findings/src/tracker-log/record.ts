import type { CreatedBy } from '@postern/contracts'
import type { RequestInfo } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { actorOf } from '../request.ts'
import type { LogDraft } from './rules.ts'
import type { CheckpointSigner } from './sign.ts'
import { verifySignedEnd } from './signed-end.ts'
import { type WrittenEntry, appendEntries } from './store.ts'

/** Call it last in the transaction of the change. */
export type Recorder = (tx: Tx, drafts: readonly LogDraft[]) => Promise<readonly WrittenEntry[]>

export function createRecorder(context: RequestInfo['context'], checkpoints: CheckpointSigner): Recorder {
  return createRecorderFor({ actor: actorOf(context), tenantId: context.tenantId }, checkpoints)
}

export function createRecorderFor(
  { actor, tenantId }: { readonly actor: CreatedBy; readonly tenantId: string },
  checkpoints: CheckpointSigner,
): Recorder {
  return async (tx, drafts) => {
    if (drafts.length === 0) return []
    const { entries, signed } = await appendEntries(tx, actor, drafts)
    await verifySignedEnd(signed, { tenantId, checkpoints })
    return entries
  }
}
