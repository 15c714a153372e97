import { leaseMs } from '@postern/contracts/internal'
import type { TenantDb } from '@postern/tenant-db'
import { type GrantRow, forgetLeases, readGrants } from './store.ts'

export interface WaitOutcome {
  readonly gateways: number
  /** Gateways that have applied the log up to the entry. */
  readonly confirmed: number
  /** Gateways whose lease has ended. They do not use their caches until they have applied the log. */
  readonly fenced: number
}

/**
 * Watches the leases for all pending revokes, one query at a time. Uses only the monotonic clock: after a wall clock
 * jump, leases would seem to end while gateways still use them.
 */
export interface LeaseWatch {
  /**
   * Resolves when every gateway with a lease has applied the log up to `seq`; undefined after the timeout. Call it
   * after the commit.
   */
  untilApplied(seq: number, timeoutMs: number): Promise<WaitOutcome | undefined>
  /** Polls at once, because a gateway has just renewed its lease. */
  pollNow(): void
  close(): Promise<void>
}

interface Waiter {
  readonly seq: number
  /** A time after the commit of the change. */
  readonly since: number
  readonly seen: Set<string>
  finish(outcome: WaitOutcome | undefined): void
}

interface GrantObservation {
  readonly grant: string
  readonly since: number
}

const pollEveryMs = 4
const afterFailureMs = 50
/** The interval while no revoke waits. */
const idlePollMs = 1000
/** Bounds the table, which grows with each process start. */
export const forgetAfterMs = 10 * 60 * 1000

/** `now` is monotonic, in milliseconds. */
export function openLeaseWatch({
  db,
  now = () => performance.now(),
}: {
  readonly db: Pick<TenantDb, 'system'>
  readonly now?: () => number
}): LeaseWatch {
  const waiters = new Set<Waiter>()
  let observations = new Map<string, GrantObservation>()
  let polling: Promise<void> | undefined
  let wake: (() => void) | undefined
  let isDue = false

  async function poll(): Promise<void> {
    while (waiters.size > 0) {
      // A revoke that starts during the query may have committed after its snapshot, so the next query serves it.
      const served = [...waiters]
      isDue = false
      let pauseMs = pollEveryMs
      try {
        const leases = await db.system(readGrants)
        const at = observeGrants(leases)
        for (const waiter of served) resolveIfApplied(waiter, leases, at)
      } catch {
        // Each waiter's own time limit reports 'unconfirmed'.
        pauseMs = afterFailureMs
      }
      if (waiters.size > 0 && !isDue) await pause(pauseMs)
    }
  }

  /** Records since when each grant is unchanged, and returns the time at which the rows are judged. */
  function observeGrants(leases: readonly GrantRow[]): number {
    const at = now()
    const seen = leases.map(({ gateway, grant }): [string, GrantObservation] => {
      const known = observations.get(gateway)
      return [gateway, known?.grant === grant ? known : { grant, since: at }]
    })
    observations = new Map(seen)
    return at
  }

  /**
   * INVARIANT: a lease ends `leaseMs` after its gateway requested it, which was before its grant became visible here. A
   * lease granted without the entry was requested before the entry was committed.
   */
  function hasEnded({ gateway, released }: GrantRow, waiter: Waiter, at: number): boolean {
    return released || at - waiter.since >= leaseMs || getQuietMs(gateway, at) >= leaseMs
  }

  function getQuietMs(gateway: string, at: number): number {
    return at - (observations.get(gateway)?.since ?? at)
  }

  function resolveIfApplied(waiter: Waiter, leases: readonly GrantRow[], at: number): void {
    // Counts only gateways whose lease was running at some time during the wait.
    const live = leases.filter((lease) => !hasEnded(lease, waiter, at))
    for (const { gateway } of live) waiter.seen.add(gateway)
    if (live.some(({ acked }) => acked < waiter.seq)) return
    const applied = new Set(leases.filter(({ acked }) => acked >= waiter.seq).map(({ gateway }) => gateway))
    const confirmed = [...waiter.seen].filter((gateway) => applied.has(gateway)).length
    waiter.finish({ gateways: waiter.seen.size, confirmed, fenced: waiter.seen.size - confirmed })
  }

  /** Detects gateways that died before a revoke starts. */
  async function pollWhileIdle(): Promise<void> {
    try {
      const leases = await db.system(readGrants)
      const at = observeGrants(leases)
      const gone = leases.filter(({ gateway }) => getQuietMs(gateway, at) >= forgetAfterMs)
      if (gone.length > 0) await db.system(async (tx) => await forgetLeases(tx, gone))
    } catch {}
  }

  let idlePolling: Promise<void> | undefined
  const startIdlePoll = (): void => {
    if (waiters.size > 0) return
    idlePolling ??= pollWhileIdle().finally(() => {
      idlePolling = undefined
    })
  }
  startIdlePoll()
  const idleTimer = setInterval(startIdlePoll, idlePollMs)
  idleTimer.unref()

  async function pause(milliseconds: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, milliseconds)
    wake = resolve
    await promise
    wake = undefined
    clearTimeout(timer)
  }

  function pollNow(): void {
    isDue = true
    wake?.()
  }

  return {
    untilApplied: async (seq, timeoutMs) => {
      const { promise, resolve } = Promise.withResolvers<WaitOutcome | undefined>()
      const limit = setTimeout(() => waiter.finish(undefined), timeoutMs)
      const waiter: Waiter = {
        seq,
        since: now(),
        seen: new Set(),
        finish: (outcome) => {
          clearTimeout(limit)
          waiters.delete(waiter)
          resolve(outcome)
        },
      }
      waiters.add(waiter)
      pollNow()
      polling ??= poll().finally(() => {
        polling = undefined
      })
      return await promise
    },
    pollNow,
    close: async () => {
      clearInterval(idleTimer)
      for (const waiter of waiters) waiter.finish(undefined)
      pollNow()
      await polling
      await idlePolling
    },
  }
}
