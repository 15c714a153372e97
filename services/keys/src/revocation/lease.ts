import { type LeaseAnswer, type LeaseRequest, leaseMs } from '@postern/contracts/internal'
import type { TenantDb } from '@postern/tenant-db'
import type { LeaseWatch } from './lease-watch.ts'
import { countLeases, recordLateUsage, readLog, renewLease } from './store.ts'

/** About 0.6 MB. A gateway that lags further requests the rest before it gets a lease. */
const maxEntries = 5000

/**
 * Answers a lease renewal. INVARIANT: commit the lease, then read the log in a new snapshot. A revoke that does not see
 * this lease committed before that snapshot, so its entry is in the response.
 */
export async function answerLease(
  { db, leaseWatch }: { readonly db: TenantDb; readonly leaseWatch: LeaseWatch },
  { gateway, name, cursor, mark, counts, usageIsLate }: LeaseRequest,
  limit: number = maxEntries,
): Promise<LeaseAnswer> {
  if (usageIsLate === true) await db.system(recordLateUsage)
  const granted =
    cursor !== null && (await db.system(async (tx) => await renewLease(tx, { gateway, name, cursor, mark, leaseMs })))
  // A pending revoke may be waiting for the entries that this gateway acknowledged.
  leaseWatch.pollNow()
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
