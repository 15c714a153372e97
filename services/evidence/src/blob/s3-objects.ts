import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandInput,
  type ListMultipartUploadsCommandOutput,
  ListObjectsV2Command,
  type ListObjectsV2CommandInput,
  type ListObjectsV2CommandOutput,
  NoSuchUpload,
  NotFound,
  PutObjectCommand,
  S3Client,
  type S3ClientConfig,
  S3ServiceException,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { problem } from '@postern/service-kit'
import { z } from 'zod'
import type { S3Config } from '../store-config.ts'
import { storeFullProblem } from './store-full.ts'

export interface S3Objects {
  put(key: string, bytes: Uint8Array): Promise<SentObject>
  /** Undefined if the object is missing. */
  sizeOf(key: string): Promise<number | undefined>
  /** Works even if listings lag behind. The time has whole seconds. */
  find(key: string): Promise<StoredObject | undefined>
  read(key: string): Promise<Readable>
  delete(key: string): Promise<void>
  deleteAll(keys: readonly string[]): Promise<void>
  list(prefix: string): AsyncIterable<StoredObject>
  begin(key: string): Promise<string>
  /** At least 5 MiB; the last part may be smaller. */
  putPart(key: string, uploadId: string, number: number, bytes: Uint8Array): Promise<StoredPart>
  complete(key: string, uploadId: string, parts: readonly StoredPart[]): Promise<void>
  abort(key: string, uploadId: string): Promise<void>
  listBegun(prefix: string): AsyncIterable<{ readonly key: string; readonly uploadId: string; readonly begunAt: Date }>
  /** The bucket's time in whole seconds, or an invalid date. Rejects if the bucket is unreachable. */
  check(): Promise<Date>
  close(): void
}

export interface StoredObject {
  readonly key: string
  readonly sizeBytes: number
  readonly modifiedAt: Date
}

export interface SentObject {
  /** If there were several, an abandoned one may still read the bytes. */
  readonly attempts: number
}

export interface StoredPart extends SentObject {
  readonly number: number
  readonly etag: string | undefined
  readonly sha256: string | undefined
}

const maxSockets = 2_048

// DeleteObjects, which deletes many, needs a checksum that not all servers support.
const deletesAtOnce = 8

const fullStoreNames: ReadonlySet<string> = new Set(['QuotaExceeded', 'InsufficientStorage', 'XMinioStorageFull'])

