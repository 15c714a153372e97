import { createHash } from 'node:crypto'
import { freeChunk } from '@postern/service-kit'
import type { IncomingBlob } from '../blob/blob-store.ts'
import { blockBytes } from '../digest/blocks.ts'
import type { Digest, Digester } from '../digest/digester.ts'

/** Brings bytes to where they are kept and to their digest at once, a block at a time. */
export interface Pour {
  /** Takes the next bytes; resolves when there is room for more. Rejects when those before could not be kept. */
  take(batch: readonly Buffer[]): Promise<void>
  /** Keeps what is left as well, waits until all is kept, and gives the SHA-256 of it, lower-case hex. */
  end(): Promise<string>
  /** Waits for what is under way, and lets go. Harmless when repeated and after `end`. */
  abandon(): Promise<void>
}

/** Blocks of one upload that are written and hashed while the next is filled. */
const mostUnderWay = 2
/** Pieces may be tiny, and each is more in memory than its bytes. */
const mostPieces = 64

/**
 * What is less than a block waits where it arrived: who sends slowly holds no block, and neither does who waits for a store
 * that says when it is ready. A body that is no larger than a block never sees the thread of digests. `isFree` says that the
 * chunks are nobody else's, so that their memory goes back as soon as they are copied. Who finds no block free for `waitMs`
 * is told so (NoBlockFree).
 */
export function pourInto(
  { write, ready }: Pick<IncomingBlob, 'write' | 'ready'>,
  {
    digester: { blocks, begin },
    isFree,
    waitMs,
  }: { readonly digester: Pick<Digester, 'blocks' | 'begin'>; readonly isFree: boolean; readonly waitMs: number },
): Pour {
  let rest: Buffer[] = []
  let restBytes = 0
  /** How much of the first piece is in a block already. */
  let skipped = 0
  let digest: Digest | undefined
  const underWay = new Set<Promise<void>>()
  let written: Promise<void> = Promise.resolve()
  let failure: { readonly error: unknown } | undefined

  const assertWell = (): void => {
    if (failure !== undefined) throw failure.error
  }

  /** Moves bytes that wait into a block. */
  const fill = (block: Buffer, length: number): void => {
    let at = 0
    let whole = 0
    while (at < length) {
      const piece = rest[whole]
      if (piece === undefined) throw new Error('there are fewer bytes than were counted')
      const part = piece.subarray(skipped, skipped + length - at)
      // Not `copy`: into memory that threads share V8 copies word by word, at a third of the speed.
      block.fill(part, at, at + part.length)
      at += part.length
      skipped += part.length
      if (skipped < piece.length) break
      skipped = 0
      whole += 1
      if (isFree) freeChunk(piece)
    }
    rest.splice(0, whole)
    restBytes -= length
  }

  const send = async (length: number): Promise<void> => {
    while (underWay.size >= mostUnderWay) await Promise.race(underWay)
    assertWell()
    digest ??= begin()
    if (ready !== undefined) {
      await written
      await ready()
    }
    const block = await blocks.take(waitMs)
    fill(block.bytes, length)
    const added = digest.add(block, length)
    written = written.then(async () => await write(block.bytes.subarray(0, length)))
    const done = Promise.allSettled([written, added]).then((outcomes) => {
      block.release()
      for (const outcome of outcomes) if (outcome.status === 'rejected') failure ??= { error: outcome.reason }
      underWay.delete(done)
    })
    underWay.add(done)
  }

  /** The whole of a small body. */
  const keepHere = async (): Promise<string> => {
    const pieces = rest
    rest = []
    restBytes = 0
    const hash = createHash('sha256')
    for (const piece of pieces) hash.update(piece)
    if (pieces.length > 0) await write(...pieces)
    if (isFree) for (const piece of pieces) freeChunk(piece)
    return hash.digest('hex')
  }

  return {
    take: async (batch) => {
      assertWell()
      for (const chunk of batch) {
        if (chunk.length === 0) continue
        rest.push(chunk)
        restBytes += chunk.length
      }
      while (restBytes >= blockBytes) await send(blockBytes)
      if (rest.length <= mostPieces) return
      rest = [Buffer.concat(rest).subarray(skipped)]
      skipped = 0
    },
    end: async () => {
      assertWell()
      if (digest === undefined) return await keepHere()
      if (restBytes > 0) await send(restBytes)
      await Promise.all(underWay)
      assertWell()
      return await digest.finish()
    },
    abandon: async () => {
      await Promise.all(underWay)
      digest?.forget()
    },
  }
}
