import { type LeaseAnswer, type LeaseRequest, leaseMs } from '@postern/contracts/internal'
import type { TenantDb } from '@postern/tenant-db'
import type { LeaseWatch } from './lease-watch.ts'
import { countLeases, readLog, renewLease } from './store.ts'

/**
 * Entries an answer holds at most: about 0.6 MB, which comes well within the second that a gateway waits for it. A gateway that
 * lags further asks again before it is granted anything.
 */
const maxEntries = 5000

/**
 * Answers a gateway that renews its lease.
 *
 * INVARIANT: the lease is committed first, then the log is read in a new snapshot. A revoke that does not see this lease
 * has read the leases before our commit, hence committed before our reading of the log, hence its entry is in our answer.
 */
export async function answerLease(
  { db, leaseWatch }: { readonly db: TenantDb; readonly leaseWatch: LeaseWatch },
  { gateway, name, cursor, mark, counts }: LeaseRequest,
  limit: number = maxEntries,
): Promise<LeaseAnswer> {
  const granted =
    cursor !== null && (await db.system(async (tx) => await renewLease(tx, { gateway, name, cursor, mark, leaseMs })))
  // What this gateway has acknowledged may be what a revoke waits for.
  leaseWatch.lookNow()
  const { log, gateways } = await db.system(async (tx) => ({
    log: await readLog(tx, { cursor, mark, limit }),
    gateways: counts === true ? await countLeases(tx) : undefined,
  }))
  const last = log.entries.at(-1)
  const isWhole = log.entries.length < limit || last === undefined
  return {
    granted: granted && isWhole && !log.reset,
    revocations: [...log.entries],
    cursor: isWhole ? log.seq : last.seq,
    mark: log.mark,
    reset: log.reset,
    now: log.now,
    ...(gateways === undefined ? {} : { gateways }),
  }
}
