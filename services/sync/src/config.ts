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
  readonly databaseUrl: string
  /** Connections to PostgreSQL that this process may hold. None is held while the universe is waited for. Default 10. */
  readonly maxConnections: number
  readonly universe: {
    /** Origin of the universe service, without a slash at the end. */
    readonly url: string
    /** Signs what this service sends there; no other service has it. */
    readonly ring: KeyRing
    /** How long the universe may take to apply a push. Milliseconds, default 20 s: below what the gateway waits. */
    readonly timeoutMs: number
  }
}

/** Reads the settings of the sync service. Throws a ConfigurationError that names every fault and no value. */
export function readConfig(env: Environment): Config {
  const values = parseEnvironment(env, {
    ...baseEnvironment,
    POSTERN_DATABASE_URL: settings.databaseUrl,
    POSTERN_DATABASE_CONNECTIONS: settings.integer({ min: 1, max: 200, fallback: 10 }),
    POSTERN_SIGNING_SYNC: settings.keyRing,
    POSTERN_SIGNING_SYNC_UNIVERSE: settings.keyRing,
    POSTERN_UNIVERSE_URL: settings.httpUrl,
    POSTERN_UNIVERSE_TIMEOUT_MS: settings.integer({ min: 100, max: 60_000, fallback: 20_000 }),
  })
  return {
    ...baseConfig(values, { sync: values.POSTERN_SIGNING_SYNC }),
    databaseUrl: values.POSTERN_DATABASE_URL,
    maxConnections: values.POSTERN_DATABASE_CONNECTIONS,
    universe: {
      url: values.POSTERN_UNIVERSE_URL,
      ring: values.POSTERN_SIGNING_SYNC_UNIVERSE,
      timeoutMs: values.POSTERN_UNIVERSE_TIMEOUT_MS,
    },
  }
}
