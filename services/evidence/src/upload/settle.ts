import type { Logger, RequestInfo } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { isBlobRecorded, lockBlob } from './store.ts'

/** Entries looked at a time: an upload must not pay for all that a long outage has left. */
const maxEntries = 20

/**
 * Decides over uploads of the tenant that ended between the directory and the database: where a row names the bytes they
 * stay, otherwise they go. It runs beside an upload of the tenant, since only then does the service hold an assertion
 * that lets it see the tenant's rows. Never rejects: what cannot be decided now is decided another time.
 */
export async function settleLeftovers(
  { db, blobs }: Pick<Deps, 'db' | 'blobs'>,
  context: RequestInfo['context'],
  olderThan: number,
  log: Logger,
): Promise<void> {
  try {
    const leftovers = await blobs.listSettling(context.tenantId, olderThan)
    for (const blob of leftovers.slice(0, maxEntries)) {
      const recorded = await db.write(context, async (tx) => {
        await lockBlob(tx, blob.sha256)
        const isRecorded = await isBlobRecorded(tx, blob.sha256)
        if (!isRecorded) await blobs.remove(blob)
        await blobs.finish(blob)
        return isRecorded
      })
      log.info({ event: 'upload_settled', recorded })
    }
  } catch (error) {
    log.error({ event: 'settling_failed', err: error })
  }
}
