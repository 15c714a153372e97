import { Readable } from 'node:stream'

const mebibyte = 1024 * 1024

/**
 * Reads the rest of a body without keeping it, after an answer was decided on: a connection closed with bytes unread is reset, and the reset
 * may overtake the answer. A sender that goes on for longer is cut off. Settles when nothing more is read.
 */
export async function discardRest(
  body: unknown,
  { maxBytes = 16 * mebibyte, maxMs = 5000 }: { readonly maxBytes?: number; readonly maxMs?: number } = {},
): Promise<void> {
  if (!(body instanceof Readable) || body.destroyed || body.readableEnded) return
  const { promise, resolve } = Promise.withResolvers<void>()
  let left = maxBytes
  const limit = setTimeout(() => body.destroy(), maxMs)
  limit.unref()
  body.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) body.destroy()
  })
  // What becomes of the rest no longer matters.
  body.on('error', () => undefined)
  body.once('end', resolve)
  body.once('close', () => {
    clearTimeout(limit)
    resolve()
  })
  body.resume()
  await promise
}

/** The bytes of a body for a reader that may leave early: the connection stays open for the answer. The rest is left to `discardRest`. */
export function detachBody(body: Readable): Readable {
  return Readable.from(partsOf(body), { objectMode: false })
}

// An error thrown into the iterator itself would destroy the body all the same.
async function* partsOf(body: Readable): AsyncGenerator {
  for await (const part of body.iterator({ destroyOnReturn: false })) yield part
}
