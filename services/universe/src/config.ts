import type { ServiceAddress } from '@postern/service-client'
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

export interface Config extends BaseConfig {
  readonly database: DatabaseConfig
  readonly findings: ServiceAddress
}

export const environment = {
  ...baseEnvironment,
  ...databaseEnvironment,
  POSTERN_DATABASE_URL: settings.databaseUrl.describe(
    'The connection string of the role `postern_universe`. A secret.',
  ),
  POSTERN_DATABASE_CONNECTIONS: settings
    .integer({ min: 1, max: 200, fallback: 10 })
    .describe('Connections to PostgreSQL, beside four for imports. One tenant gets at most three quarters.'),
  POSTERN_SIGNING_UNIVERSE: settings.keyRing.describe('Verifies requests of the gateway. A secret.'),
  POSTERN_SIGNING_SYNC_UNIVERSE: settings.keyRing.describe('Verifies requests of the sync service. A secret.'),
  POSTERN_SIGNING_EVIDENCE_UNIVERSE: settings.keyRing.describe('Verifies requests of the evidence service. A secret.'),
  POSTERN_SIGNING_FINDINGS_UNIVERSE: settings.keyRing.describe('Verifies requests of the findings service. A secret.'),
  POSTERN_SIGNING_UNIVERSE_FINDINGS: settings.keyRing.describe('Signs requests to the findings service. A secret.'),
  POSTERN_FINDINGS_URL: settings.httpUrl.describe('Where the findings service listens.'),
  POSTERN_FINDINGS_TIMEOUT_MS: settings
    .integer({ min: 100, max: 60_000, fallback: 3_000 })
    .describe('How long the findings service may take to answer, in milliseconds.'),
} as const

/** Throws a ConfigurationError that names every fault, without values. */
export function readConfig(env: Environment): Config {
  const values = parseEnvironment(env, environment)
  return {
    ...baseConfig(values, {
      universe: values.POSTERN_SIGNING_UNIVERSE,
      'sync-universe': values.POSTERN_SIGNING_SYNC_UNIVERSE,
      'evidence-universe': values.POSTERN_SIGNING_EVIDENCE_UNIVERSE,
      'findings-universe': values.POSTERN_SIGNING_FINDINGS_UNIVERSE,
    }),
    database: databaseConfig(values),
    findings: {
      url: values.POSTERN_FINDINGS_URL,
      ring: values.POSTERN_SIGNING_UNIVERSE_FINDINGS,
      timeoutMs: values.POSTERN_FINDINGS_TIMEOUT_MS,
    },
  }
}
