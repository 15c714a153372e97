import { createHash } from 'node:crypto'
import type { Pool, PoolClient } from 'pg'
import { follow, tenantOf } from './follow.ts'
import { type Access, type ConnectionSlots, createConnectionSlots } from './connection-slots.ts'
import type { PoolOptions } from './pool.ts'
import { acquire, openPool } from './pool.ts'
import type { RowBudget, Tx } from './session.ts'
import { Session } from './session.ts'
import {
  DatabaseUnavailableError,
  NotMigratedError,
  ResultTooLargeError,
  type SqlErrorKind,
  sqlError,
} from './sql-error.ts'

/** Signed by the gateway and verified by PostgreSQL. */
export interface TenantAssertion {
  readonly assertion: string
  readonly share?: RowBudget | undefined
}

/** Runs transactions of one tenant. `sqlError` classifies failures. */
export interface TenantDb {
  /**
   * One READ ONLY transaction in one round trip, with all statements that `fn` issues before its first await. Later
   * statements reject. All share one snapshot.
   */
  read<T>(tenant: TenantAssertion, fn: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * Commits when `fn` resolves, and rolls back if `fn` or any statement failed. Resolves after PostgreSQL has confirmed
   * the commit.
   */
  write<T>(tenant: TenantAssertion, fn: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * Reads one statement in batches of `size` from one snapshot, for up to an hour. Holds a connection, so use it for
   * exports that outlive the assertion.
   */
  follow<Item>(
    tenant: TenantAssertion,
    list: (tx: Tx) => Promise<readonly Item[]>,
    size: number,
  ): AsyncIterable<readonly Item[]>
  /** Like `write`, without a tenant. Tenant tables reject it. */
  system<T>(fn: (tx: Tx) => Promise<T>): Promise<T>
  /** With `schema`, its tables must be readable. */
  ping(schema?: string): Promise<void>
  /** Returns 16 hexadecimal digits, equal for every role and pooler. Undefined if the server does not allow it. */
  databaseId(): Promise<string | undefined>
  close(): Promise<void>
  stats(): { readonly total: number; readonly idle: number; readonly waiting: number }
}

export interface TenantDbOptions extends PoolOptions {
  /** Closes the connection after this time. Must exceed statement_timeout; limits of concurrent statements add up. */
  readonly queryTimeoutMs: number
  /** Default 1. Retries only while the pool has other connections, because the server is then only slow. */
  readonly connectAttempts?: number
  /** `late`: the rejected assertion had expired. */
  readonly observer?: {
    opened(connections: number, stats: TenantDb['stats']): void
    failed(kind: SqlErrorKind | 'late'): void
  }
}

/** Writers of one tenant wait for each other, so the wait for a connection is longer than its opening. */
const waitsPerConnect = 5

/** Connects on first use. */
export function openTenantDb(options: TenantDbOptions): TenantDb {
  const pool = openPool(options)
  const { queryTimeoutMs, observer } = options
  const connections: Connections = {
    pool,
    slots: createConnectionSlots(options.maxConnections, waitsPerConnect * options.connectTimeoutMs),
    timeoutMs: queryTimeoutMs,
    connectAttempts: options.connectAttempts ?? 1,
  }
  let closed: Promise<void> | undefined
  const recordAndThrow = (error: unknown): never => {
    if (error instanceof ResultTooLargeError) throw error
    observer?.failed(sqlError(error).kind)
    throw error
  }
  const recordFailureOf =
    (tenant: TenantAssertion) =>
    (error: unknown): never => {
      // Single expired assertions come from slow uploads, many from replays.
      const isLate = sqlError(error).kind === 'assertion' && (expiryOf(tenant) ?? Infinity) <= Date.now()
      if (!isLate) return recordAndThrow(error)
      observer?.failed('late')
      throw error
    }
  const stats = (): ReturnType<TenantDb['stats']> => ({
    total: pool.totalCount,
    idle: pool.idleCount,
    waiting: pool.waitingCount + connections.slots.waiting,
  })
  observer?.opened(options.maxConnections, stats)
  return {
    read: (tenant, fn) => read(connections, tenant, fn).catch(recordFailureOf(tenant)),
    write: (tenant, fn) => write(connections, tenant, fn).catch(recordFailureOf(tenant)),
    follow: (tenant, list, size) => {
      const { assertion } = tenant
      // Without the share, because rows are sent as they are read.
      const open = async () => await openSession(connections, { assertion }, 'read')
      return mapStreamErrors(follow(pool, open, assertion, list, size), recordFailureOf(tenant))
    },
    // Overwrites an assertion that a statement may have left in the session.
    system: (fn) => write(connections, { assertion: '' }, fn).catch(recordAndThrow),
    ping: (schema) => ping(pool, queryTimeoutMs, schema),
    databaseId: async () => await readDatabaseId(pool, queryTimeoutMs),
    close: () => (closed ??= pool.end()),
    stats,
  }
}

/**
 * Outages, overload and rejected assertions reject with `refusal`'s error. Other errors pass unchanged, including a
 * missing assertion.
 */
export function rejectOnOutage(db: TenantDb, refusal: (cause: unknown, access: 'read' | 'write') => Error): TenantDb {
  const refuse =
    (tenant: TenantAssertion, access: 'read' | 'write' = 'read') =>
    (error: unknown): never => {
      const { kind } = sqlError(error)
      const isRejectedAssertion = kind === 'assertion' && expiryOf(tenant) !== undefined
      if (isRejectedAssertion || kind === 'unavailable' || kind === 'timeout' || kind === 'serialization')
        throw refusal(error, access)
      throw error
    }
  return {
    ...db,
    read: async (tenant, fn) => await db.read(tenant, fn).catch(refuse(tenant)),
    write: async (tenant, fn) => await db.write(tenant, fn).catch(refuse(tenant, 'write')),
    follow: (tenant, list, size) => mapStreamErrors(db.follow(tenant, list, size), refuse(tenant)),
  }
}

/** Treats the rejection of an unexpired assertion (by `now`, epoch ms) as an outage. */
export function withRejectionsAsOutage(db: TenantDb, now: () => number): TenantDb {
  const asOutage =
    (tenant: TenantAssertion) =>
    (error: unknown): never => {
      if (sqlError(error).kind !== 'assertion' || (expiryOf(tenant) ?? 0) <= now()) throw error
      throw new DatabaseUnavailableError('PostgreSQL rejected an assertion that has not expired', { cause: error })
    }
  return {
    ...db,
    read: async (tenant, fn) => await db.read(tenant, fn).catch(asOutage(tenant)),
    write: async (tenant, fn) => await db.write(tenant, fn).catch(asOutage(tenant)),
    follow: (tenant, list, size) => mapStreamErrors(db.follow(tenant, list, size), asOutage(tenant)),
  }
}

async function* mapStreamErrors<Item>(
  items: AsyncIterable<Item>,
  rethrow: (error: unknown) => never,
): AsyncGenerator<Item> {
  try {
    yield* items
  } catch (error) {
    rethrow(error)
  }
}

/** Epoch ms; undefined if the assertion is invalid. */
function expiryOf({ assertion }: TenantAssertion): number | undefined {
  const [version, , , seconds = ''] = assertion.split('.')
  return version === 'v1' && /^\d+$/.test(seconds) ? Number(seconds) * 1000 : undefined
}

// read_only_sql_transaction; in a read, a bug in the service.
const readOnly = '25006'

interface Connections {
  readonly pool: Pool
  readonly slots: ConnectionSlots
  readonly timeoutMs: number
  readonly connectAttempts: number
}

async function openSession(
  connections: Connections,
  { assertion, share }: TenantAssertion,
  access: Access,
): Promise<Session> {
  const { slots, timeoutMs } = connections
  const tenant = tenantOf(assertion)
  await slots.enter(tenant, access)
  const onReturn = (): void => slots.leave(tenant, access)
  try {
    return new Session(await acquireWithRetries(connections), timeoutMs, { budget: share, onReturn })
  } catch (error) {
    onReturn()
    throw error
  }
}

async function acquireWithRetries({ pool, connectAttempts }: Connections): Promise<PoolClient> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await acquire(pool)
    } catch (error) {
      if (attempt >= connectAttempts || pool.totalCount === 0) throw error
    }
  }
}

