import { Socket, isIP } from 'node:net'
import { Client, DatabaseError, type QueryResult, escapeIdentifier } from 'pg'
import Cursor from 'pg-cursor'
import { parseExactly } from '../http/json-items.ts'
import { watchBytes } from '../watch-bytes.ts'
import { type SilenceLimit, closeTimeoutMs, withSilenceLimit } from '../silence-limit.ts'
import type { SqlRead } from './config.ts'
import { PostgresStream } from './postgres-stream.ts'
import { partTooSlow, sqlFailure } from './sql-failure.ts'

const connectTimeoutMs = 10_000
/** Rows of the first fetch, and of later ones if rows are small. */
const [firstRows, maxRows] = [25, 100]
/** Servers may override PostgreSQL's defaults. */
const settings = [
  'default_transaction_read_only=on',
  'search_path=pg_catalog',
  'timezone=UTC',
  'datestyle=ISO',
  'intervalstyle=postgres',
  'bytea_output=hex',
]
/** Types that JSON has too: boolean, json and jsonb (OIDs of pg_type). */
const jsonTypes: ReadonlySet<number> = new Set([16, 114, 3802])

/** Reads in one read-only transaction, on demand. */
export async function* readPostgres({
  config,
  password,
  address,
  limits,
  signal,
  onColumns,
}: SqlRead): AsyncGenerator<Record<string, unknown>> {
  const { host, port = 5432, encryption, ca, database, username, schema = 'public', view, columns } = config
  const socket = new Socket()
  const bytes = watchBytes(() => socket, limits)
  const client = new Client({
    stream: () =>
      new PostgresStream({
        socket,
        host,
        maxMessageBytes: 2 * limits.maxPageBytes,
        tls:
          encryption === 'none'
            ? undefined
            : { ...(ca === undefined ? {} : { ca }), ...(isIP(host) === 0 ? { servername: host } : { host: address }) },
      }),
    // The stream encrypts.
    ssl: false,
    host: address,
    port,
    database,
    user: username,
    password,
    application_name: 'postern',
    connectionTimeoutMillis: connectTimeoutMs,
    options: settings.map((setting) => `-c ${setting}`).join(' '),
    statement_timeout: limits.maxSilenceMs,
    // As text, so that numbers are not rounded and days do not shift.
    types: { getTypeParser: (type: number) => (jsonTypes.has(type) ? parseAsJson : asText) },
  })
  // An error between two queries fails the next one.
  client.on('error', () => undefined)
  const stop = (): void => void socket.destroy()
  const silenceLimit: SilenceLimit = { maxMs: limits.maxSilenceMs, signal, end: stop, tooSlow: partTooSlow }
  const inTime = async <T>(answer: Promise<T>): Promise<T> => await withSilenceLimit(answer, silenceLimit)
  signal.addEventListener('abort', stop, { once: true })
  try {
    await inTime(client.connect())
    await inTime(client.query('begin transaction isolation level repeatable read read only'))
    const list = columns === undefined ? '*' : columns.map(escapeIdentifier).join(', ')
    const text = `select ${list} from ${escapeIdentifier(schema)}.${escapeIdentifier(view)}`
    const cursor = client.query(new Cursor<Record<string, unknown>>(text))
    let isFirst = true
    for (let batch = firstRows; ;) {
      const { rows, result } = await inTime(nextRows(client, cursor, batch))
      const size = bytes.page()
      if (isFirst) onColumns(result.fields.map(({ name }) => name))
      isFirst = false
      if (rows.length === 0) break
      batch = Math.max(1, Math.min(maxRows, Math.floor((rows.length * limits.maxPageBytes) / (8 * size))))
      yield* rows
    }
    await inTime(client.query('commit'))
  } catch (error) {
    signal.throwIfAborted()
    throw bytes.failure() ?? sqlFailure(error, { host, state: error instanceof DatabaseError ? error.code : undefined })
  } finally {
    bytes.end()
    signal.removeEventListener('abort', stop)
    // `client.end` waits for the server, which may hang.
    await withSilenceLimit(client.end(), { ...silenceLimit, maxMs: closeTimeoutMs }).catch(() => undefined)
    stop()
  }
}

interface NextRows<T> {
  readonly rows: readonly T[]
  /** Missing after the last row. */
  readonly result: QueryResult
}

/** `pg-cursor` does not report a connection that ends between the last row and the end of the query. */
async function nextRows<T>(client: Client, cursor: Cursor<T>, count: number): Promise<NextRows<T>> {
  const { promise, resolve, reject } = Promise.withResolvers<NextRows<T>>()
  const onEnd = () => reject(new Error('the connection has ended'))
  client.once('end', onEnd)
  cursor.read(count, (error, rows, result) => {
    if (error === null || error === undefined) resolve({ rows, result })
    else reject(error)
  })
  try {
    return await promise
  } finally {
    client.off('end', onEnd)
  }
}

function asText(text: string | Buffer): string {
  return String(text)
}

function parseAsJson(text: string | Buffer): unknown {
  const value = String(text)
  if (value === 't' || value === 'f') return value === 't'
  return parseExactly(value)
}
