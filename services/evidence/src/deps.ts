import type { Logger } from '@postern/service-kit'
import { type TenantDb, openTenantDb } from '@postern/tenant-db'
import { type BlobStore, openBlobStore } from './blob/blob-store.ts'
import { sweepRegularly } from './blob/sweep.ts'
import type { Config } from './config.ts'
import { type ReceiptSigner, openReceiptSigner } from './receipt/sign.ts'

export interface Deps {
  readonly db: TenantDb
  readonly blobs: BlobStore
  readonly receipts: ReceiptSigner
  readonly now: () => number
  ready(): Promise<void>
  close(): Promise<void>
}

/** Opens the blob directory, the receipt keys and the database; sweeps what uploads of before have left behind. */
export async function openDeps(config: Config, { logger }: { readonly logger: Logger }): Promise<Deps> {
  const now = Date.now
  const blobs = await openBlobStore(config.blobDirectory)
  const receipts = await openReceiptSigner(config.receiptKey, config.previousReceiptKey)
  const db = openTenantDb({
    connectionString: config.databaseUrl,
    maxConnections: config.maxConnections,
    connectTimeoutMs: 2_000,
    queryTimeoutMs: 5_000,
    applicationName: 'postern-evidence',
  })
  const sweep = await sweepRegularly(blobs, config, { logger, now })
  return {
    db,
    blobs,
    receipts,
    now,
    ready: async () => {
      await Promise.all([db.ping(), blobs.assertWritable()])
    },
    close: async () => {
      await sweep.stop()
      await db.close()
    },
  }
}
