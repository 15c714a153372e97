import { Readable } from 'node:stream'

const mebibyte = 1024 * 1024

/**
 * Reads and discards the rest of a body after an early answer. Closing a connection with unread bytes would reset it, possibly
 * before the answer arrives. Cuts off clients that send for too long.
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

/** Iterates over a body and keeps the connection open if the reader stops early. `discardRest` reads the rest. */
export function detachBody(body: Readable): Readable {
  return Readable.from(partsOf(body), { objectMode: false })
}

// An error thrown into the iterator would destroy the body.
async function* partsOf(body: Readable): AsyncGenerator {
  for await (const part of body.iterator({ destroyOnReturn: false })) yield part
}
