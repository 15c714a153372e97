import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { countPassedBytes, problem } from '@postern/service-kit'
import { putChunk } from './store.ts'
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
 * Puts a file into the database, part by part as it arrives: any worker can read it then, on whatever machine. One that
 * breaks off is removed with what is old.
 */
export async function receiveUpload(
  db: Pick<TenantDb, 'write'>,
  context: { readonly assertion: string },
  body: Readable,
): Promise<ReceivedUpload> {
  const id = crypto.randomUUID()
  const hash = createHash('sha256')
  let [bytes, index] = [0, 0]
  let parts: Buffer[] = []
  let held = 0
  // Two parts are stored while the next one arrives: PostgreSQL writes the one while the other is sent to it.
  let [before, storing] = [Promise.resolve(), Promise.resolve()]
  const flush = async (): Promise<void> => {
    const content = Buffer.concat(parts)
    const at = index
    parts = []
    held = 0
    index += 1
    await before
    before = storing
    storing = db.write(context, async (tx) => await putChunk(tx, id, at, content))
    // Its failure is told when it is waited for.
    storing.catch(() => undefined)
  }
  const stalled = setTimeout(() => body.destroy(problem('request_timeout')), stallMs)
  try {
    for await (const part of body) {
      stalled.refresh()
      const chunk = Buffer.isBuffer(part) ? part : Buffer.from(part)
      countPassedBytes(chunk.length)
      hash.update(chunk)
      bytes += chunk.length
      held += chunk.length
      parts.push(chunk)
      if (held >= chunkBytes) await flush()
    }
  } finally {
    clearTimeout(stalled)
  }
  if (held > 0) await flush()
  await Promise.all([before, storing])
  return { id, bytes, sha256: hash.digest('hex') }
}
