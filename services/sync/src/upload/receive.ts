import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { countPassedBytes, digestMismatch, discardRest, handled, problem, watchStall } from '@postern/service-kit'
import { chunksAtOnce, deleteUpload, putChunks } from './store.ts'
import type { TenantDb } from '../worker/store.ts'

/** A file that was taken in for a run to read. */
export interface ReceivedUpload {
  readonly id: string
  readonly bytes: number
  readonly sha256: string
}

/**
 * What a row of the database holds. Text of more than 128 KiB V8 keeps by itself, in memory that it takes from the system for it and gives back; so do
 * the allocators of C, in PostgreSQL as in Node. A file in parts of 1 MiB took twice as long to be stored, and twice as long to be read.
 * Half of it, since V8 has two bytes for each character of a text that is not of Latin letters alone.
 */
const chunkBytes = 60 * 1024
/** How long a client may pause, in milliseconds. */
const stallMs = 30_000

/**
 * Puts a file into the database, chunk by chunk as it arrives: any worker can read it then, on whatever machine. Of one that breaks off,
 * is too large, or has another SHA-256 than the one that was `announced`, nothing stays; where that fails it goes with what is old.
 */
export async function receiveUpload(
  db: Pick<TenantDb, 'write'>,
  context: { readonly assertion: string },
  body: Readable,
  announced?: string,
): Promise<ReceivedUpload> {
  const id = crypto.randomUUID()
  const hash = createHash('sha256')
  let [bytes, index] = [0, 0]
  let sha256: string
  let part: Buffer | undefined
  let held = 0
  let chunks: Buffer[] = []
  let isStoring = false
  const stall = watchStall(stallMs, {
    isHeld: () => isStoring,
    onStall: () => body.destroy(problem('request_timeout')),
  })
  // Of some chunks two lots are stored while the next one arrives: PostgreSQL writes the one while the other is sent to it.
  let [before, storing] = [Promise.resolve(), Promise.resolve()]
  const flush = async (): Promise<void> => {
    const contents = chunks
    const at = index
    chunks = []
    index += contents.length
    isStoring = true
    await before
    isStoring = false
    stall.refresh()
    before = storing
    storing = handled(db.write(context, async (tx) => await putChunks(tx, id, at, contents)))
    // As it is here, and as it is written down to be sent.
    countPassedBytes(contents.reduce((sum, { length }) => sum + length * 2, 0))
  }
  /** Ends the chunk that is filled, but for its last `rest` bytes: they begin the next one. */
  const cut = (rest: number): void => {
    if (part === undefined) return
    chunks.push(part.subarray(0, held - rest))
    const begun = rest === 0 ? undefined : Buffer.allocUnsafeSlow(chunkBytes)
    if (begun !== undefined) part.copy(begun, 0, held - rest, held)
    part = begun
    held = rest
  }
  try {
    for await (const given of body.iterator({ destroyOnReturn: false })) {
      stall.refresh()
      const chunk = Buffer.isBuffer(given) ? given : Buffer.from(given)
      hash.update(chunk)
      bytes += chunk.length
      for (let taken = 0; taken < chunk.length;) {
        part ??= Buffer.allocUnsafeSlow(chunkBytes)
        const copied = chunk.copy(part, held, taken)
        taken += copied
        held += copied
        if (held === chunkBytes) cut(unfinishedBytes(part))
        if (chunks.length === chunksAtOnce) await flush()
      }
      countPassedBytes(chunk.length)
    }
    sha256 = hash.digest('hex')
    // One that was cut off between two parts of it, or changed on the way, looks whole.
    if (announced !== undefined && announced !== sha256) throw digestMismatch('sha-256')
    if (held > 0) cut(0)
    if (chunks.length > 0) await flush()
    await Promise.all([before, storing])
  } catch (error) {
    void discardRest(body)
    await Promise.allSettled([before, storing])
    // Why it broke off is told, whatever becomes of this.
    await db.write(context, async (tx) => await deleteUpload(tx, id)).catch(() => undefined)
    throw error
  } finally {
    stall.stop()
  }
  return { id, bytes, sha256 }
}

/** Bytes at the end of a text in UTF-8 that begin a character which goes on behind it. A part without them can be read as text. */
export function unfinishedBytes(text: Buffer): number {
  for (let back = 1; back <= 3; back += 1) {
    const byte = text[text.length - back] ?? 0
    if (byte < 0x80) return 0
    // RFC 3629 §3: the first byte of a character says how many there are.
    if (byte >= 0xc0) return back < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? back : 0
  }
  return 0
}
