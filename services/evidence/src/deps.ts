import { type Logger, type Registry, databaseUnavailable, observeDatabase, problem } from '@postern/service-kit'
import { Counter } from '@prometheus-io/client'
import {
  type IdempotencyStore,
  type TenantDb,
  withRejectionsAsOutage,
  withNumberSeries,
  openIdempotencyStore,
  openTenantDb,
  rejectOnOutage,
  sqlError,
} from '@postern/tenant-db'
import type { BlobStore } from './blob/blob-store.ts'
import { openStores } from './blob/open-stores.ts'
import { reportFailures } from './blob/report-failures.ts'
import { storeFullProblem } from './blob/store-full.ts'
import type { PartialStore } from './blob/partial-store.ts'
import type { Config } from './config.ts'
import { type ReceiptSigner, openReceiptSigner } from './receipt/sign.ts'
import { openClamav } from './scan/clamav.ts'
import { type Scanner, noScanner } from './scan/scanner.ts'
import { watchStore } from './store-readiness.ts'
import { sweepRegularly } from './sweep/sweep.ts'
import { type Universe, openUniverse } from './test-procedure/universe.ts'
import { type BackgroundCleanup, openBackgroundCleanup } from './upload/background-cleanup.ts'
import { recordFailure } from './upload/store.ts'

export interface Deps {
  readonly db: TenantDb
  /** The same database for requests without an upload: an outage is a problem. */
  readonly requestDb: TenantDb
  readonly answers: IdempotencyStore
  readonly blobs: BlobStore
  readonly partials: PartialStore
  readonly receipts: ReceiptSigner
  readonly scanner: Scanner
  readonly universe: Universe
  readonly cleanup: BackgroundCleanup
  readonly now: () => number
  readonly countDamaged: () => void
  ready(): Promise<void>
  databaseId(): Promise<string | undefined>
  close(): Promise<void>
}

export async function openDeps(
  config: Config,
  { logger, metrics }: { readonly logger: Logger; readonly metrics: Registry },
): Promise<Deps> {
  const now = Date.now
  const opened = await openStores(config.store)
  const storeWatch = await watchStore(opened.blobs, { metrics, logger })
  const stores = reportFailures(opened, storeWatch.recordFailure)
  const { blobs, partials } = stores
  const receipts = await openReceiptSigner(config.receiptKeys)
  const pooled = openTenantDb({
    ...config.database,
    connectAttempts: 5,
    applicationName: 'postern-evidence',
    observer: observeDatabase(metrics),
  })
  const db = withNumberSeries(withRejectionsAsOutage(pooled, now))
  const universe = openUniverse(config.universe)
  const damaged = new Counter({
    name: 'postern_evidence_damaged_total',
    help: 'Downloads of files whose stored bytes were missing or differed from the receipt',
    registers: [metrics],
  })
  const cleanup = openBackgroundCleanup(logger)
  const sweep = await sweepRegularly({ db, blobs, partials }, config, { logger, now })
  return {
    db,
    requestDb: rejectOnOutage(db, databaseUnavailable),
    answers: openIdempotencyStore(
      { write: async (tenant, fn) => await db.write(tenant, fn).catch(rethrowAsProblem) },
      'evidence',
    ),
    blobs,
    partials,
    receipts,
    scanner: config.clamav === undefined ? noScanner : openClamav(config.clamav),
    universe,
    cleanup,
    now,
    countDamaged: () => damaged.inc(),
    databaseId: async () => await db.databaseId(),
    ready: async () => {
      await Promise.all([db.ping('evidence'), storeWatch.ready()])
    },
    close: async () => {
      storeWatch.close()
      await sweep.stop()
      await cleanup.close()
      await universe.close()
      await db.close()
      stores.close()
    },
  }
}

function rethrowAsProblem(error: unknown): never {
  const { kind } = sqlError(error)
  if (recordFailure(error) === 'storage_full') throw storeFullProblem(error)
  if (kind === 'unavailable' || kind === 'timeout' || kind === 'serialization') {
    throw problem('service_unavailable', { detail: 'Try again in a moment.', retryAfterSeconds: 5, cause: error })
  }
  throw error
}
