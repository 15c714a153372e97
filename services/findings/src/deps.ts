import { type Logger, type Registry, databaseUnavailable, observeDatabase } from '@postern/service-kit'
import {
  type IdempotencyStore,
  type TenantDb,
  openIdempotencyStore,
  openTenantDb,
  rejectOnOutage,
} from '@postern/tenant-db'
import type { Config } from './config.ts'
import { type Evidence, openEvidence } from './evidence/evidence.ts'
import { type Universe, openUniverse } from './universe/universe.ts'
import { createBadEndReporter } from './tracker-log/report-bad-end.ts'
import { watchOverdue } from './overdue/watch.ts'
import { type LogSealer, openLogSealer } from './tracker-log/sealer.ts'
import { type CheckpointSigner, openCheckpointSigner } from './tracker-log/sign.ts'

export interface Deps {
  readonly db: TenantDb
  readonly answers: IdempotencyStore
  /** For reads; writes use the database's clock. */
  readonly now: () => Date
  readonly checkpoints: CheckpointSigner
  readonly sealer: LogSealer
  readonly logger: Logger
  readonly universe: Universe
  readonly evidence: Evidence
  ready(): Promise<void>
  databaseId(): Promise<string | undefined>
  close(): Promise<void>
}

export async function openDeps(
  config: Config,
  { logger, metrics }: { readonly logger: Logger; readonly metrics: Registry },
): Promise<Deps> {
  const db = openTenantDb({
    ...config.database,
    connectAttempts: 5,
    applicationName: 'postern-findings',
    observer: observeDatabase(metrics),
  })
  const requestDb = rejectOnOutage(db, databaseUnavailable)
  const checkpoints = await openCheckpointSigner(config.checkpointKeys, createBadEndReporter({ logger, metrics }))
  const sealer = openLogSealer({ db: requestDb, checkpoints, logger, metrics })
  const universe = openUniverse(config.universe)
  const evidence = openEvidence(config.evidence)
  const overdue = watchOverdue({ db, logger })
  return {
    db: requestDb,
    answers: openIdempotencyStore(requestDb, 'findings'),
    now: () => new Date(),
    logger,
    universe,
    evidence,
    checkpoints,
    sealer,
    ready: async () => await db.ping('findings'),
    databaseId: async () => await db.databaseId(),
    close: async () => {
      await overdue.stop()
      await sealer.close()
      await Promise.all([universe.close(), evidence.close()])
      await db.close()
    },
  }
}
