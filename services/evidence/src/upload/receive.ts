import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { countPassedBytes, problem } from '@postern/service-kit'
import { type IncomingBlob, isNoRoom } from '../blob/blob-store.ts'
import { type Scan, type ScanOutcome, type Scanner, ScannerAway } from '../scan/scanner.ts'
import { type AllowedTypes, headBytes, judgeBytes } from './file-kind.ts'
import { noRoom, refused, scannerAway } from './refusal.ts'
import { type DeclaredUpload, judgeBody } from './rules.ts'

export interface ReceivedBody {
  readonly sizeBytes: number
  /** Lower-case hex. */
  readonly sha256: string
  readonly detected: string | null
  readonly scan: ScanOutcome
}

export interface ReceiveLimits {
  readonly maxBytes: number
  /** A body that brings no byte for this long is cut off. */
  readonly stallMs: number
  /** Whether what arrives now could still be recorded. */
  readonly isInTime: () => boolean
  readonly scanner: Scanner
  readonly allowedTypes?: AllowedTypes
}

/**
 * Reads a body into an incoming blob, chunk by chunk: a chunk is hashed while those before it are written, so what is in
 * memory is what the blob lets wait and the first bytes, whatever the size. Throws a problem as soon as the upload can no
 * longer be taken; the caller then discards the blob.
 */
export async function receiveBody(
  body: unknown,
  incoming: IncomingBlob,
  declared: DeclaredUpload,
  { maxBytes, stallMs, isInTime, scanner, allowedTypes }: ReceiveLimits,
): Promise<ReceivedBody> {
  if (!(body instanceof Readable)) throw refused({ why: 'empty' })
  const hash = createHash('sha256')
  let scan: Scan | undefined
  const sniffer = createSniffer(allowedTypes)
  let sizeBytes = 0
  let storing: Promise<unknown> = Promise.resolve()
  const stall = setTimeout(() => body.destroy(new UploadStalled()), stallMs)
  try {
    scan = await scanner.begin()
    // The iterator leaves the stream open when the loop ends early: destroying it would cut the answer off too.
    for await (const chunk of body.iterator({ destroyOnReturn: false })) {
      if (!Buffer.isBuffer(chunk)) throw new TypeError('a request body must be a stream of bytes')
      stall.refresh()
      if (!isInTime()) throw refused({ why: 'too_long' })
      sizeBytes += chunk.length
      if (sizeBytes > maxBytes) throw refused({ why: 'too_large' })
      await sniffer.add(chunk)
      hash.update(chunk)
      countPassedBytes(chunk.length)
      await storing
      storing = Promise.all([incoming.write(chunk), scan.write(chunk)])
      // Told by the await of the next turn, or behind the loop.
      storing.catch(() => undefined)
    }
    await storing
    const received = { sizeBytes, sha256: hash.digest('hex'), detected: await sniffer.finish() }
    const refusal = judgeBody(declared, received)
    if (refusal !== undefined) throw refused(refusal)
    clearTimeout(stall)
    return { ...received, scan: await scan.finish() }
  } catch (error) {
    discardRest(body)
    // Nothing may still be written when the caller discards the blob.
    await storing.catch(() => undefined)
    if (isNoRoom(error)) throw noRoom(error)
    if (error instanceof ScannerAway) throw scannerAway(error)
    if (error instanceof UploadStalled) throw problem('request_timeout', { detail: 'The upload stood still.' })
    if (isAbort(error)) throw problem('bad_request', { detail: 'The upload broke off.' })
    throw error
  } finally {
    clearTimeout(stall)
    scan?.abandon()
  }
}

/** A body that stands still. */
export class UploadStalled extends Error {}

/** Judges the first bytes once they are there, so that a program is refused before the rest of it arrives. */
function createSniffer(allowed: AllowedTypes): { add(chunk: Buffer): Promise<void>; finish(): Promise<string | null> } {
  const parts: Buffer[] = []
  let length = 0
  let judged = false
  let detected: string | null = null
  const judge = async () => {
    judged = true
    const kind = await judgeBytes(Buffer.concat(parts), allowed)
    parts.length = 0
    if (!kind.accepted) throw refused({ why: 'kind', reason: kind.reason })
    detected = kind.detected
  }
  return {
    add: async (chunk) => {
      if (judged) return
      parts.push(chunk.subarray(0, headBytes - length))
      length += Math.min(chunk.length, headBytes - length)
      if (length >= headBytes) await judge()
    },
    finish: async () => {
      if (!judged && length > 0) await judge()
      return detected
    },
  }
}

const discardLimitBytes = 16 * 1024 * 1024
const discardLimitMs = 5_000

/**
 * Reads on, without keeping anything, after a refusal: a connection closed with bytes unread is reset, and the reset may
 * overtake the answer. A sender that does not stop is cut off.
 */
export function discardRest(body: unknown): void {
  if (!(body instanceof Readable) || body.destroyed || body.readableEnded) return
  let left = discardLimitBytes
  const limit = setTimeout(() => body.destroy(), discardLimitMs)
  limit.unref()
  body.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) body.destroy()
  })
  body.on('error', () => {
    // The refusal is what is reported; what becomes of the rest of the body no longer matters.
  })
  body.once('close', () => clearTimeout(limit))
  body.resume()
}

function isAbort(error: unknown): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    (error.code === 'ECONNRESET' || error.code === 'ERR_STREAM_PREMATURE_CLOSE')
  )
}
