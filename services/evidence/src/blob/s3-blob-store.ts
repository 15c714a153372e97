import { randomBytes } from 'node:crypto'
import {
  type BlobStore,
  type IncomingBlob,
  type PendingBlob,
  parseName,
  entryPattern,
  hashPattern,
  tenantPattern,
} from './blob-store.ts'
import type { PartSpools } from './part-spool.ts'
import type { S3Objects, SentObject, StoredPart } from './s3-objects.ts'

type BlobName = Pick<PendingBlob, 'tenantId' | 'sha256'>

const reopenedMark = Buffer.from('reopened')

const findStepMs = 1000

/** README.md explains keys and steps. */
export function openS3BlobStore(objects: S3Objects, spools: PartSpools): BlobStore {
  async function listPlaced({ tenantId, sha256 }: BlobName): Promise<PendingBlob[]> {
    const folder = `blobs/${parseName(tenantId, tenantPattern)}/${parseName(sha256, hashPattern)}/`
    const placed: PendingBlob[] = []
    for await (const { key } of objects.list(folder)) {
      const entry = `${sha256}.${key.slice(folder.length)}`
      if (entryPattern.test(entry)) placed.push({ tenantId, sha256, entry })
    }
    return placed
  }

  async function hasOtherCopy(blob: PendingBlob): Promise<boolean> {
    const others = (await listPlaced(blob)).filter(({ entry }) => entry !== blob.entry)
    if (others.length === 0) return false
    const sizeBytes = await objects.sizeOf(namesOf(blob).data)
    for (const other of others) {
      // An upload keeps its entry until its own bytes are deleted.
      const { settling, data } = namesOf(other)
      if ((await objects.sizeOf(settling)) === undefined && (await objects.sizeOf(data)) === sizeBytes) return true
    }
    return false
  }

  return {
    isRemote: true,
    openIncoming: async (tenantId) => createIncomingBlob(objects, spools, parseName(tenantId, tenantPattern)),
    putName: async (blob) => {
      await objects.put(namesOf(blob).place, Buffer.alloc(0))
    },
    // Every upload has its own name, so nothing is done under the lock.
    moveIntoPlace: async (blob) => void namesOf(blob),
    remove: async (blob) => void namesOf(blob),
    finish: async (blob, outcome) => {
      const { data, settling, place } = namesOf(blob)
      switch (outcome) {
        case 'recorded':
          // No check for another copy: it could be deleted after the check, and the receipt would have no bytes.
          break
        case 'kept':
          if ((await objects.sizeOf(place)) === undefined) await objects.delete(data)
          break
        case 'spare':
          if (await hasOtherCopy(blob)) {
            await objects.delete(place)
            await objects.delete(data)
          }
          break
        case 'gone':
          // Delete the bytes first: a name without bytes is ignored and found again.
          await objects.delete(data)
          await objects.delete(place)
          break
        default:
          throw new TypeError(outcome satisfies never)
      }
      await objects.delete(settling)
    },
    discardPending: async (blob) => {
      const { data, settling, place } = namesOf(blob)
      for (const key of [place, data, settling]) await objects.delete(key)
    },
    reopen: async function* reopen(blob, olderThan) {
      for (const found of await listPlaced(blob)) {
        // Checked by name, because a listing may not contain new objects yet.
        const { settling } = namesOf(found)
        const entry = await objects.find(settling)
        if (entry === undefined) await objects.put(settling, reopenedMark)
        // The entry of an upload is empty.
        else if (entry.sizeBytes === 0 && entry.modifiedAt.getTime() + findStepMs > olderThan) continue
        yield found
      }
    },
    read: async (blob) => {
      for (const placed of await listPlaced(blob)) {
        const { data } = namesOf(placed)
        if ((await objects.sizeOf(data)) === undefined) continue
        try {
          return await objects.read(data)
        } catch (error) {
          // An upload of equal bytes may have removed its own.
          if ((await objects.sizeOf(data)) !== undefined) throw error
        }
      }
      throw Object.assign(new Error('the bucket has no bytes for this hash'), { code: 'ENOENT' })
    },
    listPending: async (tenantId, olderThan) => {
      const folder = `settling/${parseName(tenantId, tenantPattern)}/`
      const old: PendingBlob[] = []
      for await (const { key, modifiedAt } of objects.list(folder)) {
        const entry = key.slice(folder.length)
        const sha256 = entryPattern.exec(entry)?.groups?.['sha256']
        if (sha256 !== undefined && modifiedAt.getTime() < olderThan) old.push({ tenantId, sha256, entry })
      }
      return old
    },
    listTenantsWithPending: async (olderThan) => {
      const tenants = new Set<string>()
      for await (const { key, modifiedAt } of objects.list('settling/')) {
        const [, tenantId = ''] = key.split('/')
        if (tenantPattern.test(tenantId) && modifiedAt.getTime() < olderThan) tenants.add(tenantId)
      }
      return tenants
    },
    sweepIncoming: async (olderThan) => {
      let count = 0
      for await (const { key, uploadId, begunAt } of objects.listBegun('data/')) {
        if (begunAt.getTime() >= olderThan) continue
        await objects.abort(key, uploadId)
        count += 1
      }
      return count
    },
    time: async () => {
      const time = (await objects.check()).getTime()
      if (Number.isNaN(time)) throw new Error('the bucket sent no time')
      return time
    },
    assertWritable: async () => void (await objects.check()),
  }
}

