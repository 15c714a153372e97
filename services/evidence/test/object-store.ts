import { tmpdir } from 'node:os'
import { CreateBucketCommand, ListMultipartUploadsCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3'
import { type TestObjectStore, startTestObjectStore } from '@postern/local-stack/testing'
import type { S3Config } from '../src/store-config.ts'

/** A bucket in a real object store. */
export interface TestBucket {
  readonly server: TestObjectStore
  readonly config: S3Config
  readonly env: Readonly<Record<string, string>>
  keys(prefix?: string): Promise<string[]>
  /** Unfinished multipart uploads. */
  begun(): Promise<number>
  stop(): Promise<void>
}

export async function startBucket(): Promise<TestBucket> {
  const server = await startTestObjectStore()
  const { endpoint, region, accessKeyId, secretAccessKey } = server
  const credentials = { accessKeyId, secretAccessKey }
  const bucket = 'evidence'
  const prefix = 'of/postern/'
  const client = new S3Client({ endpoint, region, credentials, forcePathStyle: true })
  await client.send(new CreateBucketCommand({ Bucket: bucket }))
  return {
    server,
    // Swift rejects newer checksums.
    config: {
      bucket,
      prefix,
      endpoint,
      region,
      credentials,
      pathStyle: true,
      checksums: false,
      timeoutMs: 8_000,
      parts: 8,
      spoolDirectory: tmpdir(),
    },
    env: {
      POSTERN_BLOB_DIRECTORY: '',
      POSTERN_BLOB_S3_BUCKET: bucket,
      POSTERN_BLOB_S3_PREFIX: prefix,
      POSTERN_BLOB_S3_ENDPOINT: endpoint,
      POSTERN_BLOB_S3_ACCESS_KEY_ID: accessKeyId,
      POSTERN_BLOB_S3_SECRET_ACCESS_KEY: secretAccessKey,
      POSTERN_BLOB_S3_PATH_STYLE: 'on',
      POSTERN_BLOB_S3_CHECKSUMS: 'off',
    },
    keys: async (below = '') => {
      const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix + below }))
      return Contents.map(({ Key = '' }) => Key.slice(prefix.length)).toSorted()
    },
    begun: async () => {
      const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket: bucket }))
      return Uploads.length
    },
    stop: async () => {
      client.destroy()
      await server.stop()
    },
  }
}
