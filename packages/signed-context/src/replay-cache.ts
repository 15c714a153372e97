/** Remembers used nonces until their signatures are too old to be accepted. */
export interface ReplayCache {
  /**
   * Uses a nonce whose signature is accepted until `validUntilMs`: `first` if it is new, `again` if it was used before,
   * `full` if the cache cannot remember it and the request must be rejected.
   */
  use(nonce: string, validUntilMs: number, nowMs: number): 'first' | 'again' | 'full'
}

interface Generation {
  readonly nonces: Set<string>
  /** Until when its last nonce is valid. */
  validUntilMs: number
}

/**
 * Creates a cache of at most `maxNonces` in two generations. The older one is dropped when all its nonces have expired,
 * so a clock that is set back makes no nonce reusable.
 */
export function createReplayCache(maxNonces: number): ReplayCache {
  let current = emptyGeneration()
  let previous = emptyGeneration()
  return {
    use(nonce, validUntilMs, nowMs) {
      if (nowMs > previous.validUntilMs) {
        previous = current
        current = emptyGeneration()
      }
      if (current.nonces.has(nonce) || previous.nonces.has(nonce)) return 'again'
      if (current.nonces.size + previous.nonces.size >= maxNonces) return 'full'
      current.nonces.add(copyOf(nonce))
      current.validUntilMs = Math.max(current.validUntilMs, validUntilMs)
      return 'first'
    },
  }
}

function emptyGeneration(): Generation {
  return { nonces: new Set(), validUntilMs: Number.NEGATIVE_INFINITY }
}

/** V8 would keep the whole header in memory for a substring of it. */
function copyOf(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
