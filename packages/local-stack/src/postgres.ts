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

export interface Postgres extends ManagedProcess {
  readonly port: number
  readonly folder: string
  /** A secret. */
  readonly superuserUrl: (database: string) => string
}

export interface PostgresOptions {
  readonly home: string
  readonly port: number
  readonly password: string
  /** False is faster and can lose data in a crash; for tests. */
  readonly durable: boolean
  readonly maxConnections?: number
  /** Override ours. They are visible in the process list, so they must not be secret. */
  readonly settings?: Readonly<Record<string, string>>
  readonly env?: Readonly<Record<string, string>>
  readonly log?: (line: string) => void
}

/** Loopback address only. Callers must prevent two starts with the same home. */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const account = serverAccount()
  if (account !== undefined && process.platform !== 'linux') {
    throw new Error('PostgreSQL does not run as root. Start postern as an ordinary user.')
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
    // SIGTERM would wait for clients to disconnect.
    stopSignal: 'SIGINT',
  })
  const superuserUrl = (database: string): string =>
    `postgres://postgres:${encodeURIComponent(password)}@${loopback}:${port}/${encodeURIComponent(database)}`
  await waitUntilReady(server, async () => await isAnswering(superuserUrl('postgres'), data, server.pid))
  return Object.assign(server, { port, folder, superuserUrl })
}

/** Returns false while the server starts. */
async function isAnswering(url: string, data: string, pid: number): Promise<boolean> {
  // Another PostgreSQL may use the port.
  if (!(await isPostmasterReady(data, pid))) return false
  // On a busy machine a shorter timeout would abort every attempt.
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 60_000 })
  // The query below reports the failure.
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query('select 1')
    return true
  } catch (error) {
    if (!(error instanceof DatabaseError)) return false
    // 57P03 cannot_connect_now: it is starting or recovering.
    if (error.code === '57P03') return false
    // 28P01 invalid_password.
    if (error.code === '28P01') {
      const problem = `The password of the database in ${data} differs from the one in the secrets file. Move both away.`
      throw new Error(problem, { cause: error })
    }
    throw error
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Whether `postmaster.pid` names this process and a state that accepts connections. */
async function isPostmasterReady(data: string, pid: number): Promise<boolean> {
  const note = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '')
  const lines = note.split('\n').map((line) => line.trim())
  return lines[0] === String(pid) && lines.some((line) => line === 'ready' || line === 'standby')
}
