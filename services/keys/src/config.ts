import {
  type BaseConfig,
  type DatabaseConfig,
  type Environment,
  baseConfig,
  baseEnvironment,
  databaseConfig,
  databaseEnvironment,
  parseEnvironment,
  settings,
} from '@postern/service-kit'
import type { KeyCacheOptions } from './key-cache.ts'
import { type GithubKeys, githubKeysSchema } from './leak/github-keys.ts'

export interface Config extends BaseConfig {
  readonly database: DatabaseConfig
  /** Without Redis, leases carry revocations within half a second. */
  readonly cache: KeyCacheOptions | undefined
  /** They verify reports of GitHub's secret scanning. Without them, reports get 404. */
  readonly githubKeys: GithubKeys | undefined
}

export const environment = {
  ...baseEnvironment,
  ...databaseEnvironment,
  POSTERN_DATABASE_URL: settings.databaseUrl.describe('The connection string of the role `postern_keys`. A secret.'),
  POSTERN_DATABASE_CONNECTIONS: settings
    .integer({ min: 2, max: 200, fallback: 10 })
    .describe('Connections to PostgreSQL. One tenant gets at most three quarters.'),
  POSTERN_REDIS_URL: settings.redisUrl
    .optional()
    .describe(
      'The Redis server, Sentinels or cluster, with the login of the keys service. Without Redis, leases carry revocations within half a second. A secret.',
    ),
  POSTERN_CACHE_SIGNING_KEYS: settings.keyRing.describe('Signs key records and announcements in Redis. A secret.'),
  POSTERN_SIGNING_KEYS: settings.keyRing.describe('Verifies requests of the gateway. A secret.'),
  POSTERN_SIGNING_OPERATOR: settings.keyRing.describe(
    'Verifies requests of operators, and derives their credentials. A secret.',
  ),
  POSTERN_REVOKED_OPERATORS: settings.operatorNames.describe(
    'Names of operators whose credentials are rejected, separated by commas.',
  ),
  POSTERN_INTERNAL_SIGNING_KEYS: settings.keyRing.describe(
    'Verifies look-ups, leases and reports of gateways. A secret.',
  ),
  POSTERN_GITHUB_SCANNING_KEYS: githubKeysSchema
    .optional()
    .describe(
      'Public keys of GitHub, which verify reports of its secret scanning: the JSON of `https://api.github.com/meta/public_keys/secret_scanning`, usually a file, named by `POSTERN_GITHUB_SCANNING_KEYS_FILE`. Without it, reports get 404.',
    ),
} as const

/** Throws an error that lists every invalid setting, without values. */
export function readConfig(env: Environment): Config {
  const values = parseEnvironment(env, environment)
  return Object.freeze({
    ...baseConfig(
      values,
      {
        keys: values.POSTERN_SIGNING_KEYS,
        operator: values.POSTERN_SIGNING_OPERATOR,
        internal: values.POSTERN_INTERNAL_SIGNING_KEYS,
      },
      values.POSTERN_REVOKED_OPERATORS,
    ),
    database: databaseConfig(values),
    githubKeys: values.POSTERN_GITHUB_SCANNING_KEYS,
    cache:
      values.POSTERN_REDIS_URL === undefined
        ? undefined
        : { url: values.POSTERN_REDIS_URL, mac: values.POSTERN_CACHE_SIGNING_KEYS },
  })
}
