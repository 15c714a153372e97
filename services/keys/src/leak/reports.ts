import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseKey } from '@postern/api-key'
import { leaseMs } from '@postern/contracts/internal'
import { type Logger, problem } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import type { Enforcer } from '../revocation/revoke.ts'
import { type LeakedKey, type Reporter, revokeLeakedKeys } from './store.ts'

/** Longer than an enforcement may take, so that the time of an answer does not tell whether a key exists. */
export const answerAfterMs: number = leaseMs + 1000

/** More are enforced by the log alone. */
const maxUnconfirmed = 10_000

export interface LeakReport {
  readonly values: readonly string[]
  readonly reporter: Reporter
}

export interface LeakOutcome {
  /** The id of the report. */
  readonly id: string
  readonly receivedAt: Date
  /** The number of different values. */
  readonly values: number
}

export interface LeakReports {
  /** Revokes the values that are keys. Settles after `answerAfterMs`, or later if PostgreSQL is slow. */
  report(report: LeakReport): Promise<LeakOutcome>
  /** Enforces again what was committed but is not confirmed. */
  retry(): Promise<void>
  close(): Promise<void>
}

export function openLeakReports({
  db,
  enforcer,
  logger,
  waitMs = answerAfterMs,
}: {
  readonly db: Pick<TenantDb, 'system'>
  readonly enforcer: Pick<Enforcer, 'enforceKey'>
  readonly logger: Logger
  readonly waitMs?: number
}): LeakReports {
  const unconfirmed = new Map<string, LeakedKey>()
  const underWay = new Set<Promise<boolean>>()

  async function revoke(id: string, values: readonly string[], reporter: Reporter): Promise<void> {
    const hashes = new Set(values.flatMap((value) => parseKey(value)?.hash ?? []))
    const reported = [...hashes].map((hash) => ({ hash, detail: { report: id } }))
    let found: readonly LeakedKey[]
    try {
      found = await db.system(async (tx) => await revokeLeakedKeys(tx, reported, reporter))
    } catch (cause) {
      throw problem('service_unavailable', {
        detail: 'The report could not be stored. Send it again. This is safe.',
        retryAfterSeconds: 1,
        cause,
      })
    }
    for (const key of found) {
      if (key.isRevokedNow) logger.info({ event: 'key_revoked', key_id: key.id, tenant_id: key.tenantId })
      const task = enforce(key)
      underWay.add(task)
      void task.then(() => underWay.delete(task))
    }
  }

  /** Returns whether it is confirmed. */
  async function enforce(key: LeakedKey): Promise<boolean> {
    try {
      await enforcer.enforceKey(key.hash)
      if (unconfirmed.delete(key.id)) {
        logger.info({ event: 'leak_enforced', key_id: key.id, tenant_id: key.tenantId })
      }
      return true
    } catch (error) {
      if (unconfirmed.size < maxUnconfirmed) unconfirmed.set(key.id, key)
      logger.warn({ event: 'leak_unconfirmed', key_id: key.id, tenant_id: key.tenantId, err: error })
      return false
    }
  }

  return {
    report: async ({ values, reporter }) => {
      const distinct = [...new Set(values)]
      const outcome = { id: randomUUID(), receivedAt: new Date(), values: distinct.length }
      const [revoked] = await Promise.allSettled([revoke(outcome.id, distinct, reporter), sleep(waitMs)])
      if (revoked.status === 'rejected') throw revoked.reason
      return outcome
    },
    retry: async () => {
      // After a failure, the next attempts would fail as well.
      for (const key of unconfirmed.values()) if (!(await enforce(key))) return
    },
    close: async () => {
      await Promise.all(underWay)
    },
  }
}
