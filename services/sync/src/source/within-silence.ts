import { handled } from '@postern/service-kit'
import { SourceFailure } from './failure.ts'

/** What ends a wait for the other end of a connection. */
export interface Patience {
  /** How long it may say nothing. */
  readonly maxMs: number
  readonly signal: AbortSignal
  /** Cuts the connection. */
  readonly end: () => void
  /** What is told of one that took longer. */
  readonly tooSlow: string
}

/** How long it is waited for a connection to end in good order once all is read. */
export const partingMs = 1000

/**
 * Waits for an answer until it is there, or something else ends the wait, and then the connection: what stands still at the server or on
 * the way says nothing, and a library may leave its callers waiting when its connection is cut.
 */
export async function withinSilence<T>(answer: Promise<T>, { maxMs, signal, end, tooSlow }: Patience): Promise<T> {
  const { promise: ended, reject } = Promise.withResolvers<never>()
  const giveUp = (reason: unknown): void => {
    end()
    reject(reason)
  }
  const onAbort = (): void => giveUp(signal.reason)
  const timer = setTimeout(() => giveUp(new SourceFailure('source_too_slow', tooSlow, { retryable: true })), maxMs)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    const answered = handled(answer)
    if (signal.aborted) onAbort()
    return await Promise.race([answered, ended])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}
