import type { Socket } from 'node:net'
import { SourceFailure } from './failure.ts'
import type { SourceLimits } from './types.ts'

/** Looks at what a connection brings before a library has made anything of it: one message may be as large as its sender likes. */
export interface ByteWatch {
  /** Notes that a page has come whole; answers its bytes. Throws a SourceFailure where it, or all of them, are too large. */
  page(): number
  /** Why the connection was cut, if it was. */
  failure(): SourceFailure | undefined
  end(): void
}

/** How often it is looked while a page comes, in milliseconds. */
const lookEveryMs = 50

/** Watches the connection, once there is one, and cuts it where it brings too much. */
export function watchBytes(
  connection: () => Socket | undefined,
  { maxBytes, maxPageBytes }: Pick<SourceLimits, 'maxBytes' | 'maxPageBytes'>,
): ByteWatch {
  let before = 0
  let failure: SourceFailure | undefined
  const look = (): number => {
    const read = connection()?.bytesRead ?? before
    if (failure === undefined && read > maxBytes) {
      failure = new SourceFailure('source_too_large', `the source has more than ${maxBytes} bytes: export less`)
    } else if (failure === undefined && read - before > maxPageBytes) {
      const message = `the source answers more than ${maxPageBytes} bytes at a time: ask for less of each row, or for smaller pages`
      failure = new SourceFailure('page_too_large', message)
    }
    if (failure !== undefined) connection()?.destroy()
    return read
  }
  const looking = setInterval(look, lookEveryMs)
  looking.unref()
  return {
    page: () => {
      const read = look()
      if (failure !== undefined) throw failure
      const bytes = read - before
      before = read
      return bytes
    },
    failure: () => failure,
    end: () => clearInterval(looking),
  }
}
