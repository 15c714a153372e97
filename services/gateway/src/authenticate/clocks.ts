import { recordTtlMs } from '@postern/contracts/internal'

/** Clocks in milliseconds, injected for tests. */
export interface Clocks {
  /** Monotonic. It stops while a virtual machine is suspended. */
  monotonic(): number
  /** Since the epoch; may jump. */
  wall(): number
}

export const systemClocks: Clocks = { monotonic: () => performance.now(), wall: () => Date.now() }

/** An estimate of the database's clock, which decides when keys expire. */
export interface DatabaseClock {
  /** Records that the database reported `nowMs` for a request sent at `sentMonotonic`. */
  observe(nowMs: number, sentMonotonic: number): void
  /** The latest possible database time. It may reject early by the duration of a quick request, never late. Undefined at first. */
  latest(): number | undefined
  /** The latest database time ever seen. Later than `latest` after the clock was set back. */
  highest(): number | undefined
  /** Whether a moment has passed. Undefined at first, and if our own clock deviates too much. */
  hasPassed(moment: number): boolean | undefined
}

/** How far in the future reads of other servers may seem to be, in milliseconds. */
const aheadMs = 5000
/** An answer that took longer, in milliseconds, bounds the clock too loosely. It counts only if it contradicts the estimate. */
const quickMs = 500
/** The largest difference between two correct clocks, one of them known from a slow answer, in milliseconds. */
const apartMs = 10_000

/** Whether a record read at `readAt` is fresh. One from the future was read before the database's clock was set back. */
export function isFresh(readAt: number, databaseClock: Pick<DatabaseClock, 'latest'>): boolean {
  const now = databaseClock.latest()
  return now !== undefined && now < readAt + recordTtlMs && readAt <= now + aheadMs
}

/**
 * Extrapolates the database's clock with the monotonic one. Calls `onSetBack` immediately if it was set back, because outdated records
 * would be fresh again.
 */
export function createDatabaseClock(clocks: Clocks, onSetBack: () => void = () => undefined): DatabaseClock {
  let offset: number | undefined
  let highest = -Infinity
  /** The highest since the last step back, so that many small steps are noticed too. */
  let peak = -Infinity
  const latest = (): number | undefined => (offset === undefined ? undefined : offset + clocks.monotonic())
  /** Whether the database's clock can have shown `nowMs` at some time of the request, by the estimate. */
  const agrees = (nowMs: number, sentMonotonic: number, receivedMonotonic: number): boolean =>
    offset !== undefined && offset + sentMonotonic <= nowMs && nowMs <= offset + receivedMonotonic

  return {
    observe: (nowMs, sentMonotonic) => {
      const before = latest() ?? -Infinity
      highest = Math.max(highest, before)
      peak = Math.max(peak, before)
      const received = clocks.monotonic()
      if (received - sentMonotonic > quickMs && agrees(nowMs, sentMonotonic, received)) return
      offset = nowMs - sentMonotonic
      const now = offset + received
      if (now >= peak - aheadMs) return
      peak = now
      onSetBack()
    },
    latest,
    highest: () => {
      const now = latest()
      return now === undefined ? undefined : Math.max(highest, now)
    },
    hasPassed: (moment) => {
      const now = latest()
      if (now === undefined) return undefined
      const wall = clocks.wall()
      const isPassed = now >= moment
      const isPassedHere = wall >= moment
      return isPassed === isPassedHere || Math.abs(now - wall) <= apartMs ? isPassed : undefined
    },
  }
}
