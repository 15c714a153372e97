import { Readable } from 'node:stream'
import { countPassedBytes, suppressUnhandledRejection } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { findChunks } from './store.ts'

export function openUpload(read: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>, uploadId: string): Readable {
  return readChunks(async (first) => await read(async (tx) => await findChunks(tx, uploadId, first)))
}

/** Reads all chunks, from number 0 on. Reads ahead. A failed read rejects only when its chunk is requested. */
export function readChunks(chunksFrom: (first: number) => Promise<readonly Buffer[]>): Readable {
  async function* readAhead(): AsyncGenerator<Buffer> {
    let next = suppressUnhandledRejection(chunksFrom(0))
    for (let first = 0; ;) {
      const chunks = await next
      if (chunks.length === 0) return
      first += chunks.length
      next = suppressUnhandledRejection(chunksFrom(first))
      for (const chunk of chunks) {
        countPassedBytes(chunk.length * 3)
        yield chunk
      }
    }
  }
  return Readable.from(readAhead(), { objectMode: false })
}
