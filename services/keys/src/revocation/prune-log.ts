import { keepLogMs } from '@postern/contracts/internal'
import type { TenantDb } from '@postern/tenant-db'
import { pruneLog } from './store.ts'

export interface LogPruner {
  /**
   * Deletes entries that this replica has seen for long enough. Call it every few seconds. Returns the number of
   * entries before.
   */
  prune(): Promise<number>
}

/**
 * INVARIANT: an entry outlives every older Redis record and every call that waits for it. A replica deletes only what
 * it saw `keepLogMs` ago on its monotonic clock (`now`, ms).
 */
export function createLogPruner({
  db,
  now = () => performance.now(),
  limit = 5000,
}: {
  readonly db: Pick<TenantDb, 'system'>
  readonly now?: () => number
  readonly limit?: number
}): LogPruner {
  /** The last entries seen, with the time of the first sight. */
  let observations: { readonly seq: number; readonly at: number }[] = []
  let upTo = 0
  let server: string | undefined

  const lastSeen = (): number => observations.at(-1)?.seq ?? upTo

  return {
    prune: async () => {
      const from = now()
      upTo = observations.findLast(({ at }) => at <= from - keepLogMs)?.seq ?? upTo
      observations = observations.filter(({ seq }) => seq > upTo)
      const log = await db.system(async (tx) => await pruneLog(tx, { upTo, server, limit }))
      // A restored server or a new primary may lack entries and assign their numbers again.
      if (log.server !== server || log.seq < lastSeen()) {
        observations = []
        upTo = 0
        server = log.server
      }
      if (log.seq !== lastSeen()) observations.push({ seq: log.seq, at: now() })
      return log.held
    },
  }
}
