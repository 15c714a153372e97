import { suppressUnhandledRejection } from '@postern/service-kit'
import { SourceReadError } from './source-read-error.ts'

export interface SilenceLimit {
  readonly maxMs: number
  readonly signal: AbortSignal
  /** Cuts the connection. */
  readonly end: () => void
  readonly tooSlow: string
}

export const closeTimeoutMs = 1000

/**
 * On silence or cancellation it cuts the connection and rejects, because a library may leave its callers
 * waiting.
 */
export async function withSilenceLimit<T>(
  answer: Promise<T>,
  { maxMs, signal, end, tooSlow }: SilenceLimit,
): Promise<T> {
  const { promise: ended, reject } = Promise.withResolvers<never>()
  const abort = (reason: unknown): void => {
    end()
    reject(reason)
  }
  const onAbort = (): void => abort(signal.reason)
  const timer = setTimeout(() => abort(new SourceReadError('source_too_slow', tooSlow, { retryable: true })), maxMs)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    const answered = suppressUnhandledRejection(answer)
    if (signal.aborted) onAbort()
    return await Promise.race([answered, ended])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}
