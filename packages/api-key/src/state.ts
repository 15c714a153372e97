/** `revoked` is final. */
export type KeyState = 'active' | 'expired' | 'revoked'

export type Moment = Date | number

export interface KeyLife {
  /** A date in the future counts too. */
  readonly revokedAt: Moment | null
  /** The first moment at which the key is rejected. */
  readonly expiresAt: Moment
}

/** Revoked takes precedence over expired, and an invalid date counts as expired. Compare on every request. */
export function keyState(life: KeyLife, now: Moment): KeyState {
  if (life.revokedAt !== null) return 'revoked'
  // A comparison with an invalid date (NaN) is false.
  return now.valueOf() < life.expiresAt.valueOf() ? 'active' : 'expired'
}
