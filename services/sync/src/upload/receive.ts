import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import {
  countPassedBytes,
  digestMismatch,
  discardRest,
  suppressUnhandledRejection,
  problem,
  watchStall,
} from '@postern/service-kit'
import { chunksAtOnce, deleteUpload, putChunks } from './store.ts'
import type { TenantDb } from '../worker/store.ts'

export interface ReceivedUpload {
  readonly id: string
  readonly bytes: number
  readonly sha256: string
}

/**
 * Bytes per row. Memory above 128 KiB is returned to the system each time; V8 uses two bytes per character beyond
 * Latin-1.
 */
const chunkBytes = 60 * 1024
const stallMs = 30_000

/**
 * Stores a file, unless it is interrupted or too large, or its SHA-256 differs from `announced`. A later run
 * repeats a failed deletion.
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
    storing = suppressUnhandledRejection(db.write(context, async (tx) => await putChunks(tx, id, at, contents)))
    countPassedBytes(contents.reduce((sum, { length }) => sum + length * 2, 0))
  }
  /** The last `rest` bytes start the next chunk. */
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
    if (announced !== undefined && announced !== sha256) throw digestMismatch('sha-256')
    if (held > 0) cut(0)
    if (chunks.length > 0) await flush()
    await Promise.all([before, storing])
  } catch (error) {
    void discardRest(body)
    await Promise.allSettled([before, storing])
    await db.write(context, async (tx) => await deleteUpload(tx, id)).catch(() => undefined)
    throw error
  } finally {
    stall.stop()
  }
  return { id, bytes, sha256 }
}

/** Counts the last bytes that begin an incomplete UTF-8 character. */
export function unfinishedBytes(text: Buffer): number {
  for (let back = 1; back <= 3; back += 1) {
    const byte = text[text.length - back] ?? 0
    if (byte < 0x80) return 0
    if (byte >= 0xc0) return back < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? back : 0
  }
  return 0
}
