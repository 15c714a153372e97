/** `revoked` is final. */
export type KeyState = 'active' | 'expired' | 'revoked'

export type Instant = Date | number

export interface KeyLife {
  /** A date in the future counts too. */
  readonly revokedAt: Instant | null
  /** The first moment at which the key is rejected. */
  readonly expiresAt: Instant
}

/** Revoked takes precedence over expired, and an invalid date counts as expired. Compare on every request. */
export function keyState(life: KeyLife, now: Instant): KeyState {
  if (life.revokedAt !== null) return 'revoked'
  // A comparison with an invalid date (NaN) is false.
  return now.valueOf() < life.expiresAt.valueOf() ? 'active' : 'expired'
}
