import { type Logger, type Registry, repeatEvery } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import { Gauge } from '@prometheus-io/client'
import { startOverlaps } from './api-key/pending-overlap.ts'
import { maintainAuditEvents, recordExpired } from './audit-feed/store.ts'
import { recordExpiring, reviewKeys } from './health/store.ts'
import type { LeakReports } from './leak/reports.ts'
import { scopesOfRoutes } from './right-sizing/right-size.ts'
import { setRoutes, watchUsage } from './right-sizing/store.ts'
import { recordIdle, revokeIdleKeys } from './policy/revoke-idle.ts'
import type { Enforcer } from './revocation/revoke.ts'
import { createLogPruner } from './revocation/prune-log.ts'
import { countLeases } from './revocation/store.ts'
import { pruneSignIns } from './sign-in/store.ts'
import { recordPendingDenials, pruneUses } from './usage/store.ts'

const maxRows = 5000
/** Short transactions: a review locks what a change of the key waits for. */
const reviewedAtOnce = 200
/** Idle keys are looked for less often, because a short limit looks at every key. */
const idleEveryMs = 600_000
const maxReviews = 50_000 / reviewedAtOnce

/** Prunes the log and old counts, writes events for counted denials, and enforces reported leaks again. */
export function startHousekeeping({
  db,
  enforcer,
  leaks,
  logger,
  metrics,
  everyMs = 10_000,
  now = () => performance.now(),
}: {
  readonly db: Pick<TenantDb, 'system'>
  readonly enforcer: Pick<Enforcer, 'enforceKeys'>
  readonly leaks: Pick<LeakReports, 'retry'>
  readonly logger: Logger
  readonly metrics: Registry
  readonly everyMs?: number
  /** Monotonic, in milliseconds. */
  readonly now?: () => number
}): { stop(): Promise<void> } {
  const leases = new Gauge({
    name: 'postern_keys_leases',
    help: 'Gateways that hold a lease; 0 while PostgreSQL is unavailable',
    registers: [metrics],
  })
  const logEntries = new Gauge({
    name: 'postern_keys_log_entries',
    help: 'Entries in the log of changes at the last pruning; with long-lived replicas, those of the last 40 to 80 minutes',
    registers: [metrics],
  })
  const log = createLogPruner({ db, now, limit: maxRows })
  let hasSetRoutes = false
  let idleSeenAt = Number.NEGATIVE_INFINITY

  async function run(): Promise<void> {
    try {
      leases.set(await db.system(countLeases))
    } catch (error) {
      // The last count is outdated while leases cannot be renewed.
      leases.set(0)
      logger.warn({ event: 'housekeeping_failed', err: error })
      return
    }
    await leaks.retry()
    try {
      await db.system(watchUsage)
      if (!hasSetRoutes) await db.system(async (tx) => await setRoutes(tx, scopesOfRoutes))
      hasSetRoutes = true
      logEntries.set(await log.prune())
      await db.system(async (tx) => await recordPendingDenials(tx, maxRows))
      await db.system(async (tx) => await pruneUses(tx, maxRows))
      await db.system(async (tx) => await pruneSignIns(tx, maxRows))
      await startOverlaps({ db, enforcer, logger })
      await db.system(recordExpiring)
      if (now() - idleSeenAt >= idleEveryMs) {
        await db.system(recordIdle)
        await revokeIdleKeys({ db, enforcer, logger })
        idleSeenAt = now()
      }
      await db.system(async (tx) => await recordExpired(tx, maxRows))
      await db.system(async (tx) => await maintainAuditEvents(tx, maxRows))
      const review = async () => await db.system(async (tx) => await reviewKeys(tx, reviewedAtOnce))
      for (let left = maxReviews; left > 0 && (await review()); left -= 1);
    } catch (error) {
      logger.warn({ event: 'housekeeping_failed', err: error })
    }
  }

  return repeatEvery(everyMs, run)
}
