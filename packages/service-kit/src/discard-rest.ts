import { Readable } from 'node:stream'

const mebibyte = 1024 * 1024

/** Closing with unread bytes could reset the connection before the answer arrives. */
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
  body.on('error', () => undefined)
  body.once('end', resolve)
  body.once('close', () => {
    clearTimeout(limit)
    resolve()
  })
  body.resume()
  await promise
}

/** The connection stays open if the reader stops early. */
export function detachBody(body: Readable): Readable {
  return Readable.from(partsOf(body), { objectMode: false })
}

async function* partsOf(body: Readable): AsyncGenerator {
  for await (const part of body.iterator({ destroyOnReturn: false })) yield part
}
