export interface RetryOptions {
  /** The number of retries, default 3. */
  readonly retries?: number
  /** Milliseconds, default 60,000. If Retry-After exceeds it, the error is thrown at once. */
  readonly maxWaitMs?: number
}

const firstWaitMs = 250
const longestBackoffMs = 10_000

/** Any failure, only those before processing, or none. */
export type Repeatable = 'anything' | 'not-processed' | 'nothing'

const retryableStatuses: ReadonlySet<number> = new Set([429, 502, 503, 504])

/** The API sends 429 before it processes a request. */
export function isRetryable(status: number, code: string, repeatable: Repeatable): boolean {
  switch (repeatable) {
    case 'anything':
      return retryableStatuses.has(status) || code === 'request_in_progress'
    case 'not-processed':
      return status === 429
    case 'nothing':
      return false
    default:
      return repeatable satisfies never
  }
}

/**
 * Milliseconds before retry `retry` (from 1), or undefined if Retry-After exceeds `maxWaitMs`. The wait doubles each
 * time, half of it random.
 */
export function retryDelayMs(
  retry: number,
  retryAfterSeconds: number | undefined,
  maxWaitMs: number,
  random: () => number = Math.random,
): number | undefined {
  if (retryAfterSeconds !== undefined) {
    const requestedMs = retryAfterSeconds * 1000
    return requestedMs > maxWaitMs ? undefined : requestedMs + random() * Math.min(1000, requestedMs)
  }
  const backoff = Math.min(firstWaitMs * 2 ** (retry - 1), longestBackoffMs, maxWaitMs)
  return backoff * (0.5 + random() / 2)
}

/** Rejects with the reason of the signal. */
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
