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
}

/** Carries the database's clock on with the monotonic one. */
export function createDatabaseClock(clocks: Clocks): DatabaseClock {
  let offset: number | undefined
  return {
    observe: (nowMs, sentMonotonic) => {
      offset = nowMs - sentMonotonic
    },
    latest: () => (offset === undefined ? undefined : offset + clocks.monotonic()),
  }
}