type Work<T> = (tx: Tx) => Promise<T>

// HOT PATH: one write to the socket, one wait.
async function read<T>(connections: Connections, tenant: TenantAssertion, work: Work<T>): Promise<T> {
  const { assertion } = tenant
  const session = await openSession(connections, tenant, 'read')
  const { answer, ending } = session.pipeline(() => {
    session.begin('read', assertion)
    return { answer: start(work, session), ending: session.end('commit') }
  })
  // A failure of `work` waits until PostgreSQL has finished.
  answer.catch(() => undefined)
  const command = await ending.catch(() => 'lost').finally(() => session.release())
  try {
    const value = await answer
    if (session.hasUnusualError || command !== 'COMMIT') throw session.findRootError(undefined)
    return value
  } catch (error) {
    throw session.findRootError(error)
  }
}

async function write<T>(connections: Connections, tenant: TenantAssertion, work: Work<T>): Promise<T> {
  const { assertion } = tenant
  const session = await openSession(connections, tenant, 'write')
  try {
    const answer = session.pipeline(() => {
      session.begin('write', assertion)
      return start(work, session)
    })
    const value = await session.rejectIfLost(answer)
    // PostgreSQL answers the commit of a failed transaction with ROLLBACK, not with an error.
    if (session.hasUnusualError || (await session.end('commit')) !== 'COMMIT') throw session.findRootError(undefined)
    return value
  } catch (error) {
    // After a failing rollback, closing the connection rolls back.
    await session.end('rollback').catch(() => undefined)
    const reason = session.findRootError(error)
    // The next connection may reach another server.
    if (sqlError(reason).sqlState === readOnly)
      throw new DatabaseUnavailableError('the database is read-only', { cause: reason })
    throw reason
  } finally {
    session.release()
  }
}

