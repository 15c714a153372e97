import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { problem, watchStall } from '@postern/service-kit'
import type { PartialWriter } from '../blob/partial-store.ts'
import type { Checksum } from './rules.ts'

/** Writes one piece. An incomplete piece is kept unless it has a checksum. */
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
  const stall = watchStall(stallMs, {
    isHeld: () => isWriting,
    onStall: () => body.destroy(new Error('the upload stalled')),
  })
  const onAbort = () => body.destroy(new Error('another request continues the upload'))
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort)
  const gone = new AbortController()
  body.once('close', () => {
    if (!body.readableEnded) gone.abort(body.errored ?? new Error('the upload broke off'))
  })
  let isWhole = false
  try {
    for await (const chunk of body.iterator({ destroyOnReturn: false })) {
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

export function pieceTooLargeProblem(): Error {
  return problem('content_too_large', { detail: 'The piece goes beyond the end of the upload.' })
}
