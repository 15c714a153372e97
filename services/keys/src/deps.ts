import { type BaseDeps, type Logger, type Registry, observeDatabase } from '@postern/service-kit'
import { type IdempotencyStore, type TenantDb, openIdempotencyStore, openTenantDb } from '@postern/tenant-db'
import type { Config } from './config.ts'
import { mapDatabaseErrors } from './database-errors.ts'
import { startHousekeeping } from './housekeeping.ts'
import type { GithubKeys } from './leak/github-keys.ts'
import { type LeakReports, openLeakReports } from './leak/reports.ts'
import { type KeyCache, noCache, openKeyCache } from './key-cache.ts'
import { type Announcer, openAnnouncer } from './revocation/announce.ts'
import { type LeaseWatch, openLeaseWatch } from './revocation/lease-watch.ts'
import { type Enforcer, openEnforcer } from './revocation/revoke.ts'

export interface Deps extends BaseDeps {
  readonly db: TenantDb
  readonly answers: IdempotencyStore
  readonly cache: KeyCache
  readonly leaseWatch: LeaseWatch
  readonly announcer: Announcer
  readonly enforcer: Enforcer
  readonly leaks: LeakReports
  readonly githubKeys: GithubKeys | undefined
}

/** Does not wait for PostgreSQL or Redis. */
export async function openDeps(config: Config, base: { logger: Logger; metrics: Registry }): Promise<Deps> {
  const db = mapDatabaseErrors(
    openTenantDb({
      ...config.database,
      applicationName: 'postern-keys',
      observer: observeDatabase(base.metrics),
    }),
  )
  const cache = config.cache === undefined ? noCache : openKeyCache(config.cache, base)
  const leaseWatch = openLeaseWatch({ db })
  const announcer = openAnnouncer({ db, cache, ...base })
  const enforcer = openEnforcer({ db, announcer, leaseWatch, ...base })
  const leaks = openLeakReports({ db, enforcer, logger: base.logger })
  const housekeeping = startHousekeeping({ db, enforcer, leaks, ...base })
  return {
    db,
    answers: openIdempotencyStore(db, 'keys'),
    cache,
    leaseWatch,
    announcer,
    enforcer,
    leaks,
    githubKeys: config.githubKeys,
    ready: async () => await db.ping('keys'),
    degraded: () => (cache.isHealthy() ? [] : ['redis_cache']),
    databaseId: async () => await db.databaseId(),
    close: async () => {
      await housekeeping.stop()
      await leaks.close()
      await leaseWatch.close()
      await announcer.close()
      await cache.close()
      await db.close()
    },
  }
}
