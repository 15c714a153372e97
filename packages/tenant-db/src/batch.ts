import { type Connection, type PoolClient, Query } from 'pg'

/** One statement on its way, as pg drives it. `callback` is told once how it ended, or twice: see `Session`. */
export interface SentQuery {
  readonly text: string
  name: string | undefined
  queryMode: 'extended' | undefined
  callback(error: unknown, result?: unknown): void
  submit(connection: Connection): Error | null
  handleRowDescription(message: unknown): void
  handleDataRow(message: unknown): void
  handleCommandComplete(message: unknown, connection: Connection): void
  handleEmptyQuery(connection: Connection): void
  handleCopyInResponse(connection: Connection): void
  handleCopyData(message: unknown, connection: Connection): void
  handleError(error: unknown, connection: Connection): void
  handleReadyForQuery(connection: Connection): void
  // oxlint-disable-next-line no-underscore-dangle -- pg names it so
  _result: { _types: unknown }
}

// What pg itself calls, and its types leave out.
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same class with more of its members
const PgQuery = Query as unknown as new (
  text: string,
  values?: readonly unknown[],
  callback?: SentQuery['callback'],
) => SentQuery

/** A statement for `sendTogether`. With a name it is prepared once a connection, also where it has no values. */
export function queryOf(
  { text, values, name }: { readonly text: string; readonly values?: readonly unknown[]; readonly name?: string },
  callback: SentQuery['callback'],
): SentQuery {
  // From a text: pg copies an object member by member, which takes longer than all else that it does about a statement.
  const query = new PgQuery(text, values, callback)
  query.name = name
  // One statement a message, also without values: what is smuggled in behind a semicolon is a syntax error.
  query.queryMode = values === undefined ? undefined : 'extended'
  return query
}

/** Why a statement was told to drop rows. */
export type Excess = 'too-large' | 'over-share'

/**
 * Has a statement drop its rows as they come once they are more than `maxBytes`, or more than `reserve` grants. Returns whether, and why,
 * there were such rows.
 */
export function bounded(
  query: SentQuery,
  maxBytes: number,
  reserve?: (bytes: number) => boolean,
): () => Excess | undefined {
  let bytes = 0
  let excess: Excess | undefined
  const take = query.handleDataRow.bind(query)
  query.handleDataRow = (message) => {
    if (excess !== undefined) return
    const length = typeof message === 'object' && message !== null && 'length' in message ? Number(message.length) : 0
    bytes += length
    if (bytes > maxBytes) excess = 'too-large'
    else if (reserve?.(length) === false) excess = 'over-share'
    else take(message)
  }
  return () => excess
}

/** Sends a statement by itself. */
export function send(client: PoolClient, query: SentQuery): void {
  client.query(query)
}

/**
 * Sends statements in their order, to be answered in one go: PostgreSQL says that it is ready once, behind the last of
 * them, and not behind each, so that both sides wake up once. So it goes where the connection has prepared all that have a
 * name; the first time they are sent one by one.
 *
 * Behind a statement that fails PostgreSQL passes over the rest. They are sent once more then, one by one, and are
 * answered as they would have been: that the transaction has failed, and COMMIT with ROLLBACK. Where the first fails, which
 * is BEGIN, there is no transaction: nothing is sent again, and all fail as it did.
 */
export function sendTogether(client: PoolClient, queries: readonly SentQuery[]): void {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- where pg keeps what the connection has prepared
  const { parsedStatements } = client.connection as unknown as { parsedStatements: Record<string, string | undefined> }
  const arePrepared = queries.every(({ name, text }) => name === undefined || parsedStatements[name] === text)
  if (queries.length > 1 && arePrepared) client.query(new Batch(client, queries))
  else for (const query of queries) client.query(query)
}

/** Statements with one Sync behind them (PostgreSQL's protocol, 54.2.4 Pipelining), which pg takes for one. */
class Batch extends PgQuery {
  readonly #client: PoolClient
  #waiting: readonly SentQuery[]
  #at = 0

  constructor(client: PoolClient, queries: readonly SentQuery[]) {
    super('')
    this.#client = client
    this.#waiting = queries
  }

  override submit(connection: Connection): null {
    const unsynced = withoutSync(connection)
    this.#waiting = this.#waiting.filter((query) => {
      unsynced.hasClosed = false
      // How columns are read; pg tells it to what it is given itself.
      // oxlint-disable-next-line no-underscore-dangle -- pg names it so
      query._result._types = this._result._types
      const error = query.submit(unsynced)
      if (error !== null) process.nextTick(() => query.handleError(error, connection))
      return error === null && !unsynced.hasClosed
    })
    connection.sync()
    return null
  }

  override handleRowDescription(message: unknown): void {
    this.#waiting[this.#at]?.handleRowDescription(message)
  }

  override handleDataRow(message: unknown): void {
    this.#waiting[this.#at]?.handleDataRow(message)
  }

  override handleCommandComplete(message: unknown, connection: Connection): void {
    this.#waiting[this.#at]?.handleCommandComplete(message, connection)
    this.#next(connection)
  }

  override handleEmptyQuery(connection: Connection): void {
    this.#next(connection)
  }

  override handleCopyInResponse(connection: Connection): void {
    this.#waiting[this.#at]?.handleCopyInResponse(connection)
  }

  override handleError(error: unknown, connection: Connection): void {
    const [failed, ...passedOver] = this.#waiting.slice(this.#at)
    this.#waiting = []
    failed?.handleError(error, connection)
    for (const query of passedOver) {
      if (this.#at === 0) query.handleError(error, connection)
      else this.#client.query(query)
    }
  }

  override handleReadyForQuery(connection: Connection): void {
    this.#waiting[this.#at]?.handleReadyForQuery(connection)
  }

  /** The last one ends when PostgreSQL is ready: the connection can be used for something else from then on. */
  #next(connection: Connection): void {
    if (this.#at === this.#waiting.length - 1) return
    this.#waiting[this.#at]?.handleReadyForQuery(connection)
    this.#at += 1
  }
}

/** A connection on which pg sends no Sync. */
interface Unsynced extends Connection {
  /** Whether pg could not send a value, and took back the statement that it belongs to. */
  hasClosed: boolean
}

const unsyncedOf = new WeakMap<Connection, Unsynced>()

function withoutSync(connection: Connection): Unsynced {
  const made = unsyncedOf.get(connection)
  if (made !== undefined) return made
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- all else is the connection's own
  const unsynced = Object.create(connection) as Unsynced
  unsynced.sync = () => undefined
  unsynced.close = (message, more) => {
    unsynced.hasClosed = true
    connection.close(message, more)
  }
  unsyncedOf.set(connection, unsynced)
  return unsynced
}
