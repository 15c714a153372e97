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
import type { TenantDb } from '@postern/tenant-db'

export interface ReceivedUpload {
  readonly id: string
  readonly bytes: number
  readonly sha256: string
}

/** Bytes per row. PostgreSQL returns them in hexadecimal, and memory above 128 KiB is returned to the system each time. */
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
  const cut = (): void => {
    if (part !== undefined && held > 0) chunks.push(part.subarray(0, held))
    part = undefined
    held = 0
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
        if (held === chunkBytes) cut()
        if (chunks.length === chunksAtOnce) await flush()
      }
      countPassedBytes(chunk.length)
    }
    sha256 = hash.digest('hex')
    if (announced !== undefined && announced !== sha256) throw digestMismatch('sha-256')
    cut()
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
