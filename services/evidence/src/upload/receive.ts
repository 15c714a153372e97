import { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { countPassedBytes, discardRest, problem, watchStall } from '@postern/service-kit'
import { type IncomingBlob, isNoRoom } from '../blob/blob-store.ts'
import { NoBlockFree } from '../digest/blocks.ts'
import { type Digester, DigesterGone } from '../digest/digester.ts'
import { type Scan, type ScanOutcome, type Scanner, ScannerAway, noScanner } from '../scan/scanner.ts'
import { type AllowedTypes, headBytes, judgeBytes } from './file-kind.ts'
import { pourInto } from './pour.ts'
import { readBatches } from './read-batches.ts'
import { brokenOff, digesterGone, noRoom, refused, scannerAway, storeTooSlow } from './refusal.ts'
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
  readonly digester: Digester
  readonly allowedTypes?: AllowedTypes
  /** Whether the chunks are nobody else's, as those of a request always are. Default: no. */
  readonly isSole?: boolean
}

/**
 * Reads a body into an incoming blob: blocks are hashed and written while the next bytes arrive, so what is in memory is
 * some batches, two blocks and the first bytes, whatever the size. Throws a problem as soon as the upload can no longer be
 * taken; the caller then discards the blob.
 */
export async function receiveBody(
  body: unknown,
  incoming: IncomingBlob,
  declared: DeclaredUpload,
  { maxBytes, stallMs, isInTime, scanner, digester, allowedTypes, isSole = false }: ReceiveLimits,
): Promise<ReceivedBody> {
  if (!(body instanceof Readable)) throw refused({ why: 'empty' })
  let scan: Scan | undefined
  const sniffer = createSniffer(allowedTypes)
  let sizeBytes = 0
  // A part of a form shares its chunks with the parser, and a scanner may still be sending what it has taken.
  const isFree = (isSole || body instanceof IncomingMessage) && scanner === noScanner
  const pour = pourInto(incoming, { digester, isFree, waitMs: stallMs })
  const stall = watchStall(stallMs, {
    isHeld: () => body.isPaused() || body.readableEnded,
    onStall: () => body.destroy(new UploadStalled()),
  })
  try {
    scan = await scanner.begin()
    const { write } = scan
    await readBatches(body, {
      firstBytes: headBytes,
      onChunk: (chunk) => {
        stall.refresh()
        if (!isInTime()) throw refused({ why: 'too_long' })
        sizeBytes += chunk.length
        if (sizeBytes > maxBytes) throw refused({ why: 'too_large' })
        if (!isFree) countPassedBytes(chunk.length)
      },
      onBatch: async (batch) => {
        await sniffer.add(batch)
        await both(pour.take(batch), writeAll(write, batch))
      },
    })
    const detected = await sniffer.finish()
    const received = { sizeBytes, sha256: await pour.end(), detected }
    const refusal = judgeBody(declared, received)
    if (refusal !== undefined) throw refused(refusal)
    stall.stop()
    return { ...received, scan: await scan.finish() }
  } catch (error) {
    void discardRest(body)
    await pour.abandon()
    if (isNoRoom(error)) throw noRoom(error)
    if (error instanceof ScannerAway) throw scannerAway(error)
    if (error instanceof DigesterGone) throw digesterGone(error)
    if (error instanceof NoBlockFree) throw storeTooSlow(error)
    if (error instanceof UploadStalled) throw problem('request_timeout', { detail: 'The upload stood still.' })
    if (isAbort(error)) throw brokenOff()
    throw error
  } finally {
    stall.stop()
    scan?.abandon()
  }
}

/** Waits for both, also where one of them fails: nothing may still be written when the caller discards the blob. */
async function both(...tasks: readonly [Promise<void>, Promise<void>]): Promise<void> {
  const outcomes = await Promise.allSettled(tasks)
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
}

async function writeAll(write: Scan['write'], batch: readonly Buffer[]): Promise<void> {
  for (const chunk of batch) await write(chunk)
}

/** A body that stands still. */
export class UploadStalled extends Error {}

/** Judges the first bytes once they are there, so that a program is refused before the rest of it arrives. */
function createSniffer(allowed: AllowedTypes): {
  add(batch: readonly Buffer[]): Promise<void>
  finish(): Promise<string | null>
} {
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
    add: async (batch) => {
      if (judged) return
      for (const chunk of batch) {
        parts.push(chunk.subarray(0, headBytes - length))
        length += Math.min(chunk.length, headBytes - length)
      }
      if (length >= headBytes) await judge()
    },
    finish: async () => {
      if (!judged && length > 0) await judge()
      return detected
    },
  }
}

function isAbort(error: unknown): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    (error.code === 'ECONNRESET' || error.code === 'ERR_STREAM_PREMATURE_CLOSE')
  )
}
