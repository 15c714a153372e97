import { createHash } from 'node:crypto'
import { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { countPassedBytes, freeChunk, problem, watchStall } from '@postern/service-kit'
import { deleteUpload, putChunk } from './store.ts'
import type { TenantDb } from '../worker/store.ts'

/** A file that was taken in for a run to read. */
export interface ReceivedUpload {
  readonly id: string
  readonly bytes: number
  readonly sha256: string
}

const chunkBytes = 1024 * 1024
/** How long a client may pause, in milliseconds. */
const stallMs = 30_000

/**
 * Puts a file into the database, part by part as it arrives: any worker can read it then, on whatever machine. Of one that breaks off,
 * or is too large, nothing stays; where that fails it goes with what is old.
 */
export async function receiveUpload(
  db: Pick<TenantDb, 'write'>,
  context: { readonly assertion: string },
  body: Readable,
): Promise<ReceivedUpload> {
  const id = crypto.randomUUID()
  const hash = createHash('sha256')
  let [bytes, index] = [0, 0]
  let part: Buffer | undefined
  let held = 0
  let isStoring = false
  const stall = watchStall(stallMs, {
    isHeld: () => isStoring,
    onStall: () => body.destroy(problem('request_timeout')),
  })
  // Two parts are stored while the next one arrives: PostgreSQL writes the one while the other is sent to it.
  let [before, storing] = [Promise.resolve(), Promise.resolve()]
  const flush = async (rest = 0): Promise<void> => {
    const content = part?.subarray(0, held - rest) ?? Buffer.alloc(0)
    const at = index
    const begun = rest === 0 ? undefined : Buffer.allocUnsafeSlow(chunkBytes)
    if (begun !== undefined) part?.copy(begun, 0, held - rest, held)
    part = begun
    held = rest
    index += 1
    isStoring = true
    await before
    isStoring = false
    stall.refresh()
    before = storing
    storing = db.write(context, async (tx) => await putChunk(tx, id, at, content))
    // As it is here, and as it is written down to be sent.
    countPassedBytes(content.length * 2)
    // Its failure is told when it is waited for.
    storing.catch(() => undefined)
  }
  try {
    for await (const given of body) {
      stall.refresh()
      const chunk = Buffer.isBuffer(given) ? given : Buffer.from(given)
      hash.update(chunk)
      bytes += chunk.length
      for (let taken = 0; taken < chunk.length;) {
        part ??= Buffer.allocUnsafeSlow(chunkBytes)
        const copied = chunk.copy(part, held, taken)
        taken += copied
        held += copied
        if (held === chunkBytes) await flush(unfinishedBytes(part))
      }
      // The chunks of a request are nobody else's.
      if (body instanceof IncomingMessage) freeChunk(chunk)
      else countPassedBytes(chunk.length)
    }
    if (held > 0) await flush()
    await Promise.all([before, storing])
  } catch (error) {
    await Promise.allSettled([before, storing])
    // Why it broke off is told, whatever becomes of this.
    await db.write(context, async (tx) => await deleteUpload(tx, id)).catch(() => undefined)
    throw error
  } finally {
    stall.stop()
  }
  return { id, bytes, sha256: hash.digest('hex') }
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
