import {
  type BaseConfig,
  type Environment,
  type SigningKeys,
  baseConfig,
  baseEnvironment,
  parseEnvironment,
  settings,
} from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'

export interface Config extends BaseConfig {
  /** Connection string of the role `postern_findings`. A secret: it holds the password. */
  readonly databaseUrl: string
  /**
   * Connections to PostgreSQL that this process may hold. A request holds one for a round trip or two; with a distant synchronous
   * standby, a write holds it for as long as its commit waits. One tenant gets three quarters. Default 24.
   */
  readonly maxConnections: number
  readonly universe: {
    /** Origin of the universe service, without a slash at the end. */
    readonly url: string
    /** Signs what this service sends there; no other service has it. */
    readonly ring: KeyRing
    /** How long the universe may take to answer. Milliseconds, default 3 s. */
    readonly timeoutMs: number
  }
  readonly evidence: {
    /** Origin of the evidence service, without a slash at the end. */
    readonly url: string
    /** Signs what this service sends there; no other service has it. */
    readonly ring: KeyRing
    /** How long the evidence service may take to answer. Milliseconds, default 3 s. */
    readonly timeoutMs: number
  }
  /** Ed25519. The first signs checkpoints of the tracker log; the others are published, so that checkpoints of theirs can be checked. */
  readonly checkpointKeys: SigningKeys
}

/** Reads the settings of the findings service. Throws a ConfigurationError that names every fault and no value. */
export function readConfig(env: Environment): Config {
  const values = parseEnvironment(env, {
    ...baseEnvironment,
    POSTERN_DATABASE_URL: settings.databaseUrl,
    POSTERN_DATABASE_CONNECTIONS: settings.integer({ min: 1, max: 200, fallback: 24 }),
    POSTERN_SIGNING_FINDINGS: settings.keyRing,
    POSTERN_SIGNING_FINDINGS_UNIVERSE: settings.keyRing,
    POSTERN_SIGNING_FINDINGS_EVIDENCE: settings.keyRing,
    POSTERN_SIGNING_UNIVERSE_FINDINGS: settings.keyRing,
    POSTERN_UNIVERSE_URL: settings.httpUrl,
    POSTERN_UNIVERSE_TIMEOUT_MS: settings.integer({ min: 100, max: 60_000, fallback: 3_000 }),
    POSTERN_EVIDENCE_URL: settings.httpUrl,
    POSTERN_EVIDENCE_TIMEOUT_MS: settings.integer({ min: 100, max: 60_000, fallback: 3_000 }),
    POSTERN_CHECKPOINT_KEY: settings.ed25519Keys,
    POSTERN_CHECKPOINT_PREVIOUS_KEY: settings.ed25519Keys.optional(),
  })
  return {
    ...baseConfig(values, {
      findings: values.POSTERN_SIGNING_FINDINGS,
      'universe-findings': values.POSTERN_SIGNING_UNIVERSE_FINDINGS,
    }),
    databaseUrl: values.POSTERN_DATABASE_URL,
    maxConnections: values.POSTERN_DATABASE_CONNECTIONS,
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
