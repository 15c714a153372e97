import { createReadStream } from 'node:fs'
import { mkdir, open, rm, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { checked, codeOf, entriesOlderThan, namesIn, syncDirectory, tenantPattern } from './blob-store.ts'

/** The bytes of uploads that arrive in pieces: `partial/<tenant>/<upload>`. How much is there is the size of the file. */
export interface PartialStore {
  create(tenantId: string, id: string): Promise<void>
  /** Bytes that are there; undefined where there is no such upload. */
  sizeOf(tenantId: string, id: string): Promise<number | undefined>
  /** Opens what is there to go on at `offset`, which is its size. */
  append(tenantId: string, id: string, offset: number): Promise<PartialWriter>
  read(tenantId: string, id: string): Readable
  pathOf(tenantId: string, id: string): string
  /** Harmless when repeated. */
  remove(tenantId: string, id: string): Promise<void>
  /** Deletes what nothing was added to since `olderThan` (milliseconds since the epoch); answers how many files. */
  sweep(olderThan: number): Promise<number>
}

export interface PartialWriter {
  write(chunk: Uint8Array): Promise<void>
  /** Takes back what was written. */
  rollBack(): Promise<void>
  /** Makes durable what was written. To be called once, whatever happened. */
  close(): Promise<void>
}

/** Opens the place of partial uploads in a blob directory, on the same file system as the blobs. */
export async function openPartialStore(blobDirectory: string): Promise<PartialStore> {
  const root = join(resolve(blobDirectory), 'partial')
  await mkdir(root, { recursive: true, mode: 0o700 })
  const pathOf = (tenantId: string, id: string) =>
    join(root, checked(tenantId, tenantPattern), checked(id, tenantPattern))
  return {
    pathOf,
    create: async (tenantId, id) => {
      const path = pathOf(tenantId, id)
      const directory = join(root, tenantId)
      await mkdir(directory, { recursive: true, mode: 0o700 })
      const file = await open(path, 'wx', 0o600)
      await file.close()
      await syncDirectory(directory)
    },
    sizeOf: async (tenantId, id) => {
      try {
        return (await stat(pathOf(tenantId, id))).size
      } catch (error) {
        if (codeOf(error) === 'ENOENT') return undefined
        throw error
      }
    },
    append: async (tenantId, id, offset) => {
      const file = await open(pathOf(tenantId, id), 'r+')
      let position = offset
      return {
        write: async (chunk) => {
          let written = 0
          while (written < chunk.byteLength) {
            const { bytesWritten } = await file.write(chunk, written, chunk.byteLength - written, position)
            written += bytesWritten
            position += bytesWritten
          }
        },
        rollBack: async () => await file.truncate(offset),
        close: async () => {
          try {
            await file.sync()
          } finally {
            await file.close()
          }
        },
      }
    },
    read: (tenantId, id) => createReadStream(pathOf(tenantId, id), { highWaterMark: 1024 * 1024 }),
    remove: async (tenantId, id) => await rm(pathOf(tenantId, id), { force: true }),
    sweep: async (olderThan) => {
      let count = 0
      for (const tenant of await namesIn(root)) {
        for (const entry of await entriesOlderThan(join(root, tenant), olderThan)) {
          await rm(join(root, tenant, entry), { force: true })
          count += 1
        }
      }
      return count
    },
  }
}
