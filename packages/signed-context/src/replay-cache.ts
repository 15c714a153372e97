export interface ReplayCache {
  /**
   * Returns `first` for a new nonce, `again` for a used one, and `full` if the request must be rejected because the
   * cache is full.
   */
  use(nonce: string, validUntilMs: number, nowMs: number): 'first' | 'again' | 'full'
}

interface Generation {
  readonly nonces: Set<string>
  validUntilMs: number
}

/**
 * Two generations: the older one is dropped when all its nonces have expired, so a clock that is set back makes no
 * nonce reusable.
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

/** V8 would keep the whole header in memory for a substring. */
function copyOf(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
