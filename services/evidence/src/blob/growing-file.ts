import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { isOfWholePages, pageBytes } from '../digest/blocks.ts'

/** A new file that is written from its beginning to its end, by one writer. */
export interface GrowingFile {
  /** Appends whole chunks, one call after the other; resolves when they are no longer needed. */
  append(chunks: readonly Uint8Array[]): Promise<void>
  /** Makes all of it durable; rejects where any of it could not be brought to the disk. */
  sync(): Promise<void>
  /** Harmless when repeated. */
  close(): Promise<void>
}

/** What goes through the kernel's cache is brought to the disk in steps of so many bytes, so that its end need not wait for it all. */
const syncEveryBytes = 32 * 1024 * 1024

/**
 * Opens a new file. Blocks of whole pages go to the disk past the kernel's cache (`O_DIRECT`), where the file system can: to
 * copy them there and bring them to the disk from there costs several times the processor. The rest, and all of it
 * elsewhere, goes through the cache.
 */
export async function openGrowingFile(path: string): Promise<GrowingFile> {
  const file = await open(path, 'wx', 0o600)
  let position = 0
  let direct: FileHandle | undefined
  let isDirectTried = false
  let unsynced = 0
  let syncing: Promise<void> | undefined
  let syncFailure: { readonly error: unknown } | undefined
  let isOpen = true

  const syncBehind = async (): Promise<void> => {
    try {
      await file.datasync()
    } catch (error) {
      // The kernel tells a failure once: the sync at the end would know nothing of it.
      syncFailure ??= { error }
    } finally {
      syncing = undefined
    }
  }

  /** Writes as much as can be written past the cache, and gives how much. */
  const appendDirectly = async (chunk: Uint8Array): Promise<number> => {
    if (!isOfWholePages(chunk) || position % pageBytes !== 0) return 0
    if (!isDirectTried) direct = await openDirectly(path)
    isDirectTried = true
    let at = 0
    try {
      while (direct !== undefined && at < chunk.byteLength) {
        const { bytesWritten } = await direct.write(chunk, at, chunk.byteLength - at, position)
        at += bytesWritten
        position += bytesWritten
      }
    } catch (error) {
      if (!cannotBeDirect(error)) throw error
      // As where a limit of size is amid a page: the usual way says what is the matter.
      await direct?.close()
      direct = undefined
    }
    return at
  }

  const appendThroughCache = async (chunks: readonly Uint8Array[]): Promise<void> => {
    let { bytesWritten } = await file.writev(chunks, position)
    position += bytesWritten
    unsynced += bytesWritten
    for (const chunk of chunks) {
      const skipped = Math.min(bytesWritten, chunk.byteLength)
      bytesWritten -= skipped
      // The kernel may take only a part at a time.
      for (let at = skipped; at < chunk.byteLength;) {
        const taken = await file.write(chunk, at, chunk.byteLength - at, position)
        at += taken.bytesWritten
        position += taken.bytesWritten
        unsynced += taken.bytesWritten
      }
    }
    if (unsynced < syncEveryBytes || syncing !== undefined) return
    unsynced = 0
    syncing = syncBehind()
  }

  return {
    append: async (chunks) => {
      const [first, ...others] = chunks
      const taken = first !== undefined && others.length === 0 ? await appendDirectly(first) : 0
      const left = taken === 0 || first === undefined ? chunks : [first.subarray(taken)]
      if (left.some(({ byteLength }) => byteLength > 0)) await appendThroughCache(left)
    },
    sync: async () => {
      await syncing
      if (syncFailure !== undefined) throw syncFailure.error
      // One for both ways: what was written past the cache is in the disk's own, and the length of the file nowhere else.
      await file.sync()
    },
    close: async () => {
      if (!isOpen) return
      isOpen = false
      await syncing
      await direct?.close()
      await file.close()
    },
  }
}

/** Undefined where the file system, or the machine, has no such way. */
async function openDirectly(path: string): Promise<FileHandle | undefined> {
  // Linux alone has it.
  const flag: number | undefined = constants.O_DIRECT
  if (flag === undefined) return undefined
  try {
    return await open(path, constants.O_WRONLY | flag)
  } catch (error) {
    if (cannotBeDirect(error)) return undefined
    throw error
  }
}

function cannotBeDirect(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'EINVAL' || error.code === 'EOPNOTSUPP')
}
