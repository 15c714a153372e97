import { recordTtlMs } from '@postern/contracts/internal'

/** In milliseconds. */
export interface Clocks {
  /** Stops while a virtual machine is suspended. */
  monotonic(): number
  /** Returns milliseconds since the epoch; may jump. */
  wall(): number
}

export const systemClocks: Clocks = { monotonic: () => performance.now(), wall: () => Date.now() }

/** Estimates the database's clock, which decides when keys expire. */
export interface DatabaseClock {
  /** Records that the database reported `nowMs` for a request sent at `sentMonotonic`. */
  observe(nowMs: number, sentMonotonic: number): void
  /**
   * The latest possible time, undefined at first. It may reject early by the duration of a quick request, never late.
   */
  latest(): number | undefined
  /** The latest time ever seen. */
  highest(): number | undefined
  /** Returns undefined at first, and if our own clock deviates too much. */
  hasPassed(moment: number): boolean | undefined
}

const setBackToleranceMs = 5000
/** A slower answer bounds the clock too loosely and counts only if it contradicts the estimate. */
const quickMs = 500
/** Between two correct clocks, one of them known from a slow answer. */
const maxDifferenceMs = 10_000

/** Whether a record is fresh; one from the future was read before the database's clock was set back. */
export function isFresh(readAt: number, databaseClock: Pick<DatabaseClock, 'latest'>): boolean {
  const now = databaseClock.latest()
  return now !== undefined && now < readAt + recordTtlMs && readAt <= now + setBackToleranceMs
}

/**
 * Extrapolates with the monotonic clock. Calls `onSetBack` if the database's clock was set back, because outdated
 * records would be fresh again.
 */
export function createDatabaseClock(clocks: Clocks, onSetBack: () => void = () => undefined): DatabaseClock {
  let offset: number | undefined
  let highest = -Infinity
  /** Since the last step back, so that many small steps are noticed too. */
  let peak = -Infinity
  const latest = (): number | undefined => (offset === undefined ? undefined : offset + clocks.monotonic())
  /** Whether the estimate allows `nowMs` at some time of the request. */
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
      if (now >= peak - setBackToleranceMs) return
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
      return isPassed === isPassedHere || Math.abs(now - wall) <= maxDifferenceMs ? isPassed : undefined
    },
  }
}
