import type { Socket } from 'node:net'
import { SourceReadError } from './source-read-error.ts'
import type { SourceLimits } from './types.ts'

/** Counts bytes before a library buffers them, because the sender decides how long a message is. */
export interface ByteWatch {
  /** Ends a page. Throws a SourceReadError if the page or the whole source is too large. */
  page(): number
  failure(): SourceReadError | undefined
  end(): void
}

const pollEveryMs = 50

/** Cuts the connection if it sends too much. */
export function watchBytes(
  connection: () => Socket | undefined,
  { maxBytes, maxPageBytes }: Pick<SourceLimits, 'maxBytes' | 'maxPageBytes'>,
): ByteWatch {
  let before = 0
  let failure: SourceReadError | undefined
  const checkBytes = (): number => {
    const read = connection()?.bytesRead ?? before
    if (failure === undefined && read > maxBytes) {
      failure = new SourceReadError('source_too_large', `the source has more than ${maxBytes} bytes: export less`)
    } else if (failure === undefined && read - before > maxPageBytes) {
      const message = `the source sent more than ${maxPageBytes} bytes at once: request fewer columns or smaller pages`
      failure = new SourceReadError('page_too_large', message)
    }
    if (failure !== undefined) connection()?.destroy()
    return read
  }
  const timer = setInterval(checkBytes, pollEveryMs)
  timer.unref()
  return {
    page: () => {
      const read = checkBytes()
      if (failure !== undefined) throw failure
      const bytes = read - before
      before = read
      return bytes
    },
    failure: () => failure,
    end: () => clearInterval(timer),
  }
}
