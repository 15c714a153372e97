import { createHash } from 'node:crypto'

export class DamagedContentError extends Error {
  constructor(options?: ErrorOptions) {
    super('the store does not have the bytes that were received', options)
  }
}

/** Yields the last chunk only if the digest matches, so that no client accepts a damaged file as complete. */
export async function* verifiedContent(bytes: AsyncIterable<unknown>, sha256: string): AsyncGenerator<Uint8Array> {
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
