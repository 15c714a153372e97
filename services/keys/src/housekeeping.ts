import { type Logger, type Registry, repeatEvery } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import { Gauge } from '@prometheus-io/client'
import { startOverlaps } from './api-key/pending-overlap.ts'
import { maintainAuditEvents, recordExpired } from './audit-feed/store.ts'
import { isDatabaseUnavailable } from './database-errors.ts'
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
/** Few, because changes of a key wait while its review has the lock. */
const reviewBatch = 200
/** Seldom, because a short limit reads every key. */
const idleEveryMs = 600_000
const maxReviews = 50_000 / reviewBatch

/** Does periodic work: retries leaked keys, prunes logs and counts, records due events, and reviews the health of keys. */
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

  /** In this order. If one fails, the others still run, unless PostgreSQL is unavailable. */
  const operations: Readonly<Record<string, () => Promise<unknown>>> = {
    watch_usage: async () => await db.system(watchUsage),
    set_routes: async () => {
      if (!hasSetRoutes) await db.system(async (tx) => await setRoutes(tx, scopesOfRoutes))
      hasSetRoutes = true
    },
    prune_log: async () => logEntries.set(await log.prune()),
    record_denials: async () => await db.system(async (tx) => await recordPendingDenials(tx, maxRows)),
    prune_uses: async () => await db.system(async (tx) => await pruneUses(tx, maxRows)),
    prune_sign_ins: async () => await db.system(async (tx) => await pruneSignIns(tx, maxRows)),
    start_overlaps: async () => await startOverlaps({ db, enforcer, logger }),
    record_expiring: async () => await db.system(recordExpiring),
    revoke_idle_keys: async () => {
      if (now() - idleSeenAt < idleEveryMs) return
      await db.system(recordIdle)
      await revokeIdleKeys({ db, enforcer, logger })
      idleSeenAt = now()
    },
    record_expired: async () => await db.system(async (tx) => await recordExpired(tx, maxRows)),
    maintain_audit_events: async () => await db.system(async (tx) => await maintainAuditEvents(tx, maxRows)),
    review_keys: async () => {
      for (let left = maxReviews; left > 0; left -= 1) {
        if (!(await db.system(async (tx) => await reviewKeys(tx, reviewBatch)))) return
      }
    },
  }

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
    for (const [operation, work] of Object.entries(operations)) {
      try {
        await work()
      } catch (error) {
        logger.warn({ event: 'housekeeping_failed', operation, err: error })
        if (isDatabaseUnavailable(error)) return
      }
    }
  }

  return repeatEvery(everyMs, run)
}
