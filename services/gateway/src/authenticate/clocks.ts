import { recordTtlMs } from '@postern/contracts/internal'

/** Times in milliseconds. Injected, so that tests can move them. */
export interface Clocks {
  /** Never goes back; stands still while a virtual machine is suspended. */
  monotonic(): number
  /** Since the epoch; may jump. */
  wall(): number
}

export const systemClocks: Clocks = { monotonic: () => performance.now(), wall: () => Date.now() }

/** What a gateway knows of the database's clock, by which keys expire whatever the gateway's own clock says. */
export interface DatabaseClock {
  /** Takes in that the database said `nowMs` in answer to a question sent at `sentMonotonic`. */
  observe(nowMs: number, sentMonotonic: number): void
  /**
   * The latest that the database's clock can show now: at worst early in refusing by the time the answer took, never
   * late. Undefined before the first observation.
   */
  latest(): number | undefined
  /** The latest that it has ever shown here: later than `latest` after it was set back. Undefined as `latest` is. */
  highest(): number | undefined
  /**
   * Whether a moment has passed, by the database's clock. Undefined where that cannot be known: before the first observation,
   * and where our own clock says the opposite and is further away than clocks of one installation are.
   */
  hasPassed(moment: number): boolean | undefined
}

/** What is read by other servers of one database may seem to come from this far ahead, in milliseconds. */
const aheadMs = 5000
/** Two clocks that are right, one of them known by an answer that took its time, lie no further apart, in milliseconds. */
const apartMs = 10_000

/**
 * Whether a record that was read at `readAt` may be used still. One from the future was read before the database's clock was
 * set back: it would stay young for as long as the clock was set back.
 */
export function isFresh(readAt: number, databaseClock: Pick<DatabaseClock, 'latest'>): boolean {
  const now = databaseClock.latest()
  return now !== undefined && now < readAt + recordTtlMs && readAt <= now + aheadMs
}

/**
 * Carries the database's clock on with the monotonic one. `onSetBack` is called in the tick in which it is seen to have been
 * set back: what was too old to be used, and was forgotten what overrules it, would be young again.
 */
export function createDatabaseClock(clocks: Clocks, onSetBack: () => void = () => undefined): DatabaseClock {
  let offset: number | undefined
  let highest = -Infinity
  /** The highest since it was last set back: a step back is one also where it is made in many. */
  let peak = -Infinity
  const latest = (): number | undefined => (offset === undefined ? undefined : offset + clocks.monotonic())
  return {
    observe: (nowMs, sentMonotonic) => {
      const before = latest() ?? -Infinity
      highest = Math.max(highest, before)
      peak = Math.max(peak, before)
      offset = nowMs - sentMonotonic
      const now = offset + clocks.monotonic()
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
