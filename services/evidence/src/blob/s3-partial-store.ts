import { parseName, tenantPattern } from './blob-store.ts'
import type { PartSpools } from './part-spool.ts'
import { type PartialStore, parseTurn } from './partial-store.ts'
import type { S3Objects } from './s3-objects.ts'

/** `partial/<tenant>/<upload>.<turn>/<number>`, up to one part each. */
export function openS3PartialStore(objects: S3Objects, spools: PartSpools): PartialStore {
  /** Up to the first missing object, because another writer may own the rest. */
  async function contentsOf(folder: string) {
    const contents: { readonly key: string; readonly sizeBytes: number }[] = []
    for await (const { key, sizeBytes } of objects.list(folder)) {
      if (key !== folder + nameOf(contents.length)) break
      contents.push({ key, sizeBytes })
    }
    return contents
  }

  return {
    append: async (tenantId, id, turn) => {
      const folder = pieceOf(tenantId, id, turn)
      let count = 0
      let sizeBytes = 0
      const spool = spools.open(tenantId, async (bytes) => {
        const sent = await objects.put(folder + nameOf(count), bytes)
        count += 1
        return sent
      })
      return {
        write: async (chunk, gone) => {
          sizeBytes += chunk.byteLength
          await spool.write(chunk, gone)
        },
        rollBack: async () => {
          spool.clear()
          sizeBytes = 0
          while (count > 0) {
            await objects.delete(folder + nameOf(count - 1))
            count -= 1
          }
        },
        close: async () => {
          try {
            await spool.flush()
            return sizeBytes
          } finally {
            await spool.close()
          }
        },
      }
    },
    seal: async (tenantId, id, turn) => {
      const contents = await contentsOf(pieceOf(tenantId, id, turn))
      return contents.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
    },
    read: async function* read(tenantId, id, pieces) {
      for (const { turn, length } of pieces) {
        let left = length
        for (const { key } of length === 0 ? [] : await contentsOf(pieceOf(tenantId, id, turn))) {
          if (left === 0) break
          for await (const chunk of await objects.read(key)) {
            if (!Buffer.isBuffer(chunk)) throw new TypeError('an object must be read as bytes')
            const counted = chunk.subarray(0, left)
            left -= counted.length
            yield counted
          }
        }
      }
    },
    remove: async (tenantId, id) => {
      const keys: string[] = []
      for await (const { key } of objects.list(uploadOf(tenantId, id))) keys.push(key)
      await objects.deleteAll(keys)
    },
    list: async function* list(olderThan) {
      let last = ''
      for await (const { key, modifiedAt } of objects.list('partial/')) {
        const [, tenantId = '', piece = ''] = key.split('/')
        const [id = ''] = piece.split('.', 1)
        if (modifiedAt.getTime() >= olderThan || id === last) continue
        last = id
        if (tenantPattern.test(tenantId) && tenantPattern.test(id)) yield { tenantId, id }
      }
    },
    sweep: async (olderThan) => {
      let count = 0
      for await (const { key, modifiedAt } of objects.list('partial/')) {
        if (modifiedAt.getTime() >= olderThan) continue
        await objects.delete(key)
        count += 1
      }
      return count
    },
  }
}

function uploadOf(tenantId: string, id: string): string {
  return `partial/${parseName(tenantId, tenantPattern)}/${parseName(id, tenantPattern)}.`
}

function pieceOf(tenantId: string, id: string, turn: number): string {
  return `${uploadOf(tenantId, id)}${parseTurn(turn)}/`
}

function nameOf(number: number): string {
  return String(number).padStart(6, '0')
}
