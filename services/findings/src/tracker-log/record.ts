import type { CreatedBy } from '@postern/contracts'
import type { RequestInfo } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { actorOf } from '../request.ts'
import type { LogDraft } from './rules.ts'
import type { CheckpointSigner } from './sign.ts'
import { assertHolds } from './signed-end.ts'
import { type WrittenEntry, appendEntries } from './store.ts'

/** Writes entries of the tracker log for one caller. Comes last in the transaction of the change. */
export type Recorder = (tx: Tx, drafts: readonly LogDraft[]) => Promise<readonly WrittenEntry[]>

/** The recorder of a request: entries name its caller. */
export function recorderOf(context: RequestInfo['context'], checkpoints: CheckpointSigner): Recorder {
  return recorderFor({ actor: actorOf(context), tenantId: context.tenantId }, checkpoints)
}

/** The recorder of what somebody does in a tenant. */
export function recorderFor(
  { actor, tenantId }: { readonly actor: CreatedBy; readonly tenantId: string },
  checkpoints: CheckpointSigner,
): Recorder {
  return async (tx, drafts) => {
    if (drafts.length === 0) return []
    const { entries, signed } = await appendEntries(tx, actor, drafts)
    await assertHolds(signed, { tenantId, checkpoints })
    return entries
  }
}
