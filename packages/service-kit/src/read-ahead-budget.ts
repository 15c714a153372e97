import type { IncomingMessage } from 'node:http'

/** Bounds what waiting requests hold in memory, over all connections of a process. */
export interface ReadAheadBudget {
  /**
   * Reserves what a request holds while it waits. Returns false if too much is reserved. A second call for the same request
   * reserves nothing more.
   */
  reserve(request: IncomingMessage): boolean
  /** Releases what was reserved for a request, if anything was. */
  release(request: IncomingMessage): void
}

/** Objects of a request without its headers. */
const requestBytes = 6 * 1024
/** Objects of a body that waits. */
const bodyBytes = 4 * 1024
/** A read returns up to 64 KiB, and Node stops reading once more than 16 KiB of a body wait. */
const mostBodyBytes = 80 * 1024
/** The part of a budget that requests with a body may have. Few of them fill it, and requests without a body must still get in. */
const bodyShare = 0.75

/** Returns a budget of which nothing is reserved. */
export function createReadAheadBudget(maxBytes: number): ReadAheadBudget {
  const reserved = new Map<IncomingMessage, number>()
  let total = 0
  return {
    reserve: (request) => {
      if (reserved.has(request)) return true
      const bytes = heldBytes(request)
      if (total + bytes > (hasBody(request) ? maxBytes * bodyShare : maxBytes)) return false
      total += bytes
      reserved.set(request, bytes)
      return true
    },
    release: (request) => {
      // HOT PATH: most requests never wait.
      if (reserved.size === 0) return
      total -= reserved.get(request) ?? 0
      reserved.delete(request)
    },
  }
}

/** Returns how many bytes a request holds at most while nobody reads its body. */
export function heldBytes(request: IncomingMessage): number {
  let bytes = requestBytes
  for (const text of request.rawHeaders) bytes += text.length
  if (!hasBody(request)) return bytes
  const { 'transfer-encoding': coding, 'content-length': length } = request.headers
  return bytes + bodyBytes + (coding === undefined ? Math.min(Number(length), mostBodyBytes) : mostBodyBytes)
}

function hasBody({ headers }: IncomingMessage): boolean {
  const { 'transfer-encoding': coding, 'content-length': length } = headers
  return coding !== undefined || (length !== undefined && length !== '0')
}
