import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { hashPattern, tenantPattern } from './blob-store.ts'
import { namesIn } from './directory.ts'
import type { BucketStores } from './open-stores.ts'
import type { S3Objects } from './s3-objects.ts'
import { namesOf } from './s3-blob-store.ts'

export interface MoveReport {
  readonly copied: number
  readonly copiedBytes: number
  readonly found: number
  readonly pieces: number
  /** Not copied, because their bytes do not match their names. */
  readonly damaged: readonly string[]
}

type Bucket = Pick<BucketStores, 'blobs' | 'partials' | 'objects'>

/** Copies a directory to a bucket while no service writes to either. Can be interrupted and repeated. */
export async function moveToBucket(
  directory: string,
  bucket: Bucket,
  { signal, say }: { readonly signal: AbortSignal; say(event: object): void },
): Promise<MoveReport> {
  const root = resolve(directory)
  let [copied, copiedBytes, found, pieces] = [0, 0, 0, 0]
  const damaged: string[] = []
  for await (const blob of blobsIn(root)) {
    signal.throwIfAborted()
    if (await isPlaced(bucket.objects, blob)) {
      found += 1
      continue
    }
    const sizeBytes = await copyBlob(root, bucket, blob)
    const event = { tenant_id: blob.tenantId, sha256: blob.sha256 }
    if (sizeBytes === undefined) {
      damaged.push(blob.path)
      say({ event: 'blob_damaged', ...event })
      continue
    }
    copied += 1
    copiedBytes += sizeBytes
    say({ event: 'blob_copied', ...event, size_bytes: sizeBytes })
  }
  for await (const piece of piecesIn(root)) {
    signal.throwIfAborted()
    await copyPiece(bucket, piece)
    pieces += 1
  }
  return { copied, copiedBytes, found, pieces, damaged }
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

async function isPlaced(objects: S3Objects, { tenantId, sha256 }: FoundBlob): Promise<boolean> {
  const folder = `blobs/${tenantId}/${sha256}/`
  for await (const { key } of objects.list(folder)) {
    const data = `data/${tenantId}/${key.slice(folder.length)}`
    if ((await objects.sizeOf(data)) !== undefined) return true
  }
  return false
}

/** Undefined if the bytes do not match the blob's name. */
async function copyBlob(root: string, { blobs, objects }: Bucket, blob: FoundBlob): Promise<number | undefined> {
  const incoming = await blobs.openIncoming(blob.tenantId)
  try {
    const hash = createHash('sha256')
    let sizeBytes = 0
    for await (const chunk of fileChunks(blob.path)) {
      hash.update(chunk)
      sizeBytes += chunk.length
      await incoming.write(chunk)
    }
    if (hash.digest('hex') !== blob.sha256) return undefined
    const settling = await incoming.settle(blob.tenantId, blob.sha256)
    if ((await hashOf(await objects.read(namesOf(settling).data))) !== blob.sha256) {
      throw new Error('the bucket returned different bytes than it was sent')
    }
    await blobs.putName(settling)
    // The sweep needs this entry in the bucket.
    if (!(await isSettling(root, blob))) await blobs.finish(settling, 'recorded')
    return sizeBytes
  } finally {
    await incoming.discard()
  }
}

async function isSettling(root: string, { tenantId, sha256 }: FoundBlob): Promise<boolean> {
  const entries = await namesIn(join(root, 'settling', tenantId))
  return entries.some((entry) => entry.startsWith(`${sha256}.`))
}

interface FoundPiece {
  readonly tenantId: string
  readonly uploadId: string
  readonly turn: number
  readonly path: string
}

async function* piecesIn(root: string): AsyncGenerator<FoundPiece> {
  const partial = join(root, 'partial')
  for (const tenantId of (await namesIn(partial)).toSorted()) {
    if (!tenantPattern.test(tenantId)) continue
    for (const name of (await namesIn(join(partial, tenantId))).toSorted()) {
      const [uploadId = '', turn = ''] = name.split('.')
      if (tenantPattern.test(uploadId))
        yield { tenantId, uploadId, turn: Number(turn), path: join(partial, tenantId, name) }
    }
  }
}

async function copyPiece({ partials }: Bucket, { tenantId, uploadId, turn, path }: FoundPiece): Promise<void> {
  const { size } = await stat(path)
  if ((await partials.seal(tenantId, uploadId, turn)) === size) return
  const writer = await partials.append(tenantId, uploadId, turn)
  try {
    for await (const chunk of fileChunks(path)) await writer.write(chunk)
  } finally {
    await writer.close()
  }
}

async function* fileChunks(path: string): AsyncGenerator<Buffer> {
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 })) {
    if (!Buffer.isBuffer(chunk)) throw new TypeError('a file must be read as bytes')
    yield chunk
  }
}

async function hashOf(bytes: AsyncIterable<unknown>): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of bytes) {
    if (!(chunk instanceof Uint8Array)) throw new TypeError('bytes must be read as bytes')
    hash.update(chunk)
  }
  return hash.digest('hex')
}