/** A throw becomes a rejection. */
async function start<T>(work: Work<T>, tx: Tx): Promise<T> {
  return await work(tx)
}

// Catalog rows need no table lock and no tenant.
const findTables = `
  select exists (
    select from pg_catalog.pg_class as c
     where c.relnamespace = pg_catalog.to_regnamespace($1)
       and c.relkind = 'r'
       and pg_catalog.has_schema_privilege(c.relnamespace, 'usage')
       and pg_catalog.has_any_column_privilege(c.oid, 'select')
  ) as found`

async function ping(pool: Pool, timeoutMs: number, schema: string | undefined): Promise<void> {
  const session = new Session(await acquire(pool), timeoutMs)
  try {
    if (schema === undefined) {
      await session.query({ text: 'select 1', values: [] })
      return
    }
    const [row] = await session.query<{ found: boolean }>({ text: findTables, values: [schema] })
    if (row?.found !== true) throw new NotMigratedError()
  } finally {
    session.release()
  }
}

const findDatabase = `
  select c.system_identifier::text || '/' || d.oid::text as name
    from pg_catalog.pg_control_system() as c, pg_catalog.pg_database as d
   where d.datname = pg_catalog.current_database()`

async function readDatabaseId(pool: Pool, timeoutMs: number): Promise<string | undefined> {
  const session = new Session(await acquire(pool), timeoutMs)
  try {
    const [row] = await session.query<{ name: string }>({ text: findDatabase, values: [] })
    return row && createHash('sha256').update(row.name).digest('hex').slice(0, 16)
  } catch (error) {
    // Some managed servers do not allow this function.
    if (sqlError(error).kind === 'rls') return undefined
    throw error
  } finally {
    session.release()
  }
}
