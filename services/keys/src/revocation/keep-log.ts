import { keepLogMs } from '@postern/contracts/internal'
import type { TenantDb } from '@postern/tenant-db'
import { pruneLog } from './store.ts'

/** Keeps the log of changes from growing. */
export interface LogKeeper {
  /** Drops what the log has held for long enough, as far as this replica knows. To be called every few seconds. */
  prune(): Promise<void>
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

  return {
    prune: async () => {
      const from = now()
      upTo = sights.findLast(({ at }) => at <= from - keepLogMs)?.seq ?? upTo
      sights = sights.filter(({ seq }) => seq > upTo)
      const last = sights.at(-1)?.seq ?? upTo
      const seq = await db.system(async (tx) => await pruneLog(tx, { upTo, limit }))
      if (seq < last) {
        // The database is one of before: these numbers come again.
        sights = []
        upTo = 0
      }
      if (seq !== last) sights.push({ seq, at: now() })
    },
  }
}
