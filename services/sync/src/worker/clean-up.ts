import type { Logger } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import type { Universe } from '../push/universe.ts'
import { clearOldErrors, listOldRuns, recordCleared } from '../run/old-details.ts'
import { isFinal } from '../run/rules.ts'
import { clearEndedUploads, deleteAbandonedUploads, deleteUpload } from '../upload/store.ts'
import type { RunLease } from './run-lease.ts'
import { releaseWork } from '../granted-work/store.ts'

export interface CleanUpParts {
  readonly workerDb: TenantDb
  readonly universe: Universe
  readonly logger: Logger
  readonly keepDetailsDays?: number | undefined
  /** How long to remove old details after a run. Default 20 s. The tenant's next run removes the rest. */
  readonly clearWithinMs?: number
}

const defaultClearWithinMs = 20_000

/** Deletes what an ended run no longer needs. Each transaction gets its own assertion. */
export async function cleanUp(parts: CleanUpParts, lease: RunLease, signal?: AbortSignal): Promise<void> {
  const { workerDb, logger } = parts
  const { run, connector } = lease
  try {
    for (let removed = 1; removed > 0;) {
      const { assertion } = await lease.caller()
      removed = await workerDb.write({ assertion }, async (tx) => await clearEndedUploads(tx, connector.id))
    }
    if (isFinal(lease.status)) await clearImport(parts, lease)
    await clearDetails(parts, lease, signal)
    const { assertion } = await lease.caller()
    await workerDb.write({ assertion }, async (tx) => {
      // Approval applies the planned changes, so the file is not read again.
      if (run.uploadId !== null) await deleteUpload(tx, run.uploadId)
      await deleteAbandonedUploads(tx)
      await releaseWork(tx, run.id, lease.worker)
    })
  } catch (error) {
    logger.warn({ event: 'sync_run_not_tidied', run_id: run.id, err: error })
  }
}

async function clearImport({ universe }: CleanUpParts, lease: RunLease): Promise<void> {
  while (await universe.imports.clear(await lease.caller(), [lease.run.id], false));
}

/** A failure is logged and stops nothing else. */
async function clearDetails(
  { workerDb, logger, universe, keepDetailsDays, clearWithinMs = defaultClearWithinMs }: CleanUpParts,
  lease: RunLease,
  signal?: AbortSignal,
): Promise<void> {
  if (keepDetailsDays === undefined) return
  const limit = AbortSignal.timeout(clearWithinMs)
  try {
    while (!limit.aborted && signal?.aborted !== true) {
      const caller = await lease.caller()
      const old = await workerDb.write(caller, async (tx) => await listOldRuns(tx, keepDetailsDays))
      if (old.length === 0) return
      const ids = old.map(({ id }) => id)
      const isClear = await workerDb.write(caller, async (tx) => await clearOldErrors(tx, ids))
      const reviewed = old.filter(({ isOnlyReviewed }) => isOnlyReviewed).map(({ id }) => id)
      const hasChanges = reviewed.length > 0 && (await universe.imports.clear(caller, reviewed, true))
      if (isClear && !hasChanges) await workerDb.write(caller, async (tx) => await recordCleared(tx, ids))
    }
  } catch (error) {
    logger.warn({ event: 'sync_details_not_cleared', run_id: lease.run.id, err: error })
  }
}
