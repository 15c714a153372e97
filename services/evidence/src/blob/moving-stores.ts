import { type BlobStore, type SettlingBlob, codeOf, ofEach } from './blob-store.ts'
import type { Stores } from './open-stores.ts'
import type { PartialStore } from './partial-store.ts'

/**
 * A bucket, and the directory that evidence is moved out of. All that is new goes to the bucket; what was begun in the
 * directory is gone on with from there, and what is taken away is taken away in both. Nobody notices the move.
 */
export function openMovingStores(bucket: Stores, directory: Stores): Stores {
  return {
    blobs: movingBlobs(bucket.blobs, directory.blobs),
    partials: movingPartials(bucket.partials, directory.partials),
    close: () => {
      bucket.close()
      directory.close()
    },
  }
}

function movingBlobs(bucket: BlobStore, directory: BlobStore): BlobStore {
  // Which store an entry is in cannot be told from its name.
  const inDirectory = new WeakSet<SettlingBlob>()
  const storeOf = (blob: SettlingBlob) => (inDirectory.has(blob) ? directory : bucket)
  return {
    isRemote: bucket.isRemote || directory.isRemote,
    openIncoming: async (tenantId) => await bucket.openIncoming(tenantId),
    offer: async (blob) => await storeOf(blob).offer(blob),
    place: async (blob) => await storeOf(blob).place(blob),
    remove: async (blob) => await storeOf(blob).remove(blob),
    finish: async (blob, outcome) => await storeOf(blob).finish(blob, outcome),
    abandon: async (blob) => await storeOf(blob).abandon?.(blob),
    // The directory first: who moves a blob looks, once it is in the bucket, whether it is still in the directory.
    reopen: async function* reopen(blob, olderThan) {
      for await (const found of directory.reopen(blob, olderThan)) {
        inDirectory.add(found)
        yield found
      }
      yield* bucket.reopen(blob, olderThan)
    },
    read: async (blob) => {
      try {
        return await directory.read(blob)
      } catch (error) {
        if (codeOf(error) !== 'ENOENT') throw error
        return await bucket.read(blob)
      }
    },
    listSettling: async (tenantId, olderThan) => {
      const [old, rest] = await Promise.all([
        directory.listSettling(tenantId, olderThan),
        bucket.listSettling(tenantId, olderThan),
      ])
      for (const blob of old) inDirectory.add(blob)
      return [...old, ...rest]
    },
    listUnsettled: async (olderThan) =>
      new Set([...(await directory.listUnsettled(olderThan)), ...(await bucket.listUnsettled(olderThan))]),
    sweepIncoming: async (olderThan) =>
      (await directory.sweepIncoming(olderThan)) + (await bucket.sweepIncoming(olderThan)),
    time: async () => Math.min(await directory.time(), await bucket.time()),
    assertWritable: async () => await bucket.assertWritable(),
  }
}

/** A turn is in one of the two: where its writer has put it. */
function movingPartials(bucket: PartialStore, directory: PartialStore): PartialStore {
  const both = { directory, bucket }
  const names = ['directory', 'bucket'] as const
  return {
    append: async (tenantId, id, turn) => await bucket.append(tenantId, id, turn),
    seal: async (tenantId, id, turn) => {
      const bytes = await directory.seal(tenantId, id, turn)
      return bytes > 0 ? bytes : await bucket.seal(tenantId, id, turn)
    },
    read: async function* read(tenantId, id, pieces) {
      for (const piece of pieces) {
        const isInDirectory = (await directory.seal(tenantId, id, piece.turn)) > 0
        yield* (isInDirectory ? directory : bucket).read(tenantId, id, [piece])
      }
    },
    remove: async (tenantId, id) => {
      await directory.remove(tenantId, id)
      await bucket.remove(tenantId, id)
    },
    list: async function* list(olderThan) {
      yield* ofEach(names, (name) => both[name].list(olderThan))
    },
    sweep: async (olderThan) => {
      let count = 0
      const swept = ofEach(names, async function* of(name) {
        yield await both[name].sweep(olderThan)
      })
      for await (const pieces of swept) count += pieces
      return count
    },
  }
}
