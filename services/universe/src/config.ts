import {
  type BaseConfig,
  type Environment,
  baseConfig,
  baseEnvironment,
  parseEnvironment,
  settings,
} from '@postern/service-kit'

export interface Config extends BaseConfig {
  /** Connection string of the role `postern_universe`. A secret: it holds the password. */
  readonly databaseUrl: string
  /** Connections to PostgreSQL that this process may hold. A request holds one for a round trip or two. Default 10. */
  readonly maxConnections: number
}

/** Reads the settings of the universe service. Throws a ConfigurationError that names every fault and no value. */
export function readConfig(env: Environment): Config {
  const values = parseEnvironment(env, {
    ...baseEnvironment,
    POSTERN_DATABASE_URL: settings.databaseUrl,
    POSTERN_DATABASE_CONNECTIONS: settings.integer({ min: 1, max: 200, fallback: 10 }),
    POSTERN_SIGNING_UNIVERSE: settings.keyRing,
    POSTERN_SIGNING_SYNC_UNIVERSE: settings.keyRing,
    POSTERN_SIGNING_EVIDENCE_UNIVERSE: settings.keyRing,
    POSTERN_SIGNING_FINDINGS_UNIVERSE: settings.keyRing,
  })
  return {
    ...baseConfig(values, {
      universe: values.POSTERN_SIGNING_UNIVERSE,
      'sync-universe': values.POSTERN_SIGNING_SYNC_UNIVERSE,
      'evidence-universe': values.POSTERN_SIGNING_EVIDENCE_UNIVERSE,
      'findings-universe': values.POSTERN_SIGNING_FINDINGS_UNIVERSE,
    }),
    databaseUrl: values.POSTERN_DATABASE_URL,
    maxConnections: values.POSTERN_DATABASE_CONNECTIONS,
  }
}
