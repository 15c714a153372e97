import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { maskKeys, parseKey } from '@postern/api-key'
import { leaseMs } from '@postern/contracts/internal'
import { type Logger, ProblemError, problem } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import type { Enforcer } from '../revocation/revoke.ts'
import { type LeakedKey, type ReportedKey, type Reporter, recordGithubReport, revokeLeakedKeys } from './store.ts'

/** Longer than an enforcement may take, so that the time of an answer does not tell whether a key exists. */
export const answerAfterMs: number = leaseMs + 1000

/** Further ones are not retried, because the log enforces them as well. */
const maxUnconfirmed = 10_000
const enforceBatch = 100
const maxUrlLength = 2000

export interface LeakReport {
  /** `url`: the page that contains the value. */
  readonly found: readonly { readonly value: string; readonly url?: string | null | undefined }[]
  readonly reporter: Reporter
  /** SHA-256 of a signed report, which is accepted once. */
  readonly digest?: Buffer
}

export interface LeakOutcome {
  readonly id: string
  readonly receivedAt: Date
  readonly values: number
  /** Hashes of the values that are keys, in any state. */
  readonly known: ReadonlySet<string>
}

export interface LeakReports {
  /** Revokes the values that are keys. Rejects with `conflict` for a known digest. Settles after `answerAfterMs`, or later if PostgreSQL is slow. */
  report(report: LeakReport): Promise<LeakOutcome>
  /** Repeats the enforcement of committed revocations that are not confirmed. */
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
  const underWay = new Set<Promise<void>>()

  async function revoke(keys: readonly ReportedKey[], { reporter, digest }: LeakReport): Promise<ReadonlySet<string>> {
    let found: readonly LeakedKey[]
    try {
      found = await db.system(async (tx) => {
        if (digest !== undefined && !(await recordGithubReport(tx, digest))) throw replayProblem()
        return await revokeLeakedKeys(tx, keys, reporter)
      })
    } catch (cause) {
      if (cause instanceof ProblemError && cause.code === 'conflict') throw cause
      throw problem('service_unavailable', {
        detail: 'The report could not be stored. Send it again. This is safe.',
        retryAfterSeconds: 1,
        cause,
      })
    }
    for (const key of found) {
      if (key.isRevokedNow) logger.info({ event: 'key_revoked', key_id: key.id, tenant_id: key.tenantId })
    }
    const task = enforceAll(found)
    underWay.add(task)
    void task.then(() => underWay.delete(task))
    return new Set(found.map(({ hash }) => hash))
  }

  async function enforceAll(keys: readonly LeakedKey[]): Promise<void> {
    for (let start = 0; start < keys.length; start += enforceBatch) {
      await Promise.all(keys.slice(start, start + enforceBatch).map(enforce))
    }
  }

  /** Returns whether every gateway has confirmed. */
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
    report: async (report) => {
      const [id, receivedAt] = [randomUUID(), new Date()]
      const urls = new Map(report.found.map(({ value, url }) => [value, url ?? '']))
      const [revoked] = await Promise.allSettled([revoke(reportedKeys(id, urls), report), sleep(waitMs)])
      if (revoked.status === 'rejected') throw revoked.reason
      return { id, receivedAt, values: urls.size, known: revoked.value }
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

function reportedKeys(report: string, urls: ReadonlyMap<string, string>): ReportedKey[] {
  return [...urls].flatMap(([value, url]) => {
    const parsed = parseKey(value)
    if (parsed === undefined) return []
    // The URL may contain the key.
    const place = url === '' ? {} : { url: maskKeys(url).slice(0, maxUrlLength) }
    return [{ hash: parsed.hash, detail: { report, ...place } }]
  })
}

function replayProblem(): Error {
  return problem('conflict', { detail: 'This report was processed before. Do not send it again.' })
}
