import { problem } from '@postern/service-kit'
import { type AnswerMemory, type TenantDb, openAnswerMemory, openTenantDb, sqlError } from '@postern/tenant-db'
import type { Config } from './config.ts'
import { type Universe, openUniverse } from './push/universe.ts'

export interface Deps {
  readonly db: TenantDb
  readonly answers: AnswerMemory
  readonly universe: Universe
  ready(): Promise<void>
  close(): Promise<void>
}

/** Opens the database and the connections to the universe service. */
export async function openDeps(config: Config): Promise<Deps> {
  const db = openTenantDb({
    connectionString: config.databaseUrl,
    maxConnections: config.maxConnections,
    connectTimeoutMs: 2_000,
    queryTimeoutMs: 6_000,
    applicationName: 'postern-sync',
  })
  const universe = openUniverse(config.universe, Date.now)
  const answering = sayingWhenUnavailable(db)
  return {
    db: answering,
    answers: openAnswerMemory(answering, 'sync'),
    universe,
    // Lists of connectors need no universe, and a push says for itself that it is away.
    ready: async () => await db.ping(),
    close: async () => {
      await universe.close()
      await db.close()
    },
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
