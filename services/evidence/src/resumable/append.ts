import { createHash } from 'node:crypto'
import { PassThrough, Readable } from 'node:stream'
import { problem, watchStall } from '@postern/service-kit'
import type { PartialWriter } from '../blob/partial-store.ts'
import type { Checksum } from './rules.ts'

/** Writes one piece. An incomplete piece is kept unless it has a checksum. The connection stays open for the answer. */
export async function append(
  body: unknown,
  writer: PartialWriter,
  {
    atMost,
    checksum,
    stallMs,
    signal,
  }: {
    readonly atMost: number
    readonly checksum: Checksum | undefined
    readonly stallMs: number
    readonly signal: AbortSignal
  },
): Promise<void> {
  if (!(body instanceof Readable)) return
  const hash = checksum === undefined ? undefined : createHash(checksum.algorithm)
  let length = 0
  let isWriting = false
  // Destroying the body would close the connection, which looks like a failure of the service.
  const content = body.pipe(new PassThrough())
  const gone = new AbortController()
  const end = (error: Error): void => {
    gone.abort(error)
    content.destroy(error)
  }
  const stall = watchStall(stallMs, {
    isHeld: () => isWriting,
    onStall: () => end(problem('request_timeout', { detail: 'The upload stalled. Send HEAD to continue it.' })),
  })
  const onAbort = () => end(overtakenProblem())
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort)
  body.once('error', end)
  body.once('close', () => {
    if (!body.readableEnded) end(body.errored ?? new Error('the upload broke off'))
  })
  let isWhole = false
  try {
    for await (const chunk of content) {
      if (!Buffer.isBuffer(chunk)) throw new TypeError('a request body must be a stream of bytes')
      stall.refresh()
      length += chunk.length
      if (length > atMost) throw pieceTooLargeProblem()
      hash?.update(chunk)
      isWriting = true
      await writer.write(chunk, gone.signal)
      isWriting = false
      stall.refresh()
    }
    if (hash !== undefined && hash.digest('base64') !== checksum?.digest) {
      throw problem('checksum_mismatch', {
        detail: 'The piece does not match its checksum and was not stored. Send it again.',
      })
    }
    isWhole = true
  } finally {
    stall.stop()
    signal.removeEventListener('abort', onAbort)
    // Without a checksum another replica may have counted bytes already.
    if (!isWhole && checksum !== undefined) await writer.rollBack()
  }
}

function overtakenProblem(): Error {
  return problem('conflict', { detail: 'Another request is continuing the upload. Read its offset with HEAD.' })
}

export function pieceTooLargeProblem(): Error {
  return problem('content_too_large', { detail: 'The piece goes beyond the end of the upload.' })
}
