import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { rm, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import {
  type BlobStore,
  type BlobOutcome,
  type SettlingBlob,
  codeOf,
  hashPattern,
  namesIn,
  tenantPattern,
} from './blob-store.ts'
import type { S3Objects } from './s3-objects.ts'
import { namesOf } from './s3-blob-store.ts'

/** What a run has done. */
export interface MoveReport {
  /** Blobs that this run has brought to the bucket. */
  readonly copied: number
  readonly copiedBytes: number
  /** Blobs that were there already. */
  readonly found: number
  /** Blobs that this run has taken out of the directory. */
  readonly removed: number
  /** Whose bytes in the directory are not those that their name says. They are left alone. */
  readonly damaged: readonly string[]
  /** Uploads in pieces and entries that are not decided over: the service ends them, within a day at the latest. */
  readonly underWay: number
}

interface Bucket {
  readonly blobs: BlobStore
  readonly objects: S3Objects
}

/**
 * Brings what a blob directory holds to a bucket. It can be ended at any moment and run again, beside the service and any
 * number of times: a blob has its name in the bucket only after its bytes were read back from there and hash to it. With
 * `remove` it is taken out of the directory when it is in the bucket, which is then read once more.
 */
export async function moveToBucket(
  directory: string,
  bucket: Bucket,
  { remove, signal, say }: { readonly remove: boolean; readonly signal: AbortSignal; say(event: object): void },
): Promise<MoveReport> {
  const root = resolve(directory)
  let [copied, copiedBytes, found, removed] = [0, 0, 0, 0]
  const damaged: string[] = []
  for await (const blob of blobsIn(root)) {
    signal.throwIfAborted()
    const isThere = (await placedSize(bucket.objects, blob)) !== undefined
    const outcome = isThere ? 'found' : await copy(bucket, blob)
    if (outcome === 'damaged') {
      damaged.push(blob.path)
      say({ event: 'blob_damaged', tenant_id: blob.tenantId, sha256: blob.sha256 })
      continue
    }
    if (outcome === 'gone') continue
    if (outcome === 'found') {
      found += 1
    } else {
      copied += 1
      copiedBytes += outcome
      say({ event: 'blob_copied', tenant_id: blob.tenantId, sha256: blob.sha256, size_bytes: outcome })
    }
    if (remove && (await isWhole(bucket.blobs, blob))) {
      await rm(blob.path, { force: true })
      removed += 1
    }
  }
  return { copied, copiedBytes, found, removed, damaged, underWay: await countUnderWay(root) }
}

interface FoundBlob {
  readonly tenantId: string
  readonly sha256: string
  readonly path: string
}

async function* blobsIn(root: string): AsyncGenerator<FoundBlob> {
  const blobs = join(root, 'blobs')
  for (const tenantId of (await namesIn(blobs)).toSorted()) {
    if (!tenantPattern.test(tenantId)) continue
    for (const beginning of (await namesIn(join(blobs, tenantId))).toSorted()) {
      for (const sha256 of (await namesIn(join(blobs, tenantId, beginning))).toSorted()) {
        if (hashPattern.test(sha256)) yield { tenantId, sha256, path: join(blobs, tenantId, beginning, sha256) }
      }
    }
  }
}

/** Bytes of the blob in the bucket; undefined where it has no name there, or one whose bytes are gone. */
async function placedSize(objects: S3Objects, { tenantId, sha256 }: FoundBlob): Promise<number | undefined> {
  const folder = `blobs/${tenantId}/${sha256}/`
  for await (const { key } of objects.list(folder)) {
    const size = await objects.sizeOf(`data/${tenantId}/${key.slice(folder.length)}`)
    if (size !== undefined) return size
  }
  return undefined
}

/** The bytes that were brought; or why they were not. */
async function copy({ blobs, objects }: Bucket, blob: FoundBlob): Promise<number | 'damaged' | 'gone'> {
  const incoming = await blobs.openIncoming(blob.tenantId)
  let settling: SettlingBlob | undefined
  let outcome: BlobOutcome = 'gone'
  try {
    const hash = createHash('sha256')
    let sizeBytes = 0
    for await (const chunk of createReadStream(blob.path, { highWaterMark: 1024 * 1024 })) {
      if (!Buffer.isBuffer(chunk)) throw new TypeError('a file must be read as bytes')
      hash.update(chunk)
      sizeBytes += chunk.length
      await incoming.write(chunk)
    }
    if (hash.digest('hex') !== blob.sha256) return 'damaged'
    settling = await incoming.settle(blob.tenantId, blob.sha256)
    const { data } = namesOf(settling)
    if ((await hashOf(await objects.read(data))) !== blob.sha256) {
      throw new Error('the bucket gives other bytes than it was sent')
    }
    await blobs.offer(settling)
    // Decided over meanwhile, as what an upload has left behind: its bytes are gone, and it is to be done again.
    if ((await objects.sizeOf(data)) === undefined)
      throw new Error('the bytes were taken away before they had their name')
    // Purged meanwhile: the service takes it out of the directory first, then out of the bucket.
    if (!(await isFile(blob.path))) return 'gone'
    outcome = 'spare'
    await blobs.finish(settling, outcome)
    // Purged just now: who purges leaves alone what is not decided over.
    if (await isFile(blob.path)) return sizeBytes
    outcome = 'gone'
    return 'gone'
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return 'gone'
    throw error
  } finally {
    await incoming.discard()
    if (settling !== undefined && outcome === 'gone') await blobs.finish(settling, outcome)
  }
}

/** Whether the bucket gives the bytes that the name says. */
async function isWhole(blobs: BlobStore, blob: FoundBlob): Promise<boolean> {
  return (await hashOf(await blobs.read(blob))) === blob.sha256
}

async function hashOf(bytes: AsyncIterable<unknown>): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of bytes) {
    if (!(chunk instanceof Uint8Array)) throw new TypeError('bytes must be read as bytes')
    hash.update(chunk)
  }
  return hash.digest('hex')
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw error
  }
}

async function countUnderWay(root: string): Promise<number> {
  let count = 0
  for (const folder of ['settling', 'partial']) {
    for (const tenantId of await namesIn(join(root, folder)))
      count += (await namesIn(join(root, folder, tenantId))).length
  }
  return count
}
