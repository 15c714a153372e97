import { connect } from 'node:net'
import { join } from 'node:path'
import {
  type RedisClientName,
  type RedisLogin,
  type RedisPasswords,
  formatRedisUsers,
  redisUserName,
} from '@postern/installation'
import { parseLoginPasswords } from '@postern/tenant-db'
import { loopback } from './ports.ts'
import type { ManagedProcess } from './processes.ts'
import { launch, waitUntilReady } from './processes.ts'
import { findRedisProgram } from './redis-program.ts'

export interface Redis extends ManagedProcess {
  readonly port: number
  /** The login with all rights; a secret. */
  readonly url: string
  /** Minimal rights per component; secrets. */
  readonly urls: Readonly<Record<RedisClientName, string>>
}

export interface RedisOptions {
  readonly home: string
  readonly port: number
  readonly passwords: RedisPasswords
  readonly installFolder: string
  readonly log?: (line: string) => void
}

const answerTimeoutMs = 60_000

export async function startRedis(options: RedisOptions): Promise<Redis> {
  const { home, port, passwords, installFolder, log = () => undefined } = options
  const passwordOf = (login: RedisLogin): string => parseLoginPasswords(passwords[login])[0].password
  const urlOf = (login: RedisLogin): string =>
    `redis://${redisUserName(login)}:${encodeURIComponent(passwordOf(login))}@${loopback}:${port}/0`
  const program = await findRedisProgram(installFolder, port, log)
  const server = await launch({
    name: 'redis',
    command: program.command,
    args: program.args,
    env: program.env,
    cwd: '/',
    logFile: join(home, 'logs', 'redis.log'),
    // Passwords must not be in the process list or in a file.
    input: configuration(program.bind, program.port, passwords),
  })
  await waitUntilReady(server, async () => await answersPing(port, passwordOf('admin')))
  const urls = { keys: urlOf('keys'), gateway: urlOf('gateway'), console: urlOf('console') }
  return Object.assign(server, { port, url: urlOf('admin'), urls })
}

function configuration(bind: string, port: number, passwords: RedisPasswords): string {
  return [
    `bind ${bind}`,
    `port ${port}`,
    'protected-mode yes',
    ...formatRedisUsers(passwords),
    'save ""',
    'appendonly no',
    'maxmemory 256mb',
    // Eviction by time to live would remove rate limit counters.
    'maxmemory-policy volatile-lru',
    'daemonize no',
    'logfile ""',
    '',
  ].join('\n')
}

export async function answersPing(port: number, password?: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect({ host: loopback, port })
  let received = ''
  socket.setTimeout(answerTimeoutMs, () => socket.destroy())
  socket.on('error', () => undefined)
  socket.on('close', () => resolve(false))
  const login = password === undefined ? '' : `AUTH ${redisUserName('admin')} ${password}\r\n`
  socket.on('connect', () => socket.write(`${login}PING\r\n`))
  socket.on('data', (chunk) => {
    received += chunk.toString('latin1')
    if (received.includes(password === undefined ? '-NOAUTH' : '+PONG')) resolve(true)
    if (received.includes('\r\n')) socket.end()
  })
  return await promise
}
