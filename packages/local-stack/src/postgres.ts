import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client, DatabaseError } from 'pg'
import { loopback } from './ports.ts'
import { findPostgresBinaries } from './postgres-binaries.ts'
import { placePostgresFolder, postgresEnv, prepareData } from './postgres-data.ts'
import type { ManagedProcess } from './processes.ts'
import { launch, waitUntilReady } from './processes.ts'
import type { ServerAccount } from './server-account.ts'
import { serverAccount } from './server-account.ts'

/** A running PostgreSQL that accepts connections. */
export interface Postgres extends ManagedProcess {
  readonly host: string
  readonly port: number
  /** Holds the data and nothing else. Usually inside the home; see `placePostgresFolder`. */
  readonly folder: string
  /** Connection string of the superuser. A secret: it holds the password. */
  readonly superuserUrl: (database: string) => string
}

export interface PostgresOptions {
  readonly home: string
  readonly port: number
  /** Password of the superuser `postgres`, set when the data directory is made. */
  readonly password: string
  /** False gives up the data's safety in a crash for speed: for tests only. */
  readonly durable: boolean
  /** Default 200. */
  readonly maxConnections?: number
  /** Settings of the server that come before ours. None may be a secret: they are in the list of processes. */
  readonly settings?: Readonly<Record<string, string>>
  /** Variables for the server, beside those that it always has. */
  readonly env?: Readonly<Record<string, string>>
  /** Told what was found and mended, a line each. */
  readonly log?: (line: string) => void
}

const startTimeoutMs = 60_000

/**
 * Starts PostgreSQL in `<home>/postgres`, making the data directory first when there is none. It listens on the
 * loopback address only, has no Unix socket, and asks every user for a password (scram-sha-256). The caller makes sure
 * that no other start uses the same home.
 */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const account = serverAccount()
  if (account !== undefined && process.platform !== 'linux') {
    throw new Error('PostgreSQL does not run as root: start postern as an ordinary user')
  }
  const { home, password, durable, log = () => undefined } = options
  const binaries = await findPostgresBinaries(account)
  const folder = await placePostgresFolder(home, account, log)
  const logFile = join(home, 'logs', 'initdb.log')
  const data = await prepareData(binaries, folder, { password, durable, logFile, log }, account)
  return await run(binaries.postgres, folder, data, options, account)
}

async function run(
  command: string,
  folder: string,
  data: string,
  options: PostgresOptions,
  account: ServerAccount | undefined,
): Promise<Postgres> {
  const { port, password, durable, maxConnections = 200 } = options
  const settings = {
    listen_addresses: loopback,
    port: String(port),
    unix_socket_directories: '',
    max_connections: String(maxConnections),
    password_encryption: 'scram-sha-256',
    shared_buffers: '128MB',
    timezone: 'UTC',
    log_timezone: 'UTC',
    lc_messages: 'C',
    ...(durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', max_wal_size: '2GB' }),
    ...options.settings,
  }
  const server = await launch({
    name: 'postgres',
    command,
    args: ['-D', data, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
    env: { ...postgresEnv, ...options.env },
    cwd: '/',
    logFile: join(options.home, 'logs', 'postgres.log'),
    account,
    // SIGINT is PostgreSQL's fast shutdown: it ends open sessions; SIGTERM would wait for their clients.
    stopSignal: 'SIGINT',
  })
  const superuserUrl = (database: string): string =>
    `postgres://postgres:${encodeURIComponent(password)}@${loopback}:${port}/${encodeURIComponent(database)}`
  try {
    await waitUntilReady(server, async () => await answers(superuserUrl('postgres'), data, server.pid), {
      timeoutMs: startTimeoutMs,
    })
  } catch (error) {
    await server.stop()
    throw error
  }
  return {
    name: server.name,
    pid: server.pid,
    logFile: server.logFile,
    exited: server.exited,
    get running() {
      return server.running
    },
    kill: (signal) => server.kill(signal),
    stop: async (timeoutMs) => await server.stop(timeoutMs),
    host: loopback,
    port,
    folder,
    superuserUrl,
  }
}

/** True once the server answers a query; undefined while it cannot be reached or is still starting. */
async function answers(url: string, data: string, pid: number): Promise<true | undefined> {
  // Another PostgreSQL may have taken the port in the meantime: ours says when it is ready, and ends when it cannot be.
  if (!(await saysReady(data, pid))) return undefined
  // Not less: where we are busy ourselves, each of its answers waits for us, and every attempt would be given up half-way.
  const client = new Client({ connectionString: url, connectionTimeoutMillis: startTimeoutMs })
  // The server may end a connection while it starts or stops; the query's own failure says so.
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query('select 1')
    return true
  } catch (error) {
    if (!(error instanceof DatabaseError)) return undefined
    // 57P03 cannot_connect_now: it starts, or recovers from a crash.
    if (error.code === '57P03') return undefined
    // 28P01 invalid_password.
    if (error.code === '28P01') {
      throw new Error(`the database in ${data} has another password than the secrets beside it: move both away`, {
        cause: error,
      })
    }
    throw error
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Whether the server's own note, its number first and its state last, says that it accepts connections, if only to read. */
async function saysReady(data: string, pid: number): Promise<boolean> {
  const note = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '')
  const lines = note.split('\n').map((line) => line.trim())
  return lines[0] === String(pid) && lines.some((line) => line === 'ready' || line === 'standby')
}
