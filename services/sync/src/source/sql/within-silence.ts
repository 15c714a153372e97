import { handled } from '@postern/service-kit'
import { SourceFailure } from '../failure.ts'

/** Waits for a part of a view no longer than `maxMs`, and then ends the connection: what stands still at the server or on the way says nothing. */
export async function withinSilence<T>(waited: Promise<T>, maxMs: number, end: () => void): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    end()
    const message = 'the database took too long over a part of the view'
    reject(new SourceFailure('source_too_slow', message, { retryable: true }))
  }, maxMs)
  try {
    return await Promise.race([handled(waited), promise])
  } finally {
    clearTimeout(timer)
  }
}
