import { EventEmitter } from 'node:events'
import type { Logger } from '@postern/service-kit'
import type { GatewayConfig } from '../config.ts'
import type { GatewayMetrics } from '../metrics.ts'
import { type Clocks, type DatabaseClock, createDatabaseClock } from './clocks.ts'
import { type KeyLookup, createKeyLookup } from './key-lookup.ts'
import { type KeysClient, openKeysClient } from './keys-client.ts'
import { type Lease, createLease, systemTimers } from './lease.ts'
import { type PersonLookup, createPersonLookup } from './person-lookup.ts'
import { type RedisCache, openRedisCache } from './redis-cache.ts'
import { type RevocationWatermarks, createRevocationWatermarks } from './revocation-watermarks.ts'
import { type TenantLookup, createTenantLookup } from './tenant-lookup.ts'

/** What the gateway knows about callers, and whether it may still use it (README.md). */
export interface Lookups {
  readonly keysClient: KeysClient
  readonly redis: RedisCache
  readonly databaseClock: DatabaseClock
  readonly watermarks: RevocationWatermarks
  readonly lease: Lease
  readonly keys: KeyLookup
  readonly tenants: TenantLookup
  readonly people: PersonLookup
  /** `change`: a revocation was applied. `reset`: all cached records were deleted. */
  readonly events: EventEmitter<{ change: []; reset: [] }>
}

/** Opens connections to Redis and the keys service. Start the lease after adding all listeners. */
export function openLookups(parts: {
  readonly gateway: string
  readonly config: GatewayConfig
  readonly clocks: Clocks
  readonly metrics: Pick<GatewayMetrics, 'cacheRefused' | 'logReset' | 'lookup'>
  /** Whether uses of keys could not be reported for long. */
  readonly usageIsLate: () => boolean
  readonly logger: Logger
}): Lookups {
  const { gateway, config, clocks, metrics, usageIsLate, logger } = parts
  const timers = systemTimers
  const events: Lookups['events'] = new EventEmitter()
  const keysClient = openKeysClient({ url: config.upstreams.keys.url, ring: config.internalRing, gateway, clocks })
  const redis = openRedisCache({
    url: config.redisUrl,
    ring: config.cacheRing,
    logger,
    onRefused: (what) => metrics.cacheRefused(what),
  })
  const databaseClock = createDatabaseClock(clocks, () => {
    logger.warn({ event: 'database_clock_set_back' })
    events.emit('reset')
  })
  const watermarks = createRevocationWatermarks(clocks, databaseClock, () => events.emit('change'))
  const lease = createLease({
    gateway,
    name: config.name,
    clocks,
    timers,
    watermarks,
    databaseClock,
    renew: keysClient.renewLease,
    usageIsLate,
    onReset: () => {
      metrics.logReset()
      events.emit('reset')
    },
    logger,
  })
  const shared = { lease, watermarks, clocks, timers, databaseClock, keys: keysClient }
  const keys = createKeyLookup({ ...shared, redis, maxEntries: config.memoryEntries, count: metrics.lookup })
  const tenants = createTenantLookup(shared)
  const people = createPersonLookup(shared)
  events.on('reset', () => {
    keys.clear()
    tenants.clear()
    people.clear()
  })
  redis.onRevocation(lease.receive)
  return { keysClient, redis, databaseClock, watermarks, lease, keys, tenants, people, events }
}
