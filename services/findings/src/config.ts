import type { KeyObject } from 'node:crypto'
import {
  type BaseConfig,
  type Environment,
  baseConfig,
  baseEnvironment,
  parseEnvironment,
  settings,
} from '@postern/service-kit'

export interface Config extends BaseConfig {
  /** Connection string of the role `postern_findings`. A secret: it holds the password. */
  readonly databaseUrl: string
  /** Connections to PostgreSQL that this process may hold. A request holds one for a round trip or two. Default 10. */
  readonly maxConnections: number
  /** Signs checkpoints of the tracker log (Ed25519). */
  readonly checkpointKey: KeyObject
  /** The key before: no longer signs, still published, so that checkpoints of before the change can be checked. */
  readonly previousCheckpointKey: KeyObject | undefined
}

/** Reads the settings of the findings service. Throws a ConfigurationError that names every fault and no value. */
export function readConfig(env: Environment): Config {
  const values = parseEnvironment(env, {
    ...baseEnvironment,
    POSTERN_DATABASE_URL: settings.databaseUrl,
    POSTERN_DATABASE_CONNECTIONS: settings.integer({ min: 1, max: 200, fallback: 10 }),
    POSTERN_SIGNING_FINDINGS: settings.keyRing,
    POSTERN_CHECKPOINT_KEY: settings.ed25519Key,
    POSTERN_CHECKPOINT_PREVIOUS_KEY: settings.ed25519Key.optional(),
  })
  return {
    ...baseConfig(values, { findings: values.POSTERN_SIGNING_FINDINGS }),
    databaseUrl: values.POSTERN_DATABASE_URL,
    maxConnections: values.POSTERN_DATABASE_CONNECTIONS,
    checkpointKey: values.POSTERN_CHECKPOINT_KEY,
    previousCheckpointKey: values.POSTERN_CHECKPOINT_PREVIOUS_KEY,
  }
}
