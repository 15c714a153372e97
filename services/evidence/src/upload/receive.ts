import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { bodyError, discardRest, problem, watchStall } from '@postern/service-kit'
import type { IncomingBlob } from '../blob/blob-store.ts'
import { type Scan, type ScanOutcome, type Scanner, ScannerUnavailableError } from '../scan/scanner.ts'
import { type AllowedTypes, headBytes, judgeBytes } from './file-kind.ts'
import {
  brokenOffProblem,
  emptyFileProblem,
  fileTooLargeProblem,
  kindProblem,
  scannerUnavailableProblem,
  tooSlowProblem,
} from './refusal.ts'
import { type DeclaredUpload, assertDeclared } from './declared.ts'

export interface ReceivedBody {
  readonly sizeBytes: number
  readonly sha256: string
  readonly detected: string | null
  readonly scan: ScanOutcome
}

export interface ReceiveLimits {
  readonly maxBytes: number
  readonly stallMs: number
  readonly isInTime: () => boolean
  readonly scanner: Scanner
  readonly allowedTypes?: AllowedTypes
}

/** Stores, hashes, scans and checks one file. Throws a problem at the first fault; the caller discards the blob. */
export async function receiveBody(
  body: unknown,
  incoming: Pick<IncomingBlob, 'write'>,
  declared: DeclaredUpload,
  { maxBytes, stallMs, isInTime, scanner, allowedTypes }: ReceiveLimits,
): Promise<ReceivedBody> {
  if (!(body instanceof Readable)) throw emptyFileProblem()
  let scan: Scan | undefined
  const sniffer = createSniffer(allowedTypes)
  const hash = createHash('sha256')
  let sizeBytes = 0
  let isStoring = false
  const stall = watchStall(stallMs, {
    isHeld: () => isStoring || body.readableEnded,
    onStall: () => body.destroy(new UploadStalledError()),
  })
  try {
    scan = await scanner.begin()
    for await (const chunk of body.iterator({ destroyOnReturn: false })) {
      if (!Buffer.isBuffer(chunk)) throw new TypeError('a request body must be a stream of bytes')
      if (!isInTime()) throw tooSlowProblem()
      sizeBytes += chunk.length
      if (sizeBytes > maxBytes) throw fileTooLargeProblem()
      hash.update(chunk)
      isStoring = true
      await sniffer.add(chunk)
      await awaitBoth(incoming.write(chunk), scan.write(chunk))
      isStoring = false
      stall.refresh()
    }
    const detected = await sniffer.finish()
    const received = { sizeBytes, sha256: hash.digest('hex'), detected }
    assertDeclared(declared, received)
    assertNoPlaceholder(received)
    stall.stop()
    return { ...received, scan: await scan.finish() }
  } catch (error) {
    void discardRest(body)
    if (error instanceof ScannerUnavailableError) throw scannerUnavailableProblem(error)
    if (error instanceof UploadStalledError)
      throw problem('request_timeout', { detail: 'The upload stalled. Send the file again.' })
    if (isAbort(error)) throw brokenOffProblem()
    throw error
  } finally {
    stall.stop()
    scan?.abandon()
  }
}

/** What some clients send instead of a file. */
const placeholders = ['{}', 'null', 'undefined', '[object Object]', '[object File]', '[object Blob]'] as const

function assertNoPlaceholder({ sizeBytes, sha256 }: Pick<ReceivedBody, 'sizeBytes' | 'sha256'>): void {
  const text = placeholders.find((each) => each.length === sizeBytes && sha256 === sha256Of(each))
  if (text === undefined) return
  const detail = `The client sent \`${text}\` instead of the file. Send the bytes of the file.`
  throw problem('invalid_content', { detail, errors: [bodyError(`is \`${text}\` instead of the file`)] })
}

function sha256Of(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** Waits for both even if one fails, so that nothing is written after the blob is discarded. */
async function awaitBoth(...tasks: readonly [Promise<void>, Promise<void>]): Promise<void> {
  const outcomes = await Promise.allSettled(tasks)
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
}

export class UploadStalledError extends Error {}

function createSniffer(allowed: AllowedTypes): {
  add(chunk: Buffer): Promise<void>
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
    if (!kind.accepted) throw kindProblem(kind.reason)
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

function isAbort(error: unknown): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    (error.code === 'ECONNRESET' || error.code === 'ERR_STREAM_PREMATURE_CLOSE')
  )
}
