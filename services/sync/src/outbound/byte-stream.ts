import type { Readable } from 'node:stream'
import { SourceReadError } from '../source/source-read-error.ts'

export interface ByteBudget {
  /** Throws a SourceReadError if fewer bytes are left. */
  take(bytes: number): void
}

export function createByteBudget(maxBytes: number): ByteBudget {
  let taken = 0
  return {
    take: (bytes) => {
      taken += bytes
      if (taken <= maxBytes) return
      throw new SourceReadError('source_too_large', `the source has more than ${maxBytes} bytes: export less`)
    },
  }
}

/** Always destroys the stream. Throws a SourceReadError beyond the budget or after `maxSilenceMs` without data. */
export async function* readBytes(
  stream: Readable,
  {
    budget,
    maxSilenceMs,
    signal,
  }: { readonly budget: ByteBudget; readonly maxSilenceMs: number; readonly signal: AbortSignal },
): AsyncGenerator<Uint8Array> {
  const stop = (): void => void stream.destroy(asError(signal.reason))
  signal.addEventListener('abort', stop, { once: true })
  const chunks = stream[Symbol.asyncIterator]()
  try {
    signal.throwIfAborted()
    while (true) {
      const silence = setTimeout(() => stream.destroy(tooSlowError(maxSilenceMs)), maxSilenceMs)
      let next: IteratorResult<unknown>
      try {
        next = await chunks.next()
      } finally {
        clearTimeout(silence)
      }
      if (next.done === true) return
      const bytes = next.value
      if (!(bytes instanceof Uint8Array)) throw new TypeError('the source sent something else than bytes')
      budget.take(bytes.length)
      yield bytes
    }
  } finally {
    signal.removeEventListener('abort', stop)
    stream.on('error', () => undefined).destroy()
  }
}

function tooSlowError(maxSilenceMs: number): SourceReadError {
  const message = `the source sent nothing for ${Math.round(maxSilenceMs / 1000)} s`
  return new SourceReadError('source_too_slow', message, { retryable: true })
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error('the read was ended', { cause: reason })
}
