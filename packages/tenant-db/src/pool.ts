import type { PoolClient } from 'pg'
import { Pool } from 'pg'
import { typeParser } from './query.ts'
import { type Servers, openServers, socketOf, trySeveral } from './servers.ts'
import { DatabaseUnavailableError } from './sql-error.ts'

export interface PoolOptions {
  readonly connectionString: string
  readonly maxConnections: number
  readonly connectTimeoutMs: number
  readonly applicationName: string
}

// Connections are renewed to notice a changed address and to free session memory.
const maxLifetimeSeconds = 1800
const idleTimeoutMs = 30_000

const lossErrors = new WeakMap<object, Error>()
const altered = new WeakSet<object>()
const serversOf = new WeakMap<Pool, Servers>()

/** Connections that fail while idle are dropped. */
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
  // The pool does not listen to borrowed connections, and an unhandled error would end the process.
  pool.on('connect', (client) => {
    client.on('error', (error) => lossErrors.set(client, error))
    // Settings can change how values and names are read. Decision 0008 says why pg's undocumented event is used.
    client.connection.on('parameterStatus', () => altered.add(client))
  })
  if (servers.count > 1) {
    serversOf.set(pool, servers)
    leaveFormerServer(pool, servers)
  }
  return pool
}

function leaveFormerServer(pool: Pool, servers: Servers): void {
  const opened = new Set<PoolClient>()
  const lent = new Set<PoolClient>()
  pool.on('acquire', (client) => void lent.add(client))
  pool.on('release', (_error, client) => void lent.delete(client))
  pool.on('remove', (client) => void opened.delete(client))
  pool.on('connect', (client) => {
    for (const other of opened) {
      if (servers.haveSameServer(client, other)) continue
      if (lent.has(other)) altered.add(other)
      else socketOf(other).destroy()
    }
    opened.add(client)
  })
}

/** Every failure rejects with DatabaseUnavailableError. */
export async function acquire(pool: Pool): Promise<PoolClient> {
  const servers = serversOf.get(pool)
  try {
    return servers === undefined ? await pool.connect() : await acquireFromAny(pool, servers)
  } catch (cause) {
    throw new DatabaseUnavailableError('no database connection', { cause })
  }
}

async function acquireFromAny(pool: Pool, { count }: Servers): Promise<PoolClient> {
  const late = Promise.withResolvers<never>()
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    late.reject(new Error(`none of ${count} servers accepted a connection in time`))
  }, pool.options.connectionTimeoutMillis)
  const acquired = trySeveral(
    count,
    async () => await pool.connect(),
    () => isLate,
  )
  try {
    return await Promise.race([acquired, late.promise])
  } catch (error) {
    // A late connection is for the next caller.
    acquired.then(
      (client) => client.release(),
      () => undefined,
    )
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** Returns the error before the statements are rejected with it. */
export function getLossError(client: PoolClient): Error | undefined {
  return lossErrors.get(client)
}

export function isAltered(client: PoolClient): boolean {
  return altered.has(client)
}

export function destroy(client: PoolClient): void {
  // pg would wait for outstanding responses.
  socketOf(client).destroy()
  client.release(true)
}
