import type { RequestInfo } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { clearEndedRuns } from '../staging/store.ts'

/** Each removes 50,000 rows: as many as somebody may wait for. */
const maxRounds = 10

/**
 * Removes what a run that waited for approval, and does no more, had read of its source. Never throws: what stays is removed by the
 * connector's next run, or once it is retired by the next of another one.
 */
export async function tidyEndedRuns(
  { db }: Pick<Deps, 'db'>,
  { context, requestId, log }: Pick<RequestInfo, 'context' | 'requestId' | 'log'>,
  connectorId: string,
): Promise<void> {
  try {
    for (let round = 1; round <= maxRounds; round += 1) {
      if ((await db.write(context, async (tx) => await clearEndedRuns(tx, connectorId))) === 0) return
    }
  } catch (error) {
    log.warn({ event: 'sync_run_not_tidied', request_id: requestId, connector_id: connectorId, err: error })
  }
}
