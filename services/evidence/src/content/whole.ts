import { createHash } from 'node:crypto'

/** The store does not hold what was received: nothing else of a file may go out under its receipt. */
export class DamagedContentError extends Error {
  constructor(options?: ErrorOptions) {
    super('the store does not hold the bytes that were received', options)
  }
}

/**
 * The bytes as they come, of which the last chunk is held back until all of them have the digest. So what a store has
 * changed ends before its announced length, and nobody takes it for the file.
 */
export async function* wholeContent(bytes: AsyncIterable<unknown>, sha256: string): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let last: Uint8Array | undefined
  for await (const chunk of bytes) {
    if (!(chunk instanceof Uint8Array)) throw new TypeError('bytes must be read as bytes')
    hash.update(chunk)
    if (last !== undefined) yield last
    last = chunk
  }
  if (hash.digest('hex') !== sha256) throw new DamagedContentError()
  if (last !== undefined) yield last
}
