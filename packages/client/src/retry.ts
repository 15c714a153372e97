/** How often and how long a request is tried again. */
export interface RetryOptions {
  /** Tries after the first, default 3; 0: none. */
  readonly retries?: number
  /** The longest wait before one try, in milliseconds, default 60,000: an answer that asks for more is thrown at once. */
  readonly maxWaitMs?: number
}

const firstWaitMs = 250
const longestBackoffMs = 10_000

/** What a request may be tried again after. */
export type Repeatable = 'anything' | 'nothing-done' | 'nothing'

/** Statuses of an answer that a second try may not get. */
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504])

/** Whether the refusal may be followed by another try. Too many requests (429) is said before anything is done. */
export function isPassing(status: number, code: string, repeatable: Repeatable): boolean {
  switch (repeatable) {
    case 'anything':
      return passing.has(status) || code === 'request_in_progress'
    case 'nothing-done':
      return status === 429
    case 'nothing':
      return false
    default:
      return repeatable satisfies never
  }
}

/**
 * How long to wait before try number `retry` (1 for the first repetition), in milliseconds: as long as the answer says
 * and up to a second more, or twice as long each time with half of it left to chance, so that many clients that failed
 * together do not come again together. Undefined where that is longer than `maxWaitMs`.
 */
export function waitBefore(
  retry: number,
  retryAfterSeconds: number | undefined,
  maxWaitMs: number,
  random: () => number = Math.random,
): number | undefined {
  if (retryAfterSeconds !== undefined) {
    const asked = retryAfterSeconds * 1000
    return asked > maxWaitMs ? undefined : asked + random() * Math.min(1000, asked)
  }
  const backoff = Math.min(firstWaitMs * 2 ** (retry - 1), longestBackoffMs, maxWaitMs)
  return backoff * (0.5 + random() / 2)
}

/** Waits. Rejects with the reason of the signal when that aborts. */
export async function wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  const abort = (): void => reject(signal?.reason)
  signal?.addEventListener('abort', abort, { once: true })
  try {
    await promise
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
  }
}
