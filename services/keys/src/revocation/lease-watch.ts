import type { TenantDb } from '@postern/tenant-db'
import { type LeaseRow, readLeases } from './store.ts'

/** What became of the gateways that held a lease when a wait began, or came to hold one while it lasted. */
export interface WaitOutcome {
  readonly gateways: number
  /** They have applied the log up to the entry. */
  readonly confirmed: number
  /** Their lease has ended: they use no cache before they have caught up. */
  readonly fenced: number
}

/** Watches the leases for all revokes of this replica with one query at a time, and only while a revoke waits. */
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
  readonly seen: Set<string>
  finish(outcome: WaitOutcome | undefined): void
}

const lookEveryMs = 4
const afterFailureMs = 50

/** Opens a watch over the leases in the database. */
export function openLeaseWatch({ db }: { readonly db: Pick<TenantDb, 'system'> }): LeaseWatch {
  const waiters = new Set<Waiter>()
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
        const leases = await db.system(readLeases)
        for (const waiter of served) examine(waiter, leases)
      } catch {
        // The database is away: whoever waits learns of it by their own time limit, which says 'unconfirmed'.
        pauseMs = afterFailureMs
      }
      if (waiters.size > 0 && !isDue) await pause(pauseMs)
    }
  }

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
      for (const waiter of waiters) waiter.finish(undefined)
      lookNow()
      await looking
    },
  }
}

function examine(waiter: Waiter, leases: readonly LeaseRow[]): void {
  for (const { gateway, live } of leases) if (live) waiter.seen.add(gateway)
  if (leases.some(({ live, acked }) => live && acked < waiter.seq)) return
  const applied = new Set(leases.filter(({ acked }) => acked >= waiter.seq).map(({ gateway }) => gateway))
  const confirmed = [...waiter.seen].filter((gateway) => applied.has(gateway)).length
  waiter.finish({ gateways: waiter.seen.size, confirmed, fenced: waiter.seen.size - confirmed })
}
