import { databaseAway } from '@postern/service-kit'
import { type AnswerMemory, type TenantDb, openAnswerMemory, openTenantDb, refusingWhenAway } from '@postern/tenant-db'
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
  const answering = refusingWhenAway(db, databaseAway)
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