/** Requests use Signature Version 4. Failures are 503, or 507 if the store is full. */
export function openS3Objects(config: S3Config): S3Objects {
  const { bucket: Bucket, prefix, timeoutMs, checksums } = config
  const agents = { httpAgent: { maxSockets, keepAlive: true }, httpsAgent: { maxSockets, keepAlive: true } }
  const options: S3ClientConfig = {
    region: config.region,
    forcePathStyle: config.pathStyle,
    ...(config.endpoint === undefined ? {} : { endpoint: config.endpoint }),
    ...(config.credentials === undefined ? {} : { credentials: config.credentials }),
    // Many servers do not support the newer checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  }
  const client = new S3Client({
    ...options,
    requestHandler: { connectionTimeout: 2_000, socketTimeout: timeoutMs, ...agents },
  })
  // Without `socketTimeout`, which would also count while the caller reads slowly.
  const reader = new S3Client({ ...options, requestHandler: { connectionTimeout: 2_000, ...agents } })
  const keyOf = (key: string) => prefix + key
  const inTime = () => ({ abortSignal: AbortSignal.timeout(timeoutMs) })
  const checksumOf = (bytes: Uint8Array) =>
    checksums ? { ChecksumSHA256: createHash('sha256').update(bytes).digest('base64') } : {}
  const find = async (key: string): Promise<StoredObject | undefined> => {
    try {
      const head = await client.send(new HeadObjectCommand({ Bucket, Key: keyOf(key) }), inTime())
      return { key, sizeBytes: head.ContentLength ?? 0, modifiedAt: head.LastModified ?? new Date() }
    } catch (error) {
      if (error instanceof NotFound) return undefined
      throw unavailable(error)
    }
  }
  const remove = async (key: string): Promise<void> => {
    await mapStoreErrors(client.send(new DeleteObjectCommand({ Bucket, Key: keyOf(key) }), inTime()))
  }

  return {
    put: async (key, bytes) => {
      const object = { Bucket, Key: keyOf(key), Body: bytes, ContentLength: bytes.byteLength, ...checksumOf(bytes) }
      return sentBy(await mapStoreErrors(client.send(new PutObjectCommand(object), inTime())))
    },
    sizeOf: async (key) => (await find(key))?.sizeBytes,
    find,
    read: async (key) => {
      const begun = new AbortController()
      const late = setTimeout(() => begun.abort(new Error('the store did not answer in time')), timeoutMs)
      const command = new GetObjectCommand({ Bucket, Key: keyOf(key) })
      const asked = reader.send(command, { abortSignal: begun.signal }).finally(() => clearTimeout(late))
      const { Body } = await mapStoreErrors(asked)
      if (!(Body instanceof Readable)) throw new TypeError('an object must be read as a stream')
      return Readable.from(chunksOf(Body, timeoutMs), { highWaterMark: 1 })
    },
    delete: remove,
    deleteAll: async (keys) => {
      const left = keys.values()
      const deleteOnes = async (): Promise<void> => {
        for (const key of left) await remove(key)
      }
      await Promise.all(Array.from({ length: Math.min(deletesAtOnce, keys.length) }, deleteOnes))
    },
    list: async function* list(below) {
      let after: { ContinuationToken?: string } | undefined = {}
      while (after !== undefined) {
        const request: ListObjectsV2CommandInput = { Bucket, Prefix: keyOf(below), ...after }
        const page: ListObjectsV2CommandOutput = await mapStoreErrors(
          client.send(new ListObjectsV2Command(request), inTime()),
        )
        for (const { Key = '', Size = 0, LastModified = new Date() } of page.Contents ?? []) {
          yield { key: Key.slice(prefix.length), sizeBytes: Size, modifiedAt: LastModified }
        }
        after = page.NextContinuationToken === undefined ? undefined : { ContinuationToken: page.NextContinuationToken }
      }
    },
    begin: async (key) => {
      const algorithm = checksums ? { ChecksumAlgorithm: 'SHA256' as const } : {}
      const request = { Bucket, Key: keyOf(key), ...algorithm }
      const { UploadId } = await mapStoreErrors(client.send(new CreateMultipartUploadCommand(request), inTime()))
      if (UploadId === undefined) throw new Error('the store returned no id for the upload')
      return UploadId
    },
    putPart: async (key, UploadId, number, bytes) => {
      const part = { Bucket, Key: keyOf(key), UploadId, PartNumber: number, Body: bytes, ...checksumOf(bytes) }
      const length = { ContentLength: bytes.byteLength }
      const answer = await mapStoreErrors(client.send(new UploadPartCommand({ ...part, ...length }), inTime()))
      const { ETag, ChecksumSHA256 } = answer
      return { number, etag: ETag, sha256: checksums ? ChecksumSHA256 : undefined, ...sentBy(answer) }
    },
    complete: async (key, UploadId, parts) => {
      const Parts = parts.map(({ number, etag, sha256 }) => ({
        PartNumber: number,
        ETag: etag,
        ...(sha256 === undefined ? {} : { ChecksumSHA256: sha256 }),
      }))
      const request = { Bucket, Key: keyOf(key), UploadId, MultipartUpload: { Parts } }
      await mapStoreErrors(client.send(new CompleteMultipartUploadCommand(request), inTime()))
    },
    abort: async (key, UploadId) => {
      try {
        await client.send(new AbortMultipartUploadCommand({ Bucket, Key: keyOf(key), UploadId }), inTime())
      } catch (error) {
        if (!(error instanceof NoSuchUpload)) throw unavailable(error)
      }
    },
    listBegun: async function* listBegun(below) {
      let after: { KeyMarker?: string; UploadIdMarker?: string } | undefined = {}
      while (after !== undefined) {
        const request: ListMultipartUploadsCommandInput = { Bucket, Prefix: keyOf(below), ...after }
        const page: ListMultipartUploadsCommandOutput = await mapStoreErrors(
          client.send(new ListMultipartUploadsCommand(request), inTime()),
        )
        for (const { Key = '', UploadId = '', Initiated = new Date() } of page.Uploads ?? []) {
          yield { key: Key.slice(prefix.length), uploadId: UploadId, begunAt: Initiated }
        }
        const { IsTruncated, NextKeyMarker: KeyMarker = '', NextUploadIdMarker: UploadIdMarker = '' } = page
        after = IsTruncated === true ? { KeyMarker, UploadIdMarker } : undefined
      }
    },
    check: async () => {
      const command = new HeadBucketCommand({ Bucket })
      let date = Number.NaN
      command.middlewareStack.add(
        (next) => async (input) => {
          const result = await next(input)
          date = dateOf(result.response)
          return result
        },
        { step: 'deserialize' },
      )
      await mapStoreErrors(client.send(command, inTime()))
      return new Date(date)
    },
    close: () => {
      client.destroy()
      reader.destroy()
    },
  }
}

function sentBy({ $metadata }: { readonly $metadata: { readonly attempts?: number } }): SentObject {
  // Without a count, there may have been several.
  return { attempts: $metadata.attempts ?? Infinity }
}

/** NaN if the server sent no time. */
function dateOf(response: unknown): number {
  const { headers } = z.object({ headers: z.record(z.string(), z.string()) }).parse(response)
  return Date.parse(headers['date'] ?? '')
}

/** Limits the pauses of the store to `idleMs`, but not those of the caller. */
async function* chunksOf(body: Readable, idleMs: number): AsyncGenerator {
  const chunks = body[Symbol.asyncIterator]()
  try {
    for (;;) {
      const timer = setTimeout(() => body.destroy(new Error('the store stopped sending')), idleMs)
      const next: IteratorResult<unknown> = await chunks.next().finally(() => clearTimeout(timer))
      if (next.done === true) return
      yield next.value
    }
  } catch (error) {
    throw unavailable(error)
  } finally {
    await chunks.return?.()
  }
}

async function mapStoreErrors<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    throw unavailable(error)
  }
}

function unavailable(cause: unknown): Error {
  const isFull =
    cause instanceof S3ServiceException && (cause.$metadata.httpStatusCode === 507 || fullStoreNames.has(cause.name))
  return isFull
    ? storeFullProblem(cause)
    : problem('service_unavailable', {
        detail: 'The evidence store is not available. There is no receipt; try again in a moment.',
        retryAfterSeconds: 5,
        cause,
      })
}
