import type { Enforcement } from '@postern/contracts'
import { type Revocation, leaseMs } from '@postern/contracts/internal'
import { type Logger, ProblemError, type ProblemOptions, type Registry, problem } from '@postern/service-kit'
import type { TenantDb, Tx } from '@postern/tenant-db'
import { Histogram } from '@prometheus-io/client'
import { CommitInDoubtError } from '../database-errors.ts'
import type { Announcer } from './announce.ts'
import type { LeaseWatch } from './lease-watch.ts'
import { lastKeyChange, lastKeyChanges, lastTenantChange, readClock } from './store.ts'

/** Enforces committed changes on every gateway. README.md explains the protocol. */
export interface Enforcer {
  /**
   * Resolves when no gateway accepts the key's old state; null if all leases are newer than the change. Rejects with
   * `revocation_unconfirmed`.
   */
  enforceKey(hash: string): Promise<Enforcement | null>
  /** As `enforceKey` for all of these keys, with the time at which the last of them was enforced (database clock). */
  enforceKeys(hashes: readonly string[]): Promise<{ readonly at: Date; readonly enforcement: Enforcement | null }>
  /** Resolves when every gateway uses the tenant's new status, name and limits. */
  enforceTenant(tenantId: string): Promise<Enforcement | null>
  /** Runs a narrowing. If the database fails, rejects with `revocation_unconfirmed`: the request can be repeated. */
  runNarrowing<T>(kind: 'key' | 'tenant', work: () => Promise<T>): Promise<T>
  /**
   * Runs a rotation, which must not be repeated blindly: rejects with `inDoubt` if it may be committed, otherwise with the
   * database's problem.
   */
  runRotation<T>(work: () => Promise<T>, inDoubt: UnconfirmedAdvice): Promise<T>
  announceKey(hash: string): Promise<void>
}

type UnconfirmedAdvice = Pick<ProblemOptions, 'detail' | 'retryAfterSeconds'>

const repeatAdvice: UnconfirmedAdvice = {
  detail: 'The change may not be in force on every gateway yet. Repeat the request. This is safe.',
  retryAfterSeconds: 1,
}

/** Every lease granted before the commit has ended by then. */
const waitMs = leaseMs + 500

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
    help: 'Time from the commit of a change until no gateway uses the old state; outcome unconfirmed: until the wait ended or PostgreSQL failed',
    labelNames: ['kind', 'outcome'],
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3],
    registers: [metrics],
  })

  // Starts at 0, so that the first observation is an increase.
  for (const kind of ['key', 'tenant'] as const) {
    for (const outcome of ['enforced', 'unconfirmed']) waits.zero({ kind, outcome })
  }

  async function reportDoubt<T>(
    kind: 'key' | 'tenant',
    work: () => Promise<T>,
    advice = repeatAdvice,
    isUnconfirmed = (_error: ProblemError) => true,
  ): Promise<T> {
    const startedAt = performance.now()
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof ProblemError && error.code === 'service_unavailable' && isUnconfirmed(error))) throw error
      waits.observe({ kind, outcome: 'unconfirmed' }, (performance.now() - startedAt) / 1000)
      throw problem('revocation_unconfirmed', { ...advice, cause: error })
    }
  }

  async function enforce(findChange: (tx: Tx) => Promise<Revocation | undefined>): Promise<Enforcement | null> {
    const committedAt = performance.now()
    const change = await db.system(findChange)
    if (change === undefined) return null
    announcer.announce(change)
    return await waitUntilEnforced(change, committedAt)
  }

  async function waitUntilEnforced(change: Revocation, committedAt: number): Promise<Enforcement> {
    const outcome = await leaseWatch.untilApplied(change.seq, waitMs - (performance.now() - committedAt))
    const waitedMs = performance.now() - committedAt
    const labels = { kind: change.kind, outcome: outcome === undefined ? 'unconfirmed' : 'enforced' }
    waits.observe(labels, waitedMs / 1000)
    if (outcome === undefined) throw problem('revocation_unconfirmed', repeatAdvice)
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
      await reportDoubt('key', async () => await enforce(async (tx) => await lastKeyChange(tx, hash))),
    enforceKeys: async (hashes) =>
      await reportDoubt('key', async () => {
        const committedAt = performance.now()
        const changes = await db.system(async (tx) => await lastKeyChanges(tx, hashes))
        const last = changes.at(-1)
        announcer.announceKeys(changes)
        // The log is applied in order, so the last entry includes all others.
        const enforcement = last === undefined ? null : await waitUntilEnforced(last, committedAt)
        return { at: await db.system(readClock), enforcement }
      }),
    enforceTenant: async (tenantId) =>
      await reportDoubt('tenant', async () => await enforce(async (tx) => await lastTenantChange(tx, tenantId))),
    runNarrowing: async (kind, work) => await reportDoubt(kind, work),
    runRotation: async (work, inDoubt) =>
      await reportDoubt('key', work, inDoubt, ({ cause }) => cause instanceof CommitInDoubtError),
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
