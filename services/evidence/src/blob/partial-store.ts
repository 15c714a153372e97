import { createReadStream } from 'node:fs'
import { mkdir, open, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { codeOf, listOfEach, parseName, tenantPattern } from './blob-store.ts'
import { listOlderThan, namesIn, syncDirectory, tenantsIn } from './directory.ts'

/** Pieces of resumable uploads. Each turn writes its own piece, so an ended turn cannot change another's bytes. */
export interface PartialStore {
  append(tenantId: string, id: string, turn: number): Promise<PartialWriter>
  /** Makes what a dead writer left durable. Returns the number of bytes, 0 if there is no piece. */
  seal(tenantId: string, id: string, turn: number): Promise<number>
  read(tenantId: string, id: string, pieces: readonly Piece[]): AsyncIterable<Buffer>
  remove(tenantId: string, id: string): Promise<void>
  /** Yields uploads with a piece last written before `olderThan` (epoch ms). */
  list(olderThan: number): AsyncIterable<PartialUpload>
  sweep(olderThan: number): Promise<number>
}

export interface PartialUpload {
  readonly tenantId: string
  readonly id: string
}

export interface Piece {
  readonly turn: number
  readonly length: number
}

export interface PartialWriter {
  /** Resolves when the chunk may be reused. The signal ends a wait for memory. */
  write(chunk: Uint8Array, signal?: AbortSignal): Promise<void>
  rollBack(): Promise<void>
  /** Returns the number of bytes. Call it once, even after a failure. */
  close(): Promise<number>
}

/** `partial/<tenant>/<upload>.<turn>` of a blob directory. */
export async function openPartialStore(blobDirectory: string): Promise<PartialStore> {
  const root = join(resolve(blobDirectory), 'partial')
  await mkdir(root, { recursive: true, mode: 0o700 })
  const directoryOf = (tenantId: string) => join(root, parseName(tenantId, tenantPattern))
  const pathOf = (tenantId: string, id: string, turn: number) =>
    join(directoryOf(tenantId), `${parseName(id, tenantPattern)}.${parseTurn(turn)}`)
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
      const beginning = `${parseName(id, tenantPattern)}.`
      for (const name of await namesIn(directory)) {
        if (name.startsWith(beginning)) await rm(join(directory, name), { force: true })
      }
    },
    list: async function* list(olderThan) {
      yield* listOfEach(await tenantsIn(root), async function* ofTenant(tenantId) {
        const entries = await listOlderThan(join(root, tenantId), olderThan)
        for (const id of new Set(entries.map((entry) => entry.split('.', 1)[0] ?? ''))) {
          if (tenantPattern.test(id)) yield { tenantId, id }
        }
      })
    },
    sweep: async (olderThan) => {
      let count = 0
      const swept = listOfEach(await tenantsIn(root), async function* ofTenant(tenantId) {
        for (const entry of await listOlderThan(join(root, tenantId), olderThan)) {
          await rm(join(root, tenantId, entry), { force: true })
          yield 1
        }
      })
      for await (const pieces of swept) count += pieces
      return count
    },
  }
}

export function parseTurn(turn: number): string {
  return parseName(String(turn), /^[1-9][0-9]{0,8}$/)
}
