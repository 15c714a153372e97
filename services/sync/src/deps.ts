import { type Logger, type Registry, type Tracing, databaseUnavailable, observeDatabase } from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'
import {
  type IdempotencyStore,
  type TenantDb,
  openIdempotencyStore,
  openServers,
  openTenantDb,
  rejectOnOutage,
} from '@postern/tenant-db'
import type { Config } from './config.ts'
import { openOutbound } from './outbound/open-outbound.ts'
import type { Outbound } from './outbound/outbound.ts'
import { type Universe, openUniverse } from './push/universe.ts'
import { measureRuns } from './queue/metrics.ts'
import { type Queue, QueueNotStartedError, openQueue } from './queue/queue.ts'
import { correctAbandonedPushes } from './scim/correct-abandoned.ts'
import { type UrlOfPath, createLocate } from './scim/locate.ts'
import { measureEndedUsers } from './scim/metrics.ts'
import { runSchedule } from './schedule/due.ts'
import { sourceTypes } from './source/index.ts'
import { defaultLimits } from './source/limits.ts'
import type { SourceLimits, SourceType } from './source/types.ts'
import { deliver } from './webhooks/delivery/deliver.ts'
import { type Mailer, openMailer } from './webhooks/delivery/mail.ts'
import { measureWebhooks } from './webhooks/metrics.ts'
import { readFeed } from './webhooks/feed/read-feed.ts'
import { type WorkerParts, carryOut, endLostRun } from './worker/carry-out.ts'

export interface Deps {
  readonly db: TenantDb
  readonly answers: IdempotencyStore
  readonly universe: Universe
  readonly queue: Queue
  readonly sources: ReadonlyMap<string, SourceType>
  readonly outbound: Outbound
  readonly limits: SourceLimits
  readonly secretRing: KeyRing
  readonly now: () => Date
  readonly locate: UrlOfPath
  readonly mailer: Mailer | undefined
  readonly countEndedUser: () => void
  ready(): Promise<void>
  databaseId(): Promise<string | undefined>
  drain(): Promise<void>
  close(): Promise<void>
}

const now = (): Date => new Date()

/** Longer than PostgreSQL lets the statements of workers run (`allowLongStatements`). */
const workerQueryTimeoutMs = 130_000

/** Shared by all workers, which hold none while they wait for a receiver. */
const webhookConnections = 3

export async function openDeps(
  config: Config,
  {
    logger,
    metrics,
    tracing,
  }: { readonly logger: Logger; readonly metrics: Registry; readonly tracing: Tracing | undefined },
): Promise<Deps> {
  const db = openTenantDb({
    ...config.database,
    connectAttempts: 3,
    applicationName: 'postern-sync',
    observer: observeDatabase(metrics),
  })
  const workerDb = openTenantDb({
    ...config.database,
    maxConnections: Math.max(1, config.workers) * 2,
    queryTimeoutMs: workerQueryTimeoutMs,
    connectAttempts: 3,
    applicationName: 'postern-sync-worker',
    observer: observeDatabase(metrics, 'workers'),
  })
  const universe = openUniverse(config.universe)
  const answering = rejectOnOutage(db, databaseUnavailable)
  const outbound = openOutbound({ networks: config.networks })
  const { secretRing } = config
  const queue = openQueue({
    servers: openServers(config.database.connectionString),
    pollMs: config.queuePollMs,
    logger,
    tracing,
  })
  const runs = measureRuns(metrics, db)
  const parts: WorkerParts = {
    workerDb,
    universe,
    sources: sourceTypes,
    outbound,
    limits: defaultLimits,
    secretRing,
    logger,
    keepDetailsDays: config.keepDetailsDays,
    ended: runs.ended,
  }
  // Not awaited, because the queue may wait for the database.
  const working = queue.work(config.workers, {
    run: async (runId, attempt) => await carryOut(parts, runId, attempt),
    schedule: async (connectorId, due) => await runSchedule({ workerDb, queue, logger, now }, connectorId, due),
    lost: async (runId) => await endLostRun(parts, runId),
    scimCorrection: async (workId) => await correctAbandonedPushes({ db: workerDb, universe, queue, logger }, workId),
  })
  working.catch((error: unknown) => logger.error({ event: 'queue_not_worked', err: error }))
  const mailer = config.mail === undefined ? undefined : openMailer(config.mail)
  const webhookDb = openTenantDb({
    ...config.database,
    maxConnections: webhookConnections,
    connectAttempts: 3,
    applicationName: 'postern-sync-webhooks',
    observer: observeDatabase(metrics, 'webhooks'),
  })
  const webhooks = {
    db: webhookDb,
    outbound,
    universe,
    secretRing,
    mailer,
    apiUrl: config.apiUrl,
    logger,
    metrics: measureWebhooks(metrics),
  }
  const sending = queue.workWebhooks(config.webhookWorkers, {
    feed: async (workId) => await readFeed({ db: webhookDb, queue, logger }, workId),
    send: async (endpointId, signal) => await deliver(webhooks, endpointId, signal),
  })
  sending.catch((error: unknown) => logger.error({ event: 'queue_not_worked', err: error }))
  return {
    db: answering,
    answers: openIdempotencyStore(answering, 'sync'),
    universe,
    queue,
    sources: sourceTypes,
    outbound,
    limits: defaultLimits,
    secretRing,
    now,
    locate: createLocate(config.apiUrl),
    mailer,
    countEndedUser: measureEndedUsers(metrics),
    databaseId: async () => await db.databaseId(),
    // Lists of connectors do not need the universe.
    ready: async () => {
      if (!queue.isStarted()) throw new QueueNotStartedError()
      await db.ping('sync')
    },
    drain: async () => await queue.stopPolling(),
    close: async () => {
      await queue.close()
      await universe.close()
      await workerDb.close()
      await webhookDb.close()
      mailer?.close()
      await db.close()
    },
  }
}
