import { type Environment, settings } from '@postern/service-kit'
import { z } from 'zod'

export type StoreConfig =
  /** On one file system, because blobs are linked and renamed. */
  { readonly kind: 'directory'; readonly path: string } | ({ readonly kind: 's3' } & S3Config)

export interface S3Config {
  readonly bucket: string
  readonly prefix: string
  readonly endpoint: string | undefined
  readonly region: string
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string } | undefined
  readonly pathStyle: boolean
  readonly checksums: boolean
  /** For one call with its retries. Shorter than a transaction may wait. */
  readonly timeoutMs: number
  readonly parts: number
  readonly spoolDirectory: string
}

const bucketName = z.string().regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket')
const keyPrefix = z.string().regex(/^(?:[A-Za-z0-9_.-]+\/)*$/, 'must be names that each end with a slash')
const mustBeAbsent = (other: string) =>
  z
    .string()
    .optional()
    .refine((value) => value === undefined, `must not be set ${other}`)
const required = z.string().min(1)

/** Requires a directory or a bucket, but not both. */
export function storeEnvironment(env: Environment): typeof storeShape {
  const isGiven = (name: string) => Boolean(env[name] ?? '') || Boolean(env[`${name}_FILE`] ?? '')
  return {
    ...storeShape,
    POSTERN_BLOB_DIRECTORY: isGiven('POSTERN_BLOB_S3_BUCKET')
      ? mustBeAbsent('together with POSTERN_BLOB_S3_BUCKET')
      : required,
    POSTERN_BLOB_S3_SECRET_ACCESS_KEY: isGiven('POSTERN_BLOB_S3_ACCESS_KEY_ID')
      ? required
      : mustBeAbsent('without POSTERN_BLOB_S3_ACCESS_KEY_ID'),
  }
}

const text: z.ZodType<string | undefined> = z.string().optional()
export const storeShape = {
  POSTERN_BLOB_DIRECTORY: text.describe('The directory that holds the bytes of evidence. Set this or a bucket.'),
  POSTERN_BLOB_MOVE_FROM: text.describe(
    'The directory that `move-to-bucket` copies to the bucket. The service does not start with it.',
  ),
  POSTERN_BLOB_S3_BUCKET: bucketName.optional().describe('The bucket that holds the bytes of evidence.'),
  POSTERN_BLOB_S3_PREFIX: keyPrefix.default('').describe('What every object name begins with, ending with a slash.'),
  POSTERN_BLOB_S3_ENDPOINT: settings.httpUrl
    .optional()
    .describe("The object store's origin. Without it: Amazon S3 of the region."),
  POSTERN_BLOB_S3_REGION: settings.text('us-east-1').describe('The region of the bucket.'),
  POSTERN_BLOB_S3_ACCESS_KEY_ID: required
    .optional()
    .describe('The access key. Without it: the role of the machine or pod. A secret.'),
  POSTERN_BLOB_S3_SECRET_ACCESS_KEY: text.describe('The secret of the access key. A secret.'),
  POSTERN_BLOB_S3_PATH_STYLE: settings
    .onOff('off')
    .describe('Whether the bucket is in the path instead of the host name.'),
  POSTERN_BLOB_S3_CHECKSUMS: settings
    .onOff('on')
    .describe('Whether the store keeps a SHA-256 beside each object. `off` for stores that cannot.'),
  POSTERN_BLOB_S3_TIMEOUT_MS: settings
    .integer({ min: 100, max: 60_000, fallback: 8_000 })
    .describe('How long one call to the store may take with its retries, in milliseconds.'),
  POSTERN_BLOB_S3_PARTS: settings
    .integer({ min: 1, max: 4_096, fallback: 8 })
    .describe('Parts of 8 MiB that may be sent, and held in memory, at a time, for all uploads.'),
  POSTERN_BLOB_S3_SPOOL_DIRECTORY: settings
    .text('/tmp')
    .describe('A local directory where each upload to a bucket collects its next part, up to 8 MiB.'),
} as const

export function storeConfig(values: z.output<z.ZodObject<typeof storeShape>>): StoreConfig {
  const { POSTERN_BLOB_DIRECTORY: path = '', POSTERN_BLOB_S3_BUCKET: bucket } = values
  if (bucket === undefined) return { kind: 'directory', path }
  const { POSTERN_BLOB_S3_ACCESS_KEY_ID: accessKeyId, POSTERN_BLOB_S3_SECRET_ACCESS_KEY: secretAccessKey } = values
  return {
    kind: 's3',
    bucket,
    prefix: values.POSTERN_BLOB_S3_PREFIX,
    endpoint: values.POSTERN_BLOB_S3_ENDPOINT,
    region: values.POSTERN_BLOB_S3_REGION,
    credentials:
      accessKeyId === undefined || secretAccessKey === undefined ? undefined : { accessKeyId, secretAccessKey },
    pathStyle: values.POSTERN_BLOB_S3_PATH_STYLE,
    checksums: values.POSTERN_BLOB_S3_CHECKSUMS,
    timeoutMs: values.POSTERN_BLOB_S3_TIMEOUT_MS,
    parts: values.POSTERN_BLOB_S3_PARTS,
    spoolDirectory: values.POSTERN_BLOB_S3_SPOOL_DIRECTORY,
  }
}
