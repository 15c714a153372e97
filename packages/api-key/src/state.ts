/** The one state a key is in. Nothing leads out of `revoked`. */
export type KeyState = 'active' | 'expired' | 'revoked'

/** A moment, as a Date or in milliseconds since 1970. */
export type Moment = Date | number

/** What a key's state follows from. */
export interface KeyLife {
  /** When the key was revoked, or null. Any moment counts, also a future one: a revocation has no start date. */
  readonly revokedAt: Moment | null
  /** First moment at which the key is no longer accepted. */
  readonly expiresAt: Moment
}

/**
 * Gives a key's state at a moment. Revoked wins over expired. A date that cannot be read counts as expired.
 *
 * HOT PATH: compared on every request, never left to the lifetime of a cache entry.
 */
export function keyState(life: KeyLife, now: Moment): KeyState {
  if (life.revokedAt !== null) return 'revoked'
  // Written so that a comparison with an invalid date (NaN, always false) closes the door.
  return now.valueOf() < life.expiresAt.valueOf() ? 'active' : 'expired'
}
