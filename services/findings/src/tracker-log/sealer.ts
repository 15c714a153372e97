import type { Logger, Registry } from '@postern/service-kit'
import type { TenantAssertion, TenantDb } from '@postern/tenant-db'
import { tenantOf } from '../sql/store.ts'
import { Counter } from '@prometheus-io/client'
import { sealLog } from './seal.ts'
import type { CheckpointSigner } from './sign.ts'
import { LogContradictedError } from './signed-end.ts'
import { hasUnplacedEntries } from './store.ts'

const delayMs = 50
/** All retries run before the assertion of the write expires. */
const retryDelaysMs = [1_000, 2_000, 4_000, 8_000, 16_000]
const attempts = 3

export interface LogSealer {
  /**
   * Resolves when all committed entries have positions. Leaves a contradicted log unchanged. Rejects with errors of the
   * database.
   */
  settle(tenant: TenantAssertion): Promise<void>
  schedule(tenant: TenantAssertion): void
  close(): Promise<void>
}

interface Runs {
  current: Promise<void> | undefined
  next: Promise<void> | undefined
}

/** Only one process seals a tenant's log at a time. */
export function openLogSealer({
  db,
  checkpoints,
  logger,
  metrics,
}: {
  readonly db: Pick<TenantDb, 'read' | 'write'>
  readonly checkpoints: CheckpointSigner
  readonly logger: Pick<Logger, 'warn'>
  readonly metrics: Registry
}): LogSealer {
  const failures = new Counter({
    name: 'postern_findings_log_seal_failures_total',
    help: 'Attempts to seal new entries of a remediation log that failed',
    registers: [metrics],
  })
  const runs = new Map<string, Runs>()
  const scheduled = new Map<string, { readonly timer: NodeJS.Timeout; readonly tenant: TenantAssertion }>()
  let isClosed = false

  const run = async ({ assertion }: TenantAssertion): Promise<void> => {
    const tenantId = tenantOf(assertion)
    // Keeps only the assertion: the client may disconnect while other requests wait.
    while (await db.write({ assertion }, async (tx) => sealLog(tx, { tenantId, checkpoints })));
  }

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
    if (isClosed || scheduled.has(tenantId)) return
    const timer = setTimeout(
      () => {
        scheduled.delete(tenantId)
        seal(tenant).catch((error: unknown) => {
          failures.inc()
          logger.warn({ event: 'log_not_sealed', tenant_id: tenantId, err: error })
          // After the last attempt, the tenant's next request seals the log.
          if (!(error instanceof LogContradictedError) && tries < retryDelaysMs.length) schedule(tenant, tries + 1)
        })
      },
      retryDelaysMs[tries - 1] ?? delayMs,
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
          if (error instanceof LogContradictedError) return
          if (left === 1) throw error
        }
      }
    },
    schedule: (tenant) => schedule(tenant),
    close: async () => {
      isClosed = true
      const waiting = [...scheduled.values()]
      scheduled.clear()
      for (const { timer } of waiting) clearTimeout(timer)
      await Promise.allSettled(waiting.map(async ({ tenant }) => await seal(tenant)))
      await Promise.allSettled([...runs.values()].flatMap(({ current, next }) => [current ?? [], next ?? []].flat()))
    },
  }
}

/** Schedules sealing after the commit of each write. */
export function sealAfterWrites(db: TenantDb, sealer: Pick<LogSealer, 'schedule'>): TenantDb {
  return {
    ...db,
    write: async (tenant, fn) => {
      const value = await db.write(tenant, fn)
      sealer.schedule(tenant)
      return value
    },
  }
}
