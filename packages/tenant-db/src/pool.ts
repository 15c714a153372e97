import type { PoolClient } from 'pg'
import { Pool, types } from 'pg'
import { type Servers, openServers, trySeveral } from './servers.ts'
import { DatabaseUnavailable } from './sql-error.ts'

export interface PoolOptions {
  /** Of a runtime role, with one host or several. A secret: it holds the password. */
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
/** Of pools whose connections may go to one of several servers. */
const severalOf = new WeakMap<Pool, Servers>()

/** A bounded pool of pipelined connections. One that fails while idle is dropped in silence: its failure is nobody's. */
export function openPool(options: PoolOptions): Pool {
  const servers = openServers(options.connectionString)
  const pool = new Pool({
    Client: servers.Client,
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
  if (servers.count > 1) {
    severalOf.set(pool, servers)
    leaveFormerServer(pool, servers)
  }
  return pool
}

/**
 * When a connection has been opened to another server, ends those to the one before: nobody knows whether that server is still there.
 * One that is lent out ends when it is given back.
 */
function leaveFormerServer(pool: Pool, servers: Servers): void {
  const opened = new Set<PoolClient>()
  const lent = new Set<PoolClient>()
  pool.on('acquire', (client) => void lent.add(client))
  pool.on('release', (_error, client) => void lent.delete(client))
  pool.on('remove', (client) => void opened.delete(client))
  pool.on('connect', (client) => {
    for (const other of opened) {
      if (servers.areTogether(client, other)) continue
      if (lent.has(other)) altered.add(other)
      else other.connection.stream.destroy()
    }
    opened.add(client)
  })
}

// A date has no time zone, and pg makes of it a Date that depends on the zone of this machine. It stays text:
// '2026-03-31'. bigint and numeric are text already.
const typeParser: typeof types.getTypeParser = (oid, format) =>
  oid === dateOid ? String : types.getTypeParser(oid, format)

/** A connection from the pool. Rejects with DatabaseUnavailable whatever the reason is. */
export async function acquire(pool: Pool): Promise<PoolClient> {
  const servers = severalOf.get(pool)
  try {
    return servers === undefined ? await pool.connect() : await acquireFromAny(pool, servers)
  } catch (cause) {
    throw new DatabaseUnavailable('no database connection', { cause })
  }
}

/** Tries the servers, in the time that a caller waits for a connection. */
async function acquireFromAny(pool: Pool, { count }: Servers): Promise<PoolClient> {
  const late = Promise.withResolvers<never>()
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    late.reject(new Error(`none of ${count} servers took the connection in time`))
  }, pool.options.connectionTimeoutMillis)
  const acquired = trySeveral(
    count,
    async () => await pool.connect(),
    () => isLate,
  )
  try {
    return await Promise.race([acquired, late.promise])
  } catch (error) {
    // What comes too late is for the next caller.
    acquired.then(
      (client) => client.release(),
      () => undefined,
    )
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** Why the connection is gone; undefined while it can be used. Known before the statements under way are rejected. */
export function whyLost(client: PoolClient): Error | undefined {
  return lost.get(client)
}

/** Whether the session reads times, texts or names differently than it did when it began, or is one to a server that is no longer used. */
export function isAltered(client: PoolClient): boolean {
  return altered.has(client)
}

/** Ends a connection at once, also when the server no longer answers, and gives its place in the pool to another. */
export function destroy(client: PoolClient): void {
  // First the socket: pg would wait for the answers that are still due before it says goodbye.
  client.connection.stream.destroy()
  client.release(true)
}
