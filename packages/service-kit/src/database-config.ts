import { settings } from './settings.ts'

export interface DatabaseConfig {
  /** With the role's password. A secret. */
  readonly connectionString: string
  readonly maxConnections: number
  readonly connectTimeoutMs: number
  readonly queryTimeoutMs: number
}

export const databaseEnvironment = {
  POSTERN_DATABASE_CONNECT_TIMEOUT_MS: settings
    .integer({ min: 100, max: 60_000, fallback: 2_000 })
    .describe('How long a request waits for a connection to PostgreSQL, in milliseconds.'),
  POSTERN_DATABASE_QUERY_TIMEOUT_MS: settings
    .integer({ min: 6_000, max: 120_000, fallback: 6_000 })
    .describe(
      'How long PostgreSQL may take to answer a statement, in milliseconds. Longer than the `statement_timeout` of the role, 5 s, so that PostgreSQL reports the timeout itself.',
    ),
} as const

export function databaseConfig(values: {
  readonly POSTERN_DATABASE_URL: string
  readonly POSTERN_DATABASE_CONNECTIONS: number
  readonly POSTERN_DATABASE_CONNECT_TIMEOUT_MS: number
  readonly POSTERN_DATABASE_QUERY_TIMEOUT_MS: number
}): DatabaseConfig {
  return {
    connectionString: values.POSTERN_DATABASE_URL,
    maxConnections: values.POSTERN_DATABASE_CONNECTIONS,
    connectTimeoutMs: values.POSTERN_DATABASE_CONNECT_TIMEOUT_MS,
    queryTimeoutMs: values.POSTERN_DATABASE_QUERY_TIMEOUT_MS,
  }
}
