import type { PoolClient } from 'pg'
import { Pool, types } from 'pg'
import { DatabaseUnavailable } from './sql-error.ts'

export interface PoolOptions {
  /** Of a runtime role. A secret: it holds the password. */
  readonly connectionString: string
  readonly maxConnections: number
  /** How long a caller waits for a connection, new or used, before it is told that there is none. */
  readonly connectTimeoutMs: number
  /** Shown in pg_stat_activity. */
  readonly applicationName: string
}

// Connections are replaced now and then, so that a changed address or a session's memory does not stay for ever.
const maxLifetimeSeconds = 1800
const idleTimeoutMs = 30_000

const dateOid = 1082

const lost = new WeakMap<object, Error>()
const altered = new WeakSet<object>()

/** A bounded pool of pipelined connections. One that fails while idle is dropped in silence: its failure is nobody's. */
export function openPool(options: PoolOptions): Pool {
  const pool = new Pool({
    connectionString: options.connectionString,
    max: options.maxConnections,
    connectionTimeoutMillis: options.connectTimeoutMs,
    idleTimeoutMillis: idleTimeoutMs,
    maxLifetimeSeconds,
    application_name: options.applicationName,
    keepAlive: true,
    pipeline: true,
    types: { getTypeParser: typeParser },
  })
  pool.on('error', () => undefined)
  // While a connection is lent out the pool does not listen to it, and an error event without a listener ends the process.
  pool.on('connect', (client) => {
    client.on('error', (error) => lost.set(client, error))
    // PostgreSQL says when one of the settings changes that decide how values and names are read.
    client.connection.on('parameterStatus', () => altered.add(client))
  })
  return pool
}

// A date has no time zone, and pg makes of it a Date that depends on the zone of this machine. It stays text:
// '2026-03-31'. bigint and numeric are text already.
const typeParser: typeof types.getTypeParser = (oid, format) =>
  oid === dateOid ? String : types.getTypeParser(oid, format)

/** A connection from the pool. Rejects with DatabaseUnavailable whatever the reason is. */
export async function acquire(pool: Pool): Promise<PoolClient> {
  try {
    return await pool.connect()
  } catch (cause) {
    throw new DatabaseUnavailable('no database connection', { cause })
  }
}

/** Why the connection is gone; undefined while it can be used. Known before the statements under way are rejected. */
export function whyLost(client: PoolClient): Error | undefined {
  return lost.get(client)
}

/** Whether the session reads times, texts or names differently than it did when it began. */
export function isAltered(client: PoolClient): boolean {
  return altered.has(client)
}

/** Ends a connection at once, also when the server no longer answers, and gives its place in the pool to another. */
export function destroy(client: PoolClient): void {
  // First the socket: pg would wait for the answers that are still due before it says goodbye.
  client.connection.stream.destroy()
  client.release(true)
}
