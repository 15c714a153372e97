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

export const environment = {
  ...baseEnvironment,
  POSTERN_DATABASE_URL: settings.databaseUrl.describe('The connection string of the role `postern_keys`. A secret.'),
  POSTERN_DATABASE_CONNECTIONS: settings
    .integer({ min: 2, max: 200, fallback: 10 })
    .describe('Connections to PostgreSQL. One tenant gets at most three quarters.'),
  POSTERN_REDIS_URL: settings.redisUrl
    .optional()
    .describe(
      'The Redis server, Sentinels or cluster, with the login of the keys service. Without it only leases carry revocations, within half a second. A secret.',
    ),
  POSTERN_CACHE_MAC: settings.keyRing.describe('Signs key records and announcements in Redis. A secret.'),
  POSTERN_SIGNING_KEYS: settings.keyRing.describe('Verifies requests of the gateway. A secret.'),
  POSTERN_SIGNING_OPERATOR: settings.keyRing.describe(
    'Verifies requests of operators, and derives their credentials. A secret.',
  ),
  POSTERN_REVOKED_OPERATORS: settings.operatorNames.describe(
    'Names of operators whose credentials are rejected, separated by commas.',
  ),
  POSTERN_INTERNAL: settings.keyRing.describe('Verifies look-ups, leases and reports of gateways. A secret.'),
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
