import type { Logger, Registry } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import { Gauge } from '@prometheus-io/client'
import { createLogKeeper } from './revocation/keep-log.ts'
import { countLeases } from './revocation/store.ts'
import { notePendingDenials, pruneUses } from './usage/store.ts'

const maxRows = 5000

/** Starts what runs now and then in every replica: drops old log entries and counts, writes what is left of counted refusals. */
export function startHousekeeping({
  db,
  logger,
  metrics,
  everyMs = 10_000,
  now = () => performance.now(),
}: {
  readonly db: Pick<TenantDb, 'system'>
  readonly logger: Logger
  readonly metrics: Registry
  readonly everyMs?: number
  /** Milliseconds; never goes back. */
  readonly now?: () => number
}): { stop(): Promise<void> } {
  const leases = new Gauge({
    name: 'postern_keys_leases',
    help: 'Gateways that hold a lease; 0 while PostgreSQL does not tell',
    registers: [metrics],
  })
  const logEntries = new Gauge({
    name: 'postern_keys_log_entries',
    help: 'Entries of the log of changes, as last told by PostgreSQL: those of the last 40 to 80 minutes, where replicas live that long',
    registers: [metrics],
  })
  const log = createLogKeeper({ db, now, limit: maxRows })
  let running: Promise<void> | undefined

  async function run(): Promise<void> {
    try {
      leases.set(await db.system(countLeases))
    } catch (error) {
      // Whoever watches must not see the last number for as long as nobody can renew a lease.
      leases.set(0)
      logger.warn({ event: 'housekeeping_failed', err: error })
      return
    }
    try {
      logEntries.set(await log.prune())
      await db.system(async (tx) => await notePendingDenials(tx, maxRows))
      await db.system(async (tx) => await pruneUses(tx, maxRows))
    } catch (error) {
      logger.warn({ event: 'housekeeping_failed', err: error })
    }
  }

  const timer = setInterval(() => {
    running ??= run().finally(() => {
      running = undefined
    })
  }, everyMs)
  timer.unref()
  return {
    stop: async () => {
      clearInterval(timer)
      await running
    },
  }
}
