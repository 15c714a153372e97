import type { Logger, Registry } from '@postern/service-kit'
import type { TenantAssertion, TenantDb } from '@postern/tenant-db'
import { tenantOf } from '../sql/store.ts'
import { Counter } from '@prometheus-io/client'
import { sealLog } from './seal.ts'
import type { CheckpointSigner } from './sign.ts'
import { LogContradicted } from './signed-end.ts'
import { hasUnplacedEntries } from './store.ts'

/** How long committed entries wait for others that are sealed with them. */
const delayMs = 50
/** Pauses between attempts to seal what a write has left, in milliseconds. They end before the write's assertion does. */
const retryMs = [1_000, 2_000, 4_000, 8_000, 16_000]
/** Attempts of whoever waits for its entries to be sealed. */
const attempts = 3

/** Gives committed entries of the tracker logs their positions, and signs the ends that they leave. */
export interface LogSealer {
  /**
   * Resolves when every entry of the tenant that was committed before the call has its position. A contradicted log stays
   * as it is. Rejects as the database does.
   */
  settle(tenant: TenantAssertion): Promise<void>
  /** Seals the entries of the tenant soon. A failure is logged and tried again. */
  schedule(tenant: TenantAssertion): void
  /** Seals what is scheduled. */
  close(): Promise<void>
}

interface Runs {
  current: Promise<void> | undefined
  /** Begins when the current one has ended, and so sees what was committed meanwhile. */
  next: Promise<void> | undefined
}

/** Opens the sealer of a process. At most one seals a tenant's log at a time, also among processes. */
export function openLogSealer({
  db,
  checkpoints,
  logger,
  metrics,
}: {
  readonly db: TenantDb
  readonly checkpoints: CheckpointSigner
  readonly logger: Logger
  readonly metrics: Registry
}): LogSealer {
  const failures = new Counter({
    name: 'postern_findings_log_seal_failures_total',
    help: 'Attempts to seal new entries of a remediation log that failed',
    registers: [metrics],
  })
  const runs = new Map<string, Runs>()
  const scheduled = new Map<string, { readonly timer: NodeJS.Timeout; readonly tenant: TenantAssertion }>()

  const run = async (tenant: TenantAssertion): Promise<void> => {
    const tenantId = tenantOf(tenant.assertion)
    while (await db.write(tenant, async (tx) => sealLog(tx, { tenantId, checkpoints })));
  }

  /** Seals what is committed by now. Several callers share a run that has not begun. */
  const seal = async (tenant: TenantAssertion): Promise<void> => {
    const tenantId = tenantOf(tenant.assertion)
    const of = runs.get(tenantId) ?? { current: undefined, next: undefined }
    runs.set(tenantId, of)
    const start = (): Promise<void> => {
      const running = run(tenant).finally(() => {
        of.current = undefined
        if (of.next === undefined) runs.delete(tenantId)
      })
      of.current = running
      return running
    }
    if (of.current === undefined) return await start()
    of.next ??= of.current
      .catch(() => undefined)
      .then(() => {
        of.next = undefined
        return start()
      })
    return await of.next
  }

  const schedule = (tenant: TenantAssertion, tries = 0): void => {
    const tenantId = tenantOf(tenant.assertion)
    if (scheduled.has(tenantId)) return
    const timer = setTimeout(
      () => {
        scheduled.delete(tenantId)
        seal(tenant).catch((error: unknown) => {
          failures.inc()
          logger.warn({ event: 'log_not_sealed', tenant_id: tenantId, err: error })
          // The next request of the tenant that reads or writes the log seals it.
          if (!(error instanceof LogContradicted) && tries < retryMs.length) schedule(tenant, tries + 1)
        })
      },
      retryMs[tries - 1] ?? delayMs,
    )
    scheduled.set(tenantId, { timer, tenant })
  }

  return {
    settle: async (tenant) => {
      if (!(await db.read(tenant, hasUnplacedEntries))) return
      for (let left = attempts; ; left -= 1) {
        try {
          await seal(tenant)
          return
        } catch (error) {
          if (error instanceof LogContradicted) return
          if (left === 1) throw error
        }
      }
    },
    schedule: (tenant) => schedule(tenant),
    close: async () => {
      const waiting = [...scheduled.values()]
      scheduled.clear()
      for (const { timer } of waiting) clearTimeout(timer)
      await Promise.allSettled(waiting.map(async ({ tenant }) => await seal(tenant)))
    },
  }
}

/** The same database, whose writes have the sealer look at the tenant's log behind their commit. */
export function sealingAfterWrites(db: TenantDb, sealer: Pick<LogSealer, 'schedule'>): TenantDb {
  return {
    ...db,
    write: async (tenant, fn) => {
      const value = await db.write(tenant, fn)
      sealer.schedule(tenant)
      return value
    },
  }
}
