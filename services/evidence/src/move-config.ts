import { ConfigurationError, type Environment, parseEnvironment } from '@postern/service-kit'
import { type S3Config, storeConfig, storeEnvironment } from './store-config.ts'

export function readMoveConfig(env: Environment): { readonly directory: string; readonly bucket: S3Config } {
  const values = parseEnvironment(env, storeEnvironment(env))
  const store = storeConfig(values)
  const { POSTERN_BLOB_MOVE_FROM: directory } = values
  if (store.kind !== 's3' || directory === undefined) {
    throw new ConfigurationError(['POSTERN_BLOB_S3_BUCKET and POSTERN_BLOB_MOVE_FROM must be set'])
  }
  return { directory, bucket: store }
}
