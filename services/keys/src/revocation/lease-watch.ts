import { leaseMs } from '@postern/contracts/internal'
import type { TenantDb } from '@postern/tenant-db'
import { type GrantRow, forgetLeases, readGrants } from './store.ts'

/** What became of the gateways that held a lease when a wait began, or came to hold one while it lasted. */
export interface WaitOutcome {
  readonly gateways: number
  /** They have applied the log up to the entry. */
  readonly confirmed: number
  /** Their lease has ended: they use no cache before they have caught up. */
  readonly fenced: number
}

/**
 * Watches the leases for all revokes of this replica with one query at a time: every few milliseconds while a revoke waits,
 * and now and then to know who is gone.
 *
 * When a lease has ended is told by this replica's monotonic clock alone. A wall clock may be set, PostgreSQL's as well, and
 * a step forward would end leases that gateways still hold.
 */
export interface LeaseWatch {
  /**
   * Resolves when no gateway holds a lease without having applied the log up to `seq`; with undefined when that could not
   * be established in time. Call it after the entry is committed.
   */
  untilApplied(seq: number, timeoutMs: number): Promise<WaitOutcome | undefined>
  /** A gateway has just renewed here: the next look need not wait for its turn. */
  lookNow(): void
  /** Gives up on every wait. */
  close(): Promise<void>
}

interface Waiter {
  readonly seq: number
  /** After the commit of what it waits for. */
  readonly since: number
  readonly seen: Set<string>
  finish(outcome: WaitOutcome | undefined): void
}

/** A gateway's last grant, and since when this replica has seen it unchanged. */
interface Sight {
  readonly grant: string
  readonly since: number
}

const lookEveryMs = 4
const afterFailureMs = 50
/** While nobody waits. */
const idleLookMs = 1000
/** A gateway without a new grant for this long is gone: a row for each process that ever was would be looked at for ever. */
export const goneMs = 10 * 60 * 1000

/** Opens a watch over the leases in the database. `now` gives milliseconds and never goes back. */
export function openLeaseWatch({
  db,
  now = () => performance.now(),
}: {
  readonly db: Pick<TenantDb, 'system'>
  readonly now?: () => number
}): LeaseWatch {
  const waiters = new Set<Waiter>()
  let sights = new Map<string, Sight>()
  let looking: Promise<void> | undefined
  let wake: (() => void) | undefined
  let isDue = false

  async function look(): Promise<void> {
    while (waiters.size > 0) {
      // Who comes while the query runs may have committed after its snapshot, and is served by the next one.
      const served = [...waiters]
      isDue = false
      let pauseMs = lookEveryMs
      try {
        const leases = await db.system(readGrants)
        const at = note(leases)
        for (const waiter of served) examine(waiter, leases, at)
      } catch {
        // The database is away: whoever waits learns of it by their own time limit, which says 'unconfirmed'.
        pauseMs = afterFailureMs
      }
      if (waiters.size > 0 && !isDue) await pause(pauseMs)
    }
  }

  /** Remembers since when each has what it has, and gives the moment by which the rows are judged. */
  function note(leases: readonly GrantRow[]): number {
    const at = now()
    const seen = leases.map(({ gateway, grant }): [string, Sight] => {
      const known = sights.get(gateway)
      return [gateway, known?.grant === grant ? known : { grant, since: at }]
    })
    sights = new Map(seen)
    return at
  }

  /**
   * INVARIANT: a lease ends `leaseMs` after its gateway asked for it, which was before its grant could be seen here; and one
   * that was granted without knowledge of the entry was asked for before the entry was committed.
   */
  function hasEnded({ gateway, released }: GrantRow, waiter: Waiter, at: number): boolean {
    return released || at - waiter.since >= leaseMs || quietMs(gateway, at) >= leaseMs
  }

  function quietMs(gateway: string, at: number): number {
    return at - (sights.get(gateway)?.since ?? at)
  }

  function examine(waiter: Waiter, leases: readonly GrantRow[], at: number): void {
    // Of those that have applied the entry, too, only the ones whose lease runs are told of.
    const live = leases.filter((lease) => !hasEnded(lease, waiter, at))
    for (const { gateway } of live) waiter.seen.add(gateway)
    if (live.some(({ acked }) => acked < waiter.seq)) return
    const applied = new Set(leases.filter(({ acked }) => acked >= waiter.seq).map(({ gateway }) => gateway))
    const confirmed = [...waiter.seen].filter((gateway) => applied.has(gateway)).length
    waiter.finish({ gateways: waiter.seen.size, confirmed, fenced: waiter.seen.size - confirmed })
  }

  /** So that who died before a revoke began is known to be gone when it begins. */
  async function lookIdly(): Promise<void> {
    try {
      const leases = await db.system(readGrants)
      const at = note(leases)
      const gone = leases.filter(({ gateway }) => quietMs(gateway, at) >= goneMs)
      if (gone.length > 0) await db.system(async (tx) => await forgetLeases(tx, gone))
    } catch {
      // Whoever waits meanwhile looks for itself.
    }
  }

  let idling: Promise<void> | undefined
  const idle = (): void => {
    if (waiters.size > 0) return
    idling ??= lookIdly().finally(() => {
      idling = undefined
    })
  }
  idle()
  const idleTimer = setInterval(idle, idleLookMs)
  idleTimer.unref()

  async function pause(milliseconds: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, milliseconds)
    wake = resolve
    await promise
    wake = undefined
    clearTimeout(timer)
  }

  function lookNow(): void {
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
      lookNow()
      looking ??= look().finally(() => {
        looking = undefined
      })
      return await promise
    },
    lookNow,
    close: async () => {
      clearInterval(idleTimer)
      for (const waiter of waiters) waiter.finish(undefined)
      lookNow()
      await looking
      await idling
    },
  }
}
