import { createLogger } from '@postern/service-kit'
import { moveToBucket } from './blob/move.ts'
import { openS3BlobStore } from './blob/s3-blob-store.ts'
import { openS3Objects } from './blob/s3-objects.ts'
import { readMoveConfig } from './move-config.ts'

// The operator's command: brings the evidence in POSTERN_BLOB_MOVE_FROM to the bucket of the other settings (runbook:
// Evidence in a bucket). Exit code 0: all that is in the directory is in the bucket; 1: it is not, and can be run again.
const logger = createLogger({ service: 'evidence-move', level: 'info' })
const end = new AbortController()
process.once('SIGTERM', () => end.abort())
process.once('SIGINT', () => end.abort())
try {
  const { directory, bucket } = readMoveConfig(process.env)
  const objects = openS3Objects(bucket)
  try {
    await objects.check()
    const report = await moveToBucket(
      directory,
      { objects, blobs: openS3BlobStore(objects) },
      {
        remove: process.argv.includes('--remove'),
        signal: end.signal,
        say: (event) => logger.info(event),
      },
    )
    const { copied, copiedBytes: copied_bytes, found, removed, damaged, underWay: under_way } = report
    logger.info({ event: 'evidence_moved', copied, copied_bytes, found, removed, damaged: damaged.length, under_way })
    process.exitCode = damaged.length === 0 ? 0 : 1
  } finally {
    objects.close()
  }
} catch (error) {
  logger.error({ event: 'evidence_not_moved', err: error })
  process.exitCode = 1
}
