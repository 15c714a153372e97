import type { Receipt } from '@postern/contracts'
import { type CallOptions, type Connection, fillPath, idempotencyHeader } from './connection.ts'
import { type EvidenceDetails, type EvidenceFile, sha256, mediaTypeOf } from './content.ts'
import { operations } from './operations.ts'
import { PosternProblem } from './problem.ts'
import { wait, retryDelayMs } from './retry.ts'

export interface ResumableOptions extends CallOptions {
  readonly testProcedures?: readonly string[]
  readonly about?: EvidenceDetails
  /** The id of an interrupted upload of the same file, from `onProgress`. */
  readonly resume?: string
  /** Bytes, default 8 MiB. A failure repeats one piece at most. */
  readonly pieceBytes?: number
  /** Called after the creation and after each piece. Keep the id to resume. */
  readonly onProgress?: (progress: { readonly id: string; readonly sent: number; readonly size: number }) => void
}

const defaultPieceBytes = 8 * 1024 * 1024
const version = { 'tus-resumable': '1.0.0' }
/** Consecutive failures without progress. */
const maxFailures = 5
const maxWaitMs = 60_000

/** Uploads a file in pieces (tus 1.0 with creation and checksum), each with its SHA-256. */
export async function uploadResumably(
  connection: Connection,
  file: EvidenceFile,
  options: ResumableOptions,
): Promise<Receipt> {
  const { signal, onProgress, pieceBytes = defaultPieceBytes } = options
  const content = file.content instanceof Blob ? file.content : new Blob([file.content])
  const id = options.resume ?? (await begin(connection, file, content.size, options))
  const target = fillPath(operations.appendUpload[1], { id })
  const state = async (): Promise<State> =>
    readState(await connection.send({ method: 'HEAD', target, headers: version, signal }))
  let at: State = options.resume === undefined ? { offset: 0, receipt: undefined } : await state()
  let isOffsetKnown = true
  for (let failures = 0; at.receipt === undefined;) {
    const before = at.offset
    try {
      if (isOffsetKnown) {
        onProgress?.({ id, sent: at.offset, size: content.size })
        at = await sendPiece(connection, target, content, at.offset, pieceBytes, signal)
        // A proxy may drop headers, and asking again would not help.
        if (at.offset <= before && at.receipt === undefined)
          throw new TypeError('the response reports no progress and no receipt')
      } else {
        at = await state()
        isOffsetKnown = true
      }
    } catch (error) {
      signal?.throwIfAborted()
      if (!isRetryable(error)) throw error
      failures += 1
      if (failures > maxFailures) throw error
      const retryAfterSeconds = error instanceof PosternProblem ? error.retryAfterSeconds : undefined
      const waitMs = retryDelayMs(failures, retryAfterSeconds, maxWaitMs)
      if (waitMs === undefined) throw error
      await wait(waitMs, signal)
      // The next round asks the API how much of the piece has arrived.
      isOffsetKnown = false
    }
    if (at.offset > before) failures = 0
  }
  onProgress?.({ id, sent: content.size, size: content.size })
  return receiptOf(at.receipt)
}

interface State {
  readonly offset: number
  readonly receipt: string | undefined
}

async function begin(
  connection: Connection,
  file: EvidenceFile,
  size: number,
  { testProcedures, about = {}, signal }: ResumableOptions,
): Promise<string> {
  const details = { ...about, ...(testProcedures === undefined ? {} : { test_procedures: testProcedures }) }
  const metadata = {
    filename: file.fileName,
    filetype: file.contentType ?? mediaTypeOf(file.content),
    metadata: JSON.stringify(details),
  }
  const pairs = Object.entries(metadata).map(([name, value]) => `${name} ${toBase64(value)}`)
  const headers = {
    ...version,
    ...idempotencyHeader('POST'),
    'upload-length': String(size),
    'upload-metadata': pairs.join(','),
  }
  const [method, target] = operations.createUpload
  const answer = await connection.send({ method, target, headers, signal })
  const location = connection.targetOf(answer.headers.get('location') ?? '')
  return location.slice(location.lastIndexOf('/') + 1)
}

async function sendPiece(
  connection: Connection,
  target: string,
  content: Blob,
  offset: number,
  pieceBytes: number,
  signal: AbortSignal | undefined,
): Promise<State> {
  const bytes = new Uint8Array(await content.slice(offset, offset + pieceBytes).arrayBuffer())
  const answer = await connection.send({
    method: 'PATCH',
    target,
    headers: {
      ...version,
      'content-type': 'application/offset+octet-stream',
      'upload-offset': String(offset),
      'upload-checksum': `sha256 ${await sha256(bytes)}`,
    },
    body: bytes,
    signal,
    isLong: true,
  })
  return readState(answer)
}

function readState({ headers }: Response): State {
  const offset = Number(headers.get('upload-offset') ?? Number.NaN)
  if (!Number.isSafeInteger(offset)) throw new TypeError('the response has no valid Upload-Offset')
  return { offset, receipt: headers.get('postern-receipt') ?? undefined }
}

/** A broken connection, an unavailable service, or a damaged or repeated piece. */
function isRetryable(error: unknown): boolean {
  if (!(error instanceof PosternProblem)) return error instanceof Error
  return (error.status >= 502 && error.status <= 504) || [408, 409, 429, 460].includes(error.status)
}

/** The payload of the signature is the receipt (RFC 7515 §7.1). */
function receiptOf(jws: string): Receipt {
  const payload = jws.split('.')[1] ?? ''
  const bytes = Uint8Array.from(
    atob(payload.replaceAll('-', '+').replaceAll('_', '/')),
    (byte) => byte.codePointAt(0) ?? 0,
  )
  return { ...JSON.parse(new TextDecoder().decode(bytes)), jws }
}

function toBase64(text: string): string {
  return btoa(String.fromCodePoint(...new TextEncoder().encode(text)))
}
