import type { Enforcement } from '@postern/contracts'
import { type Revocation, leaseMs } from '@postern/contracts/internal'
import { type Logger, ProblemError, type ProblemOptions, type Registry, problem } from '@postern/service-kit'
import type { TenantDb, Tx } from '@postern/tenant-db'
import { Histogram } from '@prometheus-io/client'
import { CommitInDoubt } from '../database-failures.ts'
import type { Announcer } from './announce.ts'
import type { LeaseWatch } from './lease-watch.ts'
import { lastKeyChange, lastTenantChange } from './store.ts'

/** Brings a committed change into force on every gateway. README.md beside this file says why it holds. */
export interface Enforcer {
  /**
   * Resolves when no gateway accepts the key as it was before its last change. Null: the change is so old that the log has
   * dropped it, and every lease there is was granted after it. Rejects with `revocation_unconfirmed` when it cannot tell.
   */
  enforceKey(hash: string): Promise<Enforcement | null>
  /** The same for a tenant: its status, name and limits. */
  enforceTenant(tenantId: string): Promise<Enforcement | null>
  /**
   * Runs what writes a narrowing. When the database fails in it, nobody knows whether it is committed and in force, and the
   * answer says just that, and that the request can be repeated.
   */
  confirmed<T>(kind: 'key' | 'tenant', work: () => Promise<T>): Promise<T>
  /**
   * The same for what makes a key as well, which a repeated request would do again: where it may be committed, the answer is `inDoubt`;
   * where it is not, that of the database.
   */
  confirmedOnce<T>(work: () => Promise<T>, inDoubt: Told): Promise<T>
  /** Tells the gateways without waiting: for a change that need not be in force at once. */
  announceKey(hash: string): Promise<void>
}

/** What tells the caller of a revocation_unconfirmed what to do. */
type Told = Pick<ProblemOptions, 'detail' | 'retryAfterSeconds'>

const toBeRepeated: Told = {
  detail: 'It is not known whether the change is in force on every gateway. Repeat the request: that is safe.',
  retryAfterSeconds: 1,
}

/** A lease that was granted before the commit has run out by then on any clock. */
const waitMs = leaseMs + 500

/** Opens the enforcer. */
export function openEnforcer({
  db,
  announcer,
  leaseWatch,
  logger,
  metrics,
}: {
  readonly db: Pick<TenantDb, 'system'>
  readonly announcer: Announcer
  readonly leaseWatch: LeaseWatch
  readonly logger: Logger
  readonly metrics: Registry
}): Enforcer {
  const waits = new Histogram({
    name: 'postern_keys_enforcement_seconds',
    help: 'Time from the commit of a change to the moment when no gateway goes by the old state; unconfirmed: until it was given up, also where PostgreSQL failed',
    labelNames: ['kind', 'outcome'],
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3],
    registers: [metrics],
  })

  // Known before the first: from nothing to one there would be no increase to see.
  for (const kind of ['key', 'tenant'] as const) {
    for (const outcome of ['enforced', 'unconfirmed']) waits.zero({ kind, outcome })
  }

  async function confirmed<T>(
    kind: 'key' | 'tenant',
    work: () => Promise<T>,
    told = toBeRepeated,
    isUnconfirmed = (_error: ProblemError) => true,
  ): Promise<T> {
    const startedAt = performance.now()
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof ProblemError && error.code === 'service_unavailable' && isUnconfirmed(error))) throw error
      waits.observe({ kind, outcome: 'unconfirmed' }, (performance.now() - startedAt) / 1000)
      throw problem('revocation_unconfirmed', { ...told, cause: error })
    }
  }

  async function enforce(findChange: (tx: Tx) => Promise<Revocation | undefined>): Promise<Enforcement | null> {
    const committedAt = performance.now()
    const change = await db.system(findChange)
    if (change === undefined) return null
    announcer.announce(change)
    const outcome = await leaseWatch.untilApplied(change.seq, waitMs - (performance.now() - committedAt))
    const waitedMs = performance.now() - committedAt
    const labels = { kind: change.kind, outcome: outcome === undefined ? 'unconfirmed' : 'enforced' }
    waits.observe(labels, waitedMs / 1000)
    if (outcome === undefined) throw problem('revocation_unconfirmed', toBeRepeated)
    logger.info({
      event: 'change_enforced',
      kind: change.kind,
      seq: change.seq,
      ...outcome,
      waited_ms: round(waitedMs),
    })
    return { ...outcome, waited_ms: round(waitedMs) }
  }

  return {
    enforceKey: async (hash) =>
      await confirmed('key', async () => await enforce(async (tx) => await lastKeyChange(tx, hash))),
    enforceTenant: async (tenantId) =>
      await confirmed('tenant', async () => await enforce(async (tx) => await lastTenantChange(tx, tenantId))),
    confirmed: async (kind, work) => await confirmed(kind, work),
    confirmedOnce: async (work, inDoubt) =>
      await confirmed('key', work, inDoubt, ({ cause }) => cause instanceof CommitInDoubt),
    announceKey: async (hash) => {
      try {
        const change = await db.system(async (tx) => await lastKeyChange(tx, hash))
        if (change !== undefined) announcer.announce(change)
      } catch (error) {
        logger.warn({ event: 'announce_failed', err: error })
      }
    },
  }
}

function round(milliseconds: number): number {
  return Math.round(milliseconds * 100) / 100
}
