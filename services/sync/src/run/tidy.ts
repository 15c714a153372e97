import type { RequestInfo } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { clearEndedRuns } from '../staging/store.ts'

/** How long somebody waits for it behind what is done already, in milliseconds; a round that has begun then is finished. */
const withinMs = 2_000

/**
 * Removes what a run that waited for approval, or for a worker, and does no more, had of its source: its file, and what was read. Never
 * throws: what stays is removed by the connector's next run, or once it is retired by the next of another one.
 */
export async function tidyEndedRuns(
  { db }: Pick<Deps, 'db'>,
  { context, requestId, log }: Pick<RequestInfo, 'context' | 'requestId' | 'log'>,
  connectorId: string,
  now: () => number = () => performance.now(),
): Promise<void> {
  try {
    for (const begun = now(); now() - begun < withinMs;) {
      if ((await db.write(context, async (tx) => await clearEndedRuns(tx, connectorId))) === 0) return
    }
  } catch (error) {
    log.warn({ event: 'sync_run_not_tidied', request_id: requestId, connector_id: connectorId, err: error })
  }
}
