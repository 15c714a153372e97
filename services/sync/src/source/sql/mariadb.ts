import { isUtf8 } from 'node:buffer'
import { type Socket, connect } from 'node:net'
import { TLSSocket } from 'node:tls'
import {
  type Connection,
  type ConnectionOptions,
  type FieldPacket,
  type RowDataPacket,
  type TypeCastField as Field,
  createConnection,
} from 'mysql2'
import { watchBytes } from '../watch-bytes.ts'
import { type SilenceLimit, withSilenceLimit } from '../silence-limit.ts'
import type { SqlRead } from './config.ts'
import { partTooSlow, sqlFailure } from './sql-failure.ts'

const connectTimeoutMs = 10_000
const rowsAhead = 25

/** Reads in one read-only transaction, with backpressure. */
export async function* readMariadb(read: SqlRead): AsyncGenerator<Record<string, unknown>> {
  const { config, limits, signal, onColumns } = read
  const { host, view, columns } = config
  const { port = 3306 } = config
  const socket = connect({ host: read.address, port })
  socket.on('error', () => undefined)
  const bytes = watchBytes(() => socket, limits)
  const connection = createConnection(optionsOf(read, socket))
  // An error between two queries fails the next one.
  connection.on('error', () => undefined)
  const end = (): void => {
    connection.destroy()
    // `connection.destroy` would wait for the server to close its side.
    socket.destroy()
  }
  const silenceLimit: SilenceLimit = { maxMs: limits.maxSilenceMs, signal, end, tooSlow: partTooSlow }
  signal.addEventListener('abort', end, { once: true })
  try {
    for (const sql of [
      `set session time_zone = '+00:00', session max_statement_time = ${limits.maxDurationMs / 1000}`,
      'set session transaction isolation level repeatable read',
      'start transaction with consistent snapshot, read only',
    ]) {
      await withSilenceLimit(ask(connection, sql), silenceLimit)
    }
    const list = columns === undefined ? '*' : columns.map((name) => `\`${name}\``).join(', ')
    const bytesIn = new Set<string>()
    const typeCast = (field: Field): string | boolean | null => asText(field, bytesIn)
    const query = connection.query<RowDataPacket[]>({ sql: `select ${list} from \`${view}\``, typeCast })
    query.on('fields', (fields: readonly FieldPacket[]) => {
      for (const { name, characterSet } of fields) if (characterSet === binary) bytesIn.add(name)
      onColumns(fields.map(({ name }) => name))
    })
    const rows = query.stream({ highWaterMark: rowsAhead })
    // If the connection ends during the rows, only the connection reports it.
    connection.on('error', (error) => rows.on('error', () => undefined).destroy(error))
    const iterator: AsyncIterator<unknown> = rows[Symbol.asyncIterator]()
    for (;;) {
      const next = await withSilenceLimit(iterator.next(), silenceLimit)
      if (next.done === true) break
      // One row may be as large as a whole page.
      bytes.page()
      if (typeof next.value === 'object' && next.value !== null) yield { ...next.value }
    }
  } catch (error) {
    signal.throwIfAborted()
    const state =
      error instanceof Error && 'code' in error && String(error.code).startsWith('ER_') ? error.code : undefined
    const tls = tlsCodeOf(error, 'stream' in connection ? connection.stream : undefined)
    throw bytes.failure() ?? sqlFailure(error, { host, state: state === undefined ? undefined : String(state), tls })
  } finally {
    bytes.end()
    signal.removeEventListener('abort', end)
    end()
  }
}

function optionsOf({ config, password }: SqlRead, socket: Socket): ConnectionOptions {
  const { host, encryption, ca, database, username } = config
  return {
    // The certificate is checked for this name.
    host,
    stream: () => socket,
    user: username,
    password,
    database,
    connectTimeout: connectTimeoutMs,
    charset: 'utf8mb4',
    multipleStatements: false,
    // A malicious server may ask its client for local files.
    flags: ['-LOCAL_FILES'],
    ...(encryption === 'none'
      ? {}
      : {
          ssl: {
            minVersion: 'TLSv1.2',
            rejectUnauthorized: true,
            verifyIdentity: true,
            ...(ca === undefined ? {} : { ca }),
          },
        }),
  }
}

/** Returns Node's code of a failed handshake, which mysql2 replaces with its own. */
function tlsCodeOf(error: unknown, stream: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error) || error.code !== 'HANDSHAKE_SSL_ERROR') return undefined
  // An OpenSSL error; this is how Node names its reasons.
  if ('reason' in error && 'library' in error)
    return `ERR_SSL_${String(error.reason).toUpperCase().replaceAll(' ', '_')}`
  const found = stream instanceof TLSSocket ? stream.authorizationError : undefined
  return found === undefined || found === null ? undefined : String(found)
}

async function ask(connection: Connection, sql: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    connection.query(sql, (error) => {
      if (error === null) resolve()
      else reject(error)
    })
  })
}

/** The character set of binary columns, numbers and times. */
const binary = 63

const byteTypes: ReadonlySet<string> = new Set([
  'STRING',
  'VAR_STRING',
  'VARCHAR',
  'TINY_BLOB',
  'BLOB',
  'MEDIUM_BLOB',
  'LONG_BLOB',
  'GEOMETRY',
])

/** Returns values as text, so that numbers are not rounded and days do not shift. */
function asText(field: Field, bytesIn: ReadonlySet<string>): string | boolean | null {
  if (field.type === 'BIT') {
    const bits = field.buffer()
    if (bits === null) return null
    const number = BigInt(`0x${bits.toString('hex') || '0'}`)
    return field.length === 1 ? number === 1n : String(number)
  }
  if (bytesIn.has(field.name) && byteTypes.has(field.type)) return textOfBytes(field.buffer())
  const text = field.type === 'JSON' ? field.string('utf8') : field.string()
  if (text === null || field.length !== 1) return text
  // MariaDB's boolean is a small integer, so other numbers may occur.
  return field.type === 'TINY' && (text === '0' || text === '1') ? text === '1' : text
}

// oxlint-disable-next-line no-control-regex -- it finds control characters
const controls = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/

/** Returns bytes as text, or in hexadecimal after `0x` if they are not UTF-8. */
function textOfBytes(bytes: Buffer | null): string | null {
  if (bytes === null) return null
  const text = bytes.toString('utf8')
  return isUtf8(bytes) && !controls.test(text) ? text : `0x${bytes.toString('hex')}`
}
