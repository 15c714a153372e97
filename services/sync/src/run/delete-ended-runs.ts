import type { RequestInfo } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { importCallerOf } from '../push/import-caller.ts'
import { clearEndedUploads } from '../upload/store.ts'

/** How long a client waits. A step that has begun is completed. */
const maxMs = 2_000

/** Deletes files and unchanged rows of ended runs. Never throws: a later run retries. */
export async function deleteEndedRuns(
  { db, universe }: Pick<Deps, 'db' | 'universe'>,
  { context, requestId, log }: Pick<RequestInfo, 'context' | 'requestId' | 'log'>,
  { connectorId, runIds }: { readonly connectorId: string; readonly runIds: readonly string[] },
  now: () => number = () => performance.now(),
): Promise<void> {
  const caller = importCallerOf({ context, requestId }, connectorId, connectorId)
  const end = now() + maxMs
  try {
    while (now() < end && (await db.write(context, async (tx) => await clearEndedUploads(tx, connectorId))) > 0);
    while (runIds.length > 0 && now() < end && (await universe.imports.clear(caller, runIds, false)));
  } catch (error) {
    log.warn({ event: 'sync_run_not_tidied', request_id: requestId, connector_id: connectorId, err: error })
  }
}
