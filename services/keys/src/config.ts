import {
  type BaseConfig,
  type Environment,
  baseConfig,
  baseEnvironment,
  parseEnvironment,
  settings,
} from '@postern/service-kit'
import type { KeyCacheOptions } from './key-cache.ts'

/** How the keys service is set up. */
export interface Config extends BaseConfig {
  readonly database: {
    /** Connection string of the role `postern_keys`. A secret. */
    readonly url: string
    /** Connections of this replica at most. Default 10: a revoke, a lease and a look-up each hold one for some milliseconds. */
    readonly maxConnections: number
  }
  /** Redis and the secrets of what lies there; undefined without Redis: then leases alone carry revocations, within half a second. */
  readonly cache: KeyCacheOptions | undefined
}

const environment = {
  ...baseEnvironment,
  POSTERN_DATABASE_URL: settings.databaseUrl,
  POSTERN_DATABASE_CONNECTIONS: settings.integer({ min: 2, max: 200, fallback: 10 }),
  POSTERN_REDIS_URL: settings.redisUrl.optional(),
  POSTERN_CACHE_MAC: settings.keyRing,
  POSTERN_SIGNING_KEYS: settings.keyRing,
  POSTERN_SIGNING_OPERATOR: settings.keyRing,
  POSTERN_REVOKED_OPERATORS: settings.operatorNames,
  POSTERN_INTERNAL: settings.keyRing,
} as const

/** Reads the configuration; throws with all faults at once and no value. */
export function readConfig(env: Environment): Config {
  const values = parseEnvironment(env, environment)
  return Object.freeze({
    ...baseConfig(
      values,
      {
        keys: values.POSTERN_SIGNING_KEYS,
        operator: values.POSTERN_SIGNING_OPERATOR,
        internal: values.POSTERN_INTERNAL,
      },
      values.POSTERN_REVOKED_OPERATORS,
    ),
    database: { url: values.POSTERN_DATABASE_URL, maxConnections: values.POSTERN_DATABASE_CONNECTIONS },
    cache:
      values.POSTERN_REDIS_URL === undefined
        ? undefined
        : { url: values.POSTERN_REDIS_URL, mac: values.POSTERN_CACHE_MAC },
  })
}
