import { createReadStream } from 'node:fs'
import { mkdir, open, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import {
  checked,
  codeOf,
  entriesOlderThan,
  namesIn,
  ofEach,
  syncDirectory,
  tenantPattern,
  tenantsIn,
} from './blob-store.ts'

/**
 * The bytes of uploads that arrive in pieces. Each turn of writing has a place of its own, so that who has lost the turn
 * cannot touch what was written in another; how many bytes of a turn count is in the database.
 */
export interface PartialStore {
  /** Opens the place of a turn, which nobody has written to. */
  append(tenantId: string, id: string, turn: number): Promise<PartialWriter>
  /** Makes durable what is there of a turn, whoever has written it, and gives its bytes; 0 where there are none. */
  seal(tenantId: string, id: string, turn: number): Promise<number>
  /** The pieces one after another, each as far as it counts. The chunks are nobody else's. */
  read(tenantId: string, id: string, pieces: readonly Piece[]): AsyncIterable<Buffer>
  /** Deletes all of an upload. Harmless when repeated. */
  remove(tenantId: string, id: string): Promise<void>
  /** Uploads of which there are pieces that nothing was added to since `olderThan` (milliseconds since the epoch). */
  list(olderThan: number): AsyncIterable<PartialUpload>
  /** Deletes what nothing was added to since `olderThan` (milliseconds since the epoch); answers how many pieces. */
  sweep(olderThan: number): Promise<number>
}

export interface PartialUpload {
  readonly tenantId: string
  readonly id: string
}

export interface Piece {
  readonly turn: number
  /** Bytes that count. */
  readonly length: number
}

export interface PartialWriter {
  /** Resolves when the chunk is no longer needed. Who waits for memory waits no longer than until the signal is aborted. */
  write(chunk: Uint8Array, signal?: AbortSignal): Promise<void>
  /** Takes back what was written. */
  rollBack(): Promise<void>
  /** Makes durable what was written, and gives its bytes. To be called once, whatever happened. */
  close(): Promise<number>
}

/** Opens the place of partial uploads in a blob directory: `partial/<tenant>/<upload>.<turn>`. */
export async function openPartialStore(blobDirectory: string): Promise<PartialStore> {
  const root = join(resolve(blobDirectory), 'partial')
  await mkdir(root, { recursive: true, mode: 0o700 })
  const directoryOf = (tenantId: string) => join(root, checked(tenantId, tenantPattern))
  const pathOf = (tenantId: string, id: string, turn: number) =>
    join(directoryOf(tenantId), `${checked(id, tenantPattern)}.${checkedTurn(turn)}`)
  return {
    append: async (tenantId, id, turn) => {
      const directory = directoryOf(tenantId)
      await mkdir(directory, { recursive: true, mode: 0o700 })
      const file = await open(pathOf(tenantId, id, turn), 'wx', 0o600)
      let position = 0
      return {
        write: async (chunk) => {
          let written = 0
          while (written < chunk.byteLength) {
            const { bytesWritten } = await file.write(chunk, written, chunk.byteLength - written, position)
            written += bytesWritten
            position += bytesWritten
          }
        },
        rollBack: async () => {
          await file.truncate(0)
          position = 0
        },
        close: async () => {
          try {
            await file.sync()
          } finally {
            await file.close()
          }
          await syncDirectory(directory)
          return position
        },
      }
    },
    seal: async (tenantId, id, turn) => {
      try {
        const file = await open(pathOf(tenantId, id, turn), 'r+')
        try {
          await file.sync()
          return (await file.stat()).size
        } finally {
          await file.close()
          await syncDirectory(directoryOf(tenantId))
        }
      } catch (error) {
        if (codeOf(error) === 'ENOENT') return 0
        throw error
      }
    },
    read: async function* read(tenantId, id, pieces) {
      for (const { turn, length } of pieces) {
        if (length === 0) continue
        const options = { end: length - 1 }
        for await (const chunk of createReadStream(pathOf(tenantId, id, turn), options)) {
          if (!Buffer.isBuffer(chunk)) throw new TypeError('a file must be read as bytes')
          yield chunk
        }
      }
    },
    remove: async (tenantId, id) => {
      const directory = directoryOf(tenantId)
      const beginning = `${checked(id, tenantPattern)}.`
      for (const name of await namesIn(directory)) {
        if (name.startsWith(beginning)) await rm(join(directory, name), { force: true })
      }
    },
    list: async function* list(olderThan) {
      yield* ofEach(await tenantsIn(root), async function* ofTenant(tenantId) {
        const entries = await entriesOlderThan(join(root, tenantId), olderThan)
        for (const id of new Set(entries.map((entry) => entry.split('.', 1)[0] ?? ''))) {
          if (tenantPattern.test(id)) yield { tenantId, id }
        }
      })
    },
    sweep: async (olderThan) => {
      let count = 0
      const swept = ofEach(await tenantsIn(root), async function* ofTenant(tenantId) {
        for (const entry of await entriesOlderThan(join(root, tenantId), olderThan)) {
          await rm(join(root, tenantId, entry), { force: true })
          yield 1
        }
      })
      for await (const pieces of swept) count += pieces
      return count
    },
  }
}

/** The number of a turn as part of a name. */
export function checkedTurn(turn: number): string {
  return checked(String(turn), /^[1-9][0-9]{0,8}$/)
}
