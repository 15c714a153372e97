import { keepLogMs } from '@postern/contracts/internal'
import type { TenantDb } from '@postern/tenant-db'
import { pruneLog } from './store.ts'

/** Keeps the log of changes from growing. */
export interface LogKeeper {
  /**
   * Drops what the log has held for long enough, as far as this replica knows. To be called every few seconds. Gives how many
   * entries the log held before.
   */
  prune(): Promise<number>
}

/**
 * Starts with nothing known: a replica drops what it has itself seen in the log `keepLogMs` ago, by its own monotonic clock.
 * `now` gives milliseconds and never goes back.
 *
 * INVARIANT: an entry outlives every record in Redis from before it, and is there when who made it reads it again to learn
 * what to wait for. A wall clock could not tell that: PostgreSQL's may be set, and one that is ahead for a moment would
 * make all entries old.
 */
export function createLogKeeper({
  db,
  now = () => performance.now(),
  limit = 5000,
}: {
  readonly db: Pick<TenantDb, 'system'>
  readonly now?: () => number
  readonly limit?: number
}): LogKeeper {
  /** Where the log stood, and when that was first seen. */
  let sights: { readonly seq: number; readonly at: number }[] = []
  let upTo = 0
  /** The server of PostgreSQL on which they were seen. */
  let server: string | undefined

  const lastSeen = (): number => sights.at(-1)?.seq ?? upTo

  return {
    prune: async () => {
      const from = now()
      upTo = sights.findLast(({ at }) => at <= from - keepLogMs)?.seq ?? upTo
      sights = sights.filter(({ seq }) => seq > upTo)
      const log = await db.system(async (tx) => await pruneLog(tx, { upTo, server, limit }))
      // A server that was restored or took over may lack what this one had, and give its numbers again.
      if (log.server !== server || log.seq < lastSeen()) {
        sights = []
        upTo = 0
        server = log.server
      }
      if (log.seq !== lastSeen()) sights.push({ seq: log.seq, at: now() })
      return log.held
    },
  }
}
