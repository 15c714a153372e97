import type { IncomingMessage } from 'node:http'

export interface ReadAheadBudget {
  /** Returns false if too much is reserved. */
  reserve(request: IncomingMessage): boolean
  release(request: IncomingMessage): void
}

const requestBytes = 6 * 1024
const bodyBytes = 4 * 1024
/** A read returns up to 64 KiB, and Node stops reading once more than 16 KiB wait. */
const mostBodyBytes = 80 * 1024
const bodyShare = 0.75

export function createReadAheadBudget(maxBytes: number): ReadAheadBudget {
  const reserved = new Map<IncomingMessage, number>()
  let total = 0
  return {
    reserve: (request) => {
      if (reserved.has(request)) return true
      const bytes = countHeldBytes(request)
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

export function countHeldBytes(request: IncomingMessage): number {
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