export function namesOf(blob: PendingBlob): {
  readonly data: string
  readonly settling: string
  readonly place: string
} {
  const tenant = parseName(blob.tenantId, tenantPattern)
  const entry = parseName(blob.entry, entryPattern)
  const random = entry.slice(blob.sha256.length + 1)
  return {
    data: `data/${tenant}/${random}`,
    settling: `settling/${tenant}/${entry}`,
    place: `blobs/${tenant}/${parseName(blob.sha256, hashPattern)}/${random}`,
  }
}

/** Sends parts of 8 MiB. The object is invisible before `settle`. */
function createIncomingBlob(objects: S3Objects, spools: PartSpools, tenantId: string): IncomingBlob {
  const random = randomBytes(16).toString('hex')
  const data = `data/${tenantId}/${random}`
  const parts: StoredPart[] = []
  let sizeBytes = 0
  let uploadId: string | undefined
  const sendPart = async (bytes: Uint8Array): Promise<SentObject> => {
    uploadId ??= await objects.begin(data)
    const stored = await objects.putPart(data, uploadId, parts.length + 1, bytes)
    parts.push(stored)
    return stored
  }
  const spool = spools.open(tenantId, sendPart)
  return {
    write: async (chunk) => {
      sizeBytes += chunk.byteLength
      await spool.write(chunk)
    },
    settle: async (owner, sha256) => {
      if (owner !== tenantId) throw new Error('the blob was opened for another tenant')
      const entry = `${parseName(sha256, hashPattern)}.${random}`
      // Before the bytes are visible, so that a crash leaves no unnamed bytes.
      await objects.put(`settling/${tenantId}/${entry}`, Buffer.alloc(0))
      if (uploadId === undefined) await spool.flush(async (bytes) => await objects.put(data, bytes))
      else {
        await spool.flush()
        await objects.complete(data, uploadId, parts)
        uploadId = undefined
        const stored = await objects.sizeOf(data)
        if (stored !== sizeBytes) throw new Error('the bucket stored a different number of bytes than it was sent')
      }
      await spool.close()
      return { tenantId, sha256, entry }
    },
    discard: async () => {
      await spool.close()
      if (uploadId === undefined) return
      const begun = uploadId
      uploadId = undefined
      // If the store is unreachable, the sweep aborts the upload later.
      await objects.abort(data, begun).catch(() => undefined)
    },
  }
}
