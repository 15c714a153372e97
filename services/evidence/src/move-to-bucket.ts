import { createLogger } from '@postern/service-kit'
import { moveToBucket } from './blob/move.ts'
import { openBucketStores } from './blob/open-stores.ts'
import { readMoveConfig } from './move-config.ts'

const logger = createLogger({ service: 'evidence-move', level: 'info' })
const end = new AbortController()
process.once('SIGTERM', () => end.abort())
process.once('SIGINT', () => end.abort())
try {
  const { directory, bucket } = readMoveConfig(process.env)
  const stores = await openBucketStores(bucket)
  try {
    await stores.objects.check()
    const report = await moveToBucket(directory, stores, {
      signal: end.signal,
      say: (event) => logger.info(event),
    })
    const { copied, copiedBytes: copied_bytes, found, pieces, damaged } = report
    logger.info({ event: 'evidence_moved', copied, copied_bytes, found, pieces, damaged: damaged.length })
    process.exitCode = damaged.length === 0 ? 0 : 1
  } finally {
    stores.close()
  }
} catch (error) {
  logger.error({ event: 'evidence_not_moved', err: error })
  process.exitCode = 1
}
