import {
  type BaseConfig,
  type Environment,
  baseConfig,
  baseEnvironment,
  parseEnvironment,
  settings,
} from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'

export interface Config extends BaseConfig {
  /** Connection string of the role `postern_universe`. A secret: it holds the password. */
  readonly databaseUrl: string
  /** Connections to PostgreSQL that this process may hold. A request holds one for a round trip or two. Default 10. */
  readonly maxConnections: number
  readonly findings: {
    /** Origin of the findings service, without a slash at the end. */
    readonly url: string
    /** Signs what this service sends there; no other service has it. */
    readonly ring: KeyRing
    /** How long the findings service may take to answer. Milliseconds, default 3 s. */
    readonly timeoutMs: number
  }
}

export const environment = {
  ...baseEnvironment,
  POSTERN_DATABASE_URL: settings.databaseUrl.describe(
    'The connection string of the role `postern_universe`. A secret.',
  ),
  POSTERN_DATABASE_CONNECTIONS: settings
    .integer({ min: 1, max: 200, fallback: 10 })
    .describe('Connections to PostgreSQL. One tenant gets at most three quarters.'),
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

/** Reads the settings of the universe service. Throws a ConfigurationError that names every fault and no value. */
export function readConfig(env: Environment): Config {
  const values = parseEnvironment(env, environment)
  return {
    ...baseConfig(values, {
      universe: values.POSTERN_SIGNING_UNIVERSE,
      'sync-universe': values.POSTERN_SIGNING_SYNC_UNIVERSE,
      'evidence-universe': values.POSTERN_SIGNING_EVIDENCE_UNIVERSE,
      'findings-universe': values.POSTERN_SIGNING_FINDINGS_UNIVERSE,
    }),
    databaseUrl: values.POSTERN_DATABASE_URL,
    maxConnections: values.POSTERN_DATABASE_CONNECTIONS,
    findings: {
      url: values.POSTERN_FINDINGS_URL,
      ring: values.POSTERN_SIGNING_UNIVERSE_FINDINGS,
      timeoutMs: values.POSTERN_FINDINGS_TIMEOUT_MS,
    },
  }
}
