import { connect } from 'node:net'
import { join } from 'node:path'
import { loopback } from './ports.ts'
import type { ManagedProcess } from './processes.ts'
import { launch, waitUntilReady } from './processes.ts'
import { findRedisProgram } from './redis-program.ts'

/** A running Redis (or Valkey) that answers. */
export interface Redis extends ManagedProcess {
  readonly port: number
  /** Connection string. A secret: it holds the password. */
  readonly url: string
}

export interface RedisOptions {
  readonly home: string
  readonly port: number
  /** URL-safe characters only: it goes into a connection string and a line of configuration. */
  readonly password: string
  /** Where the distribution's package is unpacked when no server is installed. */
  readonly installFolder: string
  /** Told what takes time, a line each. */
  readonly log?: (line: string) => void
}

const startTimeoutMs = 60_000

/**
 * Starts Redis on the loopback address with a password. It keeps nothing on disk: all that Postern holds there is a
 * cache or a counter, and everything has a time to live.
 */
export async function startRedis(options: RedisOptions): Promise<Redis> {
  const { home, port, password, installFolder, log = () => undefined } = options
  const program = await findRedisProgram(installFolder, port, log)
  const server = await launch({
    name: 'redis',
    command: program.command,
    args: program.args,
    env: program.env,
    cwd: '/',
    logFile: join(home, 'logs', 'redis.log'),
    // Standard input, so that the password is neither in the process list nor in a file.
    input: configuration(program.bind, program.port, password),
  })
  try {
    await waitUntilReady(server, async () => await answers(port, password), { timeoutMs: startTimeoutMs })
  } catch (error) {
    await server.stop()
    throw error
  }
  return Object.assign(server, { port, url: `redis://:${encodeURIComponent(password)}@${loopback}:${port}/0` })
}

function configuration(bind: string, port: number, password: string): string {
  return [
    `bind ${bind}`,
    `port ${port}`,
    'protected-mode yes',
    `requirepass ${password}`,
    'save ""',
    'appendonly no',
    'maxmemory 256mb',
    // When it is full, records of keys that nobody uses go first. By time to live it would be the rate limits' counters.
    'maxmemory-policy volatile-lru',
    'daemonize no',
    'logfile ""',
    '',
  ].join('\n')
}

/** True once the server accepts the password and answers; undefined before. */
async function answers(port: number, password: string): Promise<true | undefined> {
  const { promise, resolve } = Promise.withResolvers<true | undefined>()
  const socket = connect({ host: loopback, port })
  let received = ''
  socket.setTimeout(startTimeoutMs, () => socket.destroy())
  socket.on('error', () => undefined)
  socket.on('close', () => resolve(undefined))
  socket.on('connect', () => socket.write(`AUTH ${password}\r\nPING\r\n`))
  socket.on('data', (chunk) => {
    received += chunk.toString('latin1')
    if (received.includes('+PONG')) resolve(true)
    if (received.includes('\r\n')) socket.end()
  })
  return await promise
}
