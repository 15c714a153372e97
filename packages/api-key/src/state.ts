/** The state of a key. `revoked` is final. */
export type KeyState = 'active' | 'expired' | 'revoked'

/** A moment, as a Date or in milliseconds since 1970. */
export type Moment = Date | number

/** The dates that decide the state of a key. */
export interface KeyLife {
  /** When the key was revoked, or null. A date in the future counts too. */
  readonly revokedAt: Moment | null
  /** The first moment at which the key is rejected. */
  readonly expiresAt: Moment
}

/**
 * Returns the state of a key at a moment. Revoked takes precedence over expired, and an invalid date counts as expired.
 *
 * Compare on every request. The lifetime of a cache entry does not replace this check.
 */
export function keyState(life: KeyLife, now: Moment): KeyState {
  if (life.revokedAt !== null) return 'revoked'
  // A comparison with an invalid date (NaN) is false, so the key counts as expired.
  return now.valueOf() < life.expiresAt.valueOf() ? 'active' : 'expired'
}
