import type { ServiceAddress } from '@postern/service-client'
import {
  type BaseConfig,
  type DatabaseConfig,
  type Environment,
  type SigningKeys,
  baseConfig,
  baseEnvironment,
  databaseConfig,
  databaseEnvironment,
  parseEnvironment,
  settings,
} from '@postern/service-kit'

export interface Config extends BaseConfig {
  readonly database: DatabaseConfig
  readonly universe: ServiceAddress
  readonly evidence: ServiceAddress
  readonly checkpointKeys: SigningKeys
}

export const environment = {
  ...baseEnvironment,
  ...databaseEnvironment,
  POSTERN_DATABASE_URL: settings.databaseUrl.describe(
    'The connection string of the role `postern_findings`. A secret.',
  ),
  POSTERN_DATABASE_CONNECTIONS: settings
    .integer({ min: 1, max: 200, fallback: 24 })
    .describe(
      'Connections to PostgreSQL. One tenant gets at most three quarters. With a synchronous standby, a write uses one until its commit returns.',
    ),
  POSTERN_SIGNING_FINDINGS: settings.keyRing.describe('Verifies requests of the gateway. A secret.'),
  POSTERN_SIGNING_FINDINGS_UNIVERSE: settings.keyRing.describe('Signs requests to the universe service. A secret.'),
  POSTERN_SIGNING_FINDINGS_EVIDENCE: settings.keyRing.describe('Signs requests to the evidence service. A secret.'),
  POSTERN_SIGNING_UNIVERSE_FINDINGS: settings.keyRing.describe('Verifies requests of the universe service. A secret.'),
  POSTERN_UNIVERSE_URL: settings.httpUrl.describe('Where the universe service listens.'),
  POSTERN_UNIVERSE_TIMEOUT_MS: settings
    .integer({ min: 100, max: 60_000, fallback: 3_000 })
    .describe('How long the universe service may take to answer, in milliseconds.'),
  POSTERN_EVIDENCE_URL: settings.httpUrl.describe('Where the evidence service listens.'),
  POSTERN_EVIDENCE_TIMEOUT_MS: settings
    .integer({ min: 100, max: 60_000, fallback: 3_000 })
    .describe('How long the evidence service may take to answer, in milliseconds.'),
  POSTERN_CHECKPOINT_KEY: settings.ed25519Keys.describe(
    'Ed25519 private keys (PEM). The first signs checkpoints of the remediation log; all are published. A secret.',
  ),
  POSTERN_CHECKPOINT_PREVIOUS_KEY: settings.ed25519Keys
    .optional()
    .describe('Earlier private keys, published so that their checkpoints can be verified. A secret.'),
} as const

/** Throws a ConfigurationError that names every error but no value. */
export function readConfig(env: Environment): Config {
  const values = parseEnvironment(env, environment)
  return {
    ...baseConfig(values, {
      findings: values.POSTERN_SIGNING_FINDINGS,
      'universe-findings': values.POSTERN_SIGNING_UNIVERSE_FINDINGS,
    }),
    database: databaseConfig(values),
    universe: {
      url: values.POSTERN_UNIVERSE_URL,
      ring: values.POSTERN_SIGNING_FINDINGS_UNIVERSE,
      timeoutMs: values.POSTERN_UNIVERSE_TIMEOUT_MS,
    },
    evidence: {
      url: values.POSTERN_EVIDENCE_URL,
      ring: values.POSTERN_SIGNING_FINDINGS_EVIDENCE,
      timeoutMs: values.POSTERN_EVIDENCE_TIMEOUT_MS,
    },
    checkpointKeys: [...values.POSTERN_CHECKPOINT_KEY, ...(values.POSTERN_CHECKPOINT_PREVIOUS_KEY ?? [])],
  }
}
