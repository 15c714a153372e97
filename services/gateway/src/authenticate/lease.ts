import {
  type LeaseAnswer,
  type LeaseRequest,
  type Revocation,
  leaseMarginMs,
  leaseMs,
  renewalsPerLease,
} from '@postern/contracts/internal'
import type { Logger } from '@postern/service-kit'
import type { Clocks, DatabaseClock } from './clocks.ts'
import type { RevocationWatermarks } from './revocation-watermarks.ts'
import { nextMark } from './log-mark.ts'

export interface Timers {
  /** Returns a function that cancels the task. */
  after(ms: number, task: () => void): () => void
}

export const systemTimers: Timers = {
  after: (ms, task) => {
    const timer = setTimeout(task, ms)
    timer.unref()
    return () => clearTimeout(timer)
  },
}

export interface LeaseParts {
  readonly gateway: string
  readonly name: string
  readonly clocks: Clocks
  readonly timers: Timers
  readonly watermarks: RevocationWatermarks
  readonly databaseClock: DatabaseClock
  /** Rejects without an answer in time. */
  readonly renew: (request: LeaseRequest) => Promise<LeaseAnswer>
  readonly usageIsLate: () => boolean
  /** The log was replaced, so no cached record may be used. */
  readonly onReset: () => void
  readonly logger: Logger
}

/** The right to use caches, for two seconds at a time (README.md). */
export interface Lease {
  /** Check it in the tick of each decision: the process may have been frozen since. */
  isHeld(): boolean
  /** Returns milliseconds until the lease ends; negative after its end. */
  remainingMs(): number
  /** Returns the number of gateways with a lease, including this one; undefined without a lease. */
  gateways(): number | undefined
  /** Applies a revocation from Redis and acknowledges it at once. */
  receive(revocation: Revocation): void
  start(): void
  stop(): void
}

/** The last applied entry, and the mark of its log or null. */
interface Cursor {
  readonly seq: number
  readonly mark: string | null
}

const renewEveryMs = leaseMs / renewalsPerLease
const retryAfterMs = 100

export function createLease(parts: LeaseParts): Lease {
  const { gateway, name, clocks, timers, watermarks, databaseClock, renew, usageIsLate, onReset, logger } = parts
  let cursor: Cursor | undefined
  let endsMonotonic = -Infinity
  let endsWall = -Infinity
  let gateways: number | undefined
  let renewing = false
  let isRenewalDue = false
  let stopped = true
  let failures = 0
  let cancelTimer: (() => void) | undefined

  function schedule(ms: number): void {
    cancelTimer?.()
    if (!stopped) cancelTimer = timers.after(ms, renewNow)
  }

  function renewNow(): void {
    if (stopped) return
    if (renewing) {
      isRenewalDue = true
      return
    }
    renewing = true
    isRenewalDue = false
    cancelTimer?.()
    const sent = { monotonic: clocks.monotonic(), wall: clocks.wall(), cursor }
    const late = usageIsLate() ? { usageIsLate: true as const } : {}
    renew({ gateway, name, cursor: cursor?.seq ?? null, mark: cursor?.mark ?? null, counts: true, ...late }).then(
      (answer) => {
        renewing = false
        if (!stopped) applyAnswer(answer, sent)
      },
      (error: unknown) => {
        renewing = false
        failures += 1
        if (failures === 1) logger.warn({ event: 'lease_renewal_failed', err: error })
        schedule(retryAfterMs)
      },
    )
  }

  function applyAnswer(
    answer: LeaseAnswer,
    sent: { monotonic: number; wall: number; cursor: Cursor | undefined },
  ): void {
    if (failures > 0) logger.info({ event: 'lease_renewal_recovered', failures })
    failures = 0
    databaseClock.observe(answer.now, sent.monotonic)
    if (answer.reset) {
      // The watermarks stay, so that a revocation is enforced even if the new log has lost it.
      logger.error({ event: 'revocation_log_reset', had: sent.cursor?.seq, log: answer.cursor })
      endsMonotonic = -Infinity
      cursor = undefined
      onReset()
      schedule(0)
      return
    }
    for (const revocation of answer.revocations) watermarks.apply(revocation)
    // A revocation that arrived meanwhile may be newer.
    if (cursor === undefined || cursor.seq <= answer.cursor) cursor = { seq: answer.cursor, mark: answer.mark }
    // INVARIANT: counted from the moment of sending, because the keys service counts from a later one.
    if (answer.granted) {
      gateways = answer.gateways
      endsMonotonic = sent.monotonic + leaseMs - leaseMarginMs
      endsWall = sent.wall + leaseMs - leaseMarginMs
    }
    // A revocation waits for the next renewal, which acknowledges these entries.
    if (isRenewalDue || cursor.seq !== sent.cursor?.seq) schedule(0)
    else if (!answer.granted) schedule(retryAfterMs)
    else schedule(Math.max(0, renewEveryMs - (clocks.monotonic() - sent.monotonic)))
  }

  const isHeld = (): boolean => clocks.monotonic() < endsMonotonic && clocks.wall() < endsWall

  return {
    isHeld,
    gateways: () => (isHeld() ? gateways : undefined),
    remainingMs: () => Math.min(endsMonotonic - clocks.monotonic(), endsWall - clocks.wall()),
    receive: (revocation) => {
      watermarks.apply(revocation)
      // A renewal already acknowledges these. Anyone in Redis could repeat a message.
      if (cursor !== undefined && revocation.seq <= cursor.seq) return
      if (cursor !== undefined && revocation.seq === cursor.seq + 1) {
        cursor = { seq: revocation.seq, mark: cursor.mark === null ? null : nextMark(cursor.mark, revocation) }
      }
      renewNow()
    },
    start: () => {
      stopped = false
      renewNow()
    },
    stop: () => {
      stopped = true
      cancelTimer?.()
      endsMonotonic = -Infinity
    },
  }
}
