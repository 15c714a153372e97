import { createHash } from 'node:crypto'
import type { Pool, PoolClient } from 'pg'
import { follow, tenantOf } from './follow.ts'
import { type Access, type Places, createPlaces } from './places.ts'
import type { PoolOptions } from './pool.ts'
import { acquire, openPool } from './pool.ts'
import type { RowBudget, Tx } from './session.ts'
import { Session } from './session.ts'
import { DatabaseUnavailable, NotMigrated, ResultTooLarge, type SqlErrorKind, sqlError } from './sql-error.ts'

/** What the gateway has minted for this request and PostgreSQL verifies. */
export interface TenantAssertion {
  readonly assertion: string
  /** Where given, the rows of all statements are counted. A statement that brings more than is granted rejects. */
  readonly share?: RowBudget | undefined
}

/** Runs statements for one tenant at a time. Failures of the database are told apart by `sqlError`. */
export interface TenantDb {
  /**
   * Runs statements in one READ ONLY transaction and one round trip: BEGIN, the assertion, every statement that `fn`
   * issues before it first gives up control, and COMMIT leave together. A statement issued later rejects. All of them
   * see the same state of the database.
   */
  read<T>(tenant: TenantAssertion, fn: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * Runs `fn` in a transaction that is committed when it resolves and rolled back when it rejects. The first statement
   * travels with BEGIN and the assertion. Resolves only after PostgreSQL has said that it committed. After a statement
   * has failed nothing can be committed any more, also when `fn` catches the failure: it rejects with that failure.
   */
  write<T>(tenant: TenantAssertion, fn: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * The rows of the one statement that `list` issues, `size` of them at a time, of one snapshot, for as long as it takes to
   * read them, an hour at most: `list` is called for each batch. It holds a connection all the while, hence for what goes
   * on when the assertion has run out; what is short is done with `read`.
   */
  follow<Item>(
    tenant: TenantAssertion,
    list: (tx: Tx) => Promise<readonly Item[]>,
    size: number,
  ): AsyncIterable<readonly Item[]>
  /** As `write`, for no tenant: definer functions and tables without one. Statements on tenant tables are refused. */
  system<T>(fn: (tx: Tx) => Promise<T>): Promise<T>
  /** Rejects when a request would find no database or, with `schema`, no tables of it that the role may read. */
  ping(schema?: string): Promise<void>
  /**
   * Identifies the database among all PostgreSQL databases: the same for every role and pooler that reaches it, 16
   * hexadecimal digits. Undefined if the server does not let the role read it.
   */
  databaseId(): Promise<string | undefined>
  /** Waits for the transactions that are running, then closes every connection. */
  close(): Promise<void>
  stats(): { readonly total: number; readonly idle: number; readonly waiting: number }
}

export interface TenantDbOptions extends PoolOptions {
  /**
   * How long a statement may go without an answer before its connection is destroyed; several that are issued at once, as many
   * times as long in all. More than statement_timeout.
   */
  readonly queryTimeoutMs: number
  /**
   * How often a request asks for a connection before it rejects with `DatabaseUnavailable`; 1 by default. It asks again only while
   * the pool has other connections: then the server is there, and slow to open one more.
   */
  readonly connectAttempts?: number
  /**
   * Told how the pool stands whenever it asks, and of every failure, the work's own among them, by its kind; `late`: an
   * assertion was refused whose time is over.
   */
  readonly observer?: {
    opened(connections: number, stats: TenantDb['stats']): void
    failed(kind: SqlErrorKind | 'late'): void
  }
}

/** A request waits for the work of others so many times as long as a connection may take to open: writers of one tenant wait in turn. */
const waitsPerConnect = 5

/** Opens a pool of connections for one runtime role. None is made before its first use. */
export function openTenantDb(options: TenantDbOptions): TenantDb {
  const pool = openPool(options)
  const { queryTimeoutMs, observer } = options
  const connections: Connections = {
    pool,
    places: createPlaces(options.maxConnections, waitsPerConnect * options.connectTimeoutMs),
    timeoutMs: queryTimeoutMs,
    connectAttempts: options.connectAttempts ?? 1,
  }
  let closed: Promise<void> | undefined
  const note = (error: unknown): never => {
    // Nothing is wrong with the database.
    if (error instanceof ResultTooLarge) throw error
    observer?.failed(sqlError(error).kind)
    throw error
  }
  const noteOf =
    (tenant: TenantAssertion) =>
    (error: unknown): never => {
      // One whose time is over is told apart: a slow upload has it in order, a replay or an assertion that is kept has it in numbers.
      const isLate = sqlError(error).kind === 'assertion' && (endOf(tenant) ?? Infinity) <= Date.now()
      if (!isLate) return note(error)
      observer?.failed('late')
      throw error
    }
  const stats = (): ReturnType<TenantDb['stats']> => ({
    total: pool.totalCount,
    idle: pool.idleCount,
    waiting: pool.waitingCount + connections.places.waiting,
  })
  observer?.opened(options.maxConnections, stats)
  return {
    read: (tenant, fn) => read(connections, tenant, fn).catch(noteOf(tenant)),
    write: (tenant, fn) => write(connections, tenant, fn).catch(noteOf(tenant)),
    follow: (tenant, list, size) => failing(follow(pool, queryTimeoutMs, tenant.assertion, list, size), noteOf(tenant)),
    // Empty, not left alone: a setting that something left in the session must not hold here.
    system: (fn) => write(connections, { assertion: '' }, fn).catch(note),
    ping: (schema) => ping(pool, queryTimeoutMs, schema),
    databaseId: async () => await readDatabaseId(pool, queryTimeoutMs),
    close: () => (closed ??= pool.end()),
    stats,
  }
}

/**
 * The same database, whose outages and overload reject as what `refusal` makes of them, so that a service can tell its
 * callers to try again. So does an assertion that was shown and not believed: the gateway mints one for each request, and
 * PostgreSQL's clock or its secrets are other ones than the gateway's. Everything else rejects as it is, also that there was
 * no assertion to show: then the service asks where it may not.
 */
export function refusingWhenAway(db: TenantDb, refusal: (cause: unknown, access: 'read' | 'write') => Error): TenantDb {
  const refuse =
    (tenant: TenantAssertion, access: 'read' | 'write' = 'read') =>
    (error: unknown): never => {
      const { kind } = sqlError(error)
      const isDoubted = kind === 'assertion' && endOf(tenant) !== undefined
      if (isDoubted || kind === 'unavailable' || kind === 'timeout' || kind === 'serialization')
        throw refusal(error, access)
      throw error
    }
  return {
    ...db,
    read: async (tenant, fn) => await db.read(tenant, fn).catch(refuse(tenant)),
    write: async (tenant, fn) => await db.write(tenant, fn).catch(refuse(tenant, 'write')),
    follow: (tenant, list, size) => failing(db.follow(tenant, list, size), refuse(tenant)),
  }
}

/**
 * The same database, where an assertion that is not believed although its time is not over by our clock (`now`, milliseconds
 * since the epoch) rejects as an outage: who asks has not taken too long.
 */
export function doubtingAsAway(db: TenantDb, now: () => number): TenantDb {
  const doubt =
    (tenant: TenantAssertion) =>
    (error: unknown): never => {
      if (sqlError(error).kind !== 'assertion' || (endOf(tenant) ?? 0) <= now()) throw error
      throw new DatabaseUnavailable('PostgreSQL does not believe an assertion of now', { cause: error })
    }
  return {
    ...db,
    read: async (tenant, fn) => await db.read(tenant, fn).catch(doubt(tenant)),
    write: async (tenant, fn) => await db.write(tenant, fn).catch(doubt(tenant)),
    follow: (tenant, list, size) => failing(db.follow(tenant, list, size), doubt(tenant)),
  }
}

/** The same items, of which a failure is thrown as `rethrow` would have it. */
async function* failing<Item>(items: AsyncIterable<Item>, rethrow: (error: unknown) => never): AsyncGenerator<Item> {
  try {
    yield* items
  } catch (error) {
    rethrow(error)
  }
}

/** When an assertion ends, in milliseconds since the epoch; undefined for what is none. */
function endOf({ assertion }: TenantAssertion): number | undefined {
  const [version, , , seconds = ''] = assertion.split('.')
  return version === 'v1' && /^\d+$/.test(seconds) ? Number(seconds) * 1000 : undefined
}

// read_only_sql_transaction. In a reading it is our own mistake.
const readOnly = '25006'

interface Connections {
  readonly pool: Pool
  readonly places: Places
  readonly timeoutMs: number
  readonly connectAttempts: number
}

async function openSession(
  connections: Connections,
  { assertion, share }: TenantAssertion,
  access: Access,
): Promise<Session> {
  const { places, timeoutMs } = connections
  const tenant = tenantOf(assertion)
  await places.enter(tenant, access)
  const onReturn = (): void => places.leave(tenant, access)
  try {
    return new Session(await acquirePatiently(connections), timeoutMs, { budget: share, onReturn })
  } catch (error) {
    onReturn()
    throw error
  }
}

async function acquirePatiently({ pool, connectAttempts }: Connections): Promise<PoolClient> {
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
  const { answer, ending } = session.together(() => {
    session.begin('read', assertion)
    return { answer: start(work, session), ending: session.end('commit') }
  })
  // Its failure waits until PostgreSQL is done.
  answer.catch(() => undefined)
  // The connection goes back as soon as PostgreSQL is done with it, however long `work` still computes.
  const command = await ending.catch(() => 'lost').finally(() => session.giveBack())
  try {
    const value = await answer
    if (session.isOdd || command !== 'COMMIT') throw session.reason(undefined)
    return value
  } catch (error) {
    throw session.reason(error)
  }
}

async function write<T>(connections: Connections, tenant: TenantAssertion, work: Work<T>): Promise<T> {
  const { assertion } = tenant
  const session = await openSession(connections, tenant, 'write')
  try {
    const answer = session.together(() => {
      session.begin('write', assertion)
      return start(work, session)
    })
    const value = await session.orLost(answer)
    // The commit of a transaction that has failed is answered with ROLLBACK, and is no error to PostgreSQL.
    if (session.isOdd || (await session.end('commit')) !== 'COMMIT') throw session.reason(undefined)
    return value
  } catch (error) {
    // Its own failure adds nothing: the connection is then destroyed, which rolls back as well.
    await session.end('rollback').catch(() => undefined)
    const reason = session.reason(error)
    // It was begun to write: the server is one on which nobody can, and the next connection may lead to another.
    if (sqlError(reason).sqlState === readOnly)
      throw new DatabaseUnavailable('the database is read-only', { cause: reason })
    throw reason
  } finally {
    session.giveBack()
  }
}

/** Runs `work` up to the point where it first gives up control, before this returns; a throw becomes a rejection. */
async function start<T>(work: Work<T>, tx: Tx): Promise<T> {
  return await work(tx)
}

// Of the catalogs: no lock on a table, and no policy that would ask for a tenant.
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
    if (row?.found !== true) throw new NotMigrated()
  } finally {
    session.giveBack()
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
    // Some managed servers keep the function for themselves.
    if (sqlError(error).kind === 'rls') return undefined
    throw error
  } finally {
    session.giveBack()
  }
}
