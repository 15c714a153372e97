/** Remembers which nonces were used, for as long as their signatures are young enough to be accepted. */
export interface ReplayCache {
  /**
   * Uses a nonce whose signature is accepted until `validUntilMs`: `first` when it was not used before, `again` when it
   * was, `full` when there is no room to remember it and it must be refused.
   */
  use(nonce: string, validUntilMs: number, nowMs: number): 'first' | 'again' | 'full'
}

interface Generation {
  readonly nonces: Set<string>
  /** Until when the youngest of them is valid. */
  validUntilMs: number
}

/**
 * Gives a cache of at most `maxNonces`, in two generations: a new one begins, and the older is forgotten as a whole, as
 * soon as none of the older is valid any more. So nothing is forgotten too early, whatever the clock does in between
 * short of a jump forward and back, and nothing has to be looked through.
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
      current.nonces.add(detached(nonce))
      current.validUntilMs = Math.max(current.validUntilMs, validUntilMs)
      return 'first'
    },
  }
}

function emptyGeneration(): Generation {
  return { nonces: new Set(), validUntilMs: Number.NEGATIVE_INFINITY }
}

/** A copy that shares no memory: V8 would keep the whole header alive for the part that was cut out of it. */
function detached(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
