import { problem } from '@postern/service-kit'
import { type AnswerMemory, type TenantDb, openAnswerMemory, openTenantDb, sqlError } from '@postern/tenant-db'
import type { Config } from './config.ts'
import { type CheckpointSigner, openCheckpointSigner } from './tracker-log/sign.ts'

/** What the routes of the findings service stand on. */
export interface Deps {
  readonly db: TenantDb
  readonly answers: AnswerMemory
  /** The day of a reading comes from it; what is written takes the database's clock. */
  readonly now: () => Date
  /** Signs the ends of tracker logs. */
  readonly checkpoints: CheckpointSigner
  ready(): Promise<void>
  close(): Promise<void>
}

/** Opens the database pool; no connection is made before the first request. */
export async function openDeps(config: Config): Promise<Deps> {
  const db = openTenantDb({
    connectionString: config.databaseUrl,
    maxConnections: config.maxConnections,
    connectTimeoutMs: 2_000,
    queryTimeoutMs: 6_000,
    applicationName: 'postern-findings',
  })
  const answering = sayingWhenUnavailable(db)
  return {
    db: answering,
    answers: openAnswerMemory(answering, 'findings'),
    now: () => new Date(),
    checkpoints: await openCheckpointSigner(config.checkpointKey, config.previousCheckpointKey),
    ready: async () => await db.ping(),
    close: async () => await db.close(),
  }
}

/** The same database, whose outages and overload reach the caller as 503: try again, rather than 500: tell us. */
function sayingWhenUnavailable(db: TenantDb): TenantDb {
  return {
    ...db,
    read: async (tenant, fn) => await db.read(tenant, fn).catch(rethrow),
    write: async (tenant, fn) => await db.write(tenant, fn).catch(rethrow),
  }
}

function rethrow(error: unknown): never {
  const { kind } = sqlError(error)
  if (kind === 'unavailable' || kind === 'timeout' || kind === 'serialization') {
    throw problem('service_unavailable', { detail: 'Try again in a moment.', retryAfterSeconds: 1, cause: error })
  }
  throw error
}
