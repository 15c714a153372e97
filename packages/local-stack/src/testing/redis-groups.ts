import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type RedisClientName, formatRedisUsers, redisUserName } from '@postern/installation'
import { findFreePort, loopback } from '../ports.ts'
import { type ManagedProcess, launch } from '../processes.ts'
import { findRedisProgram } from '../redis-program.ts'
import { randomPassword } from '../secrets.ts'
import { makeTestFolder, testInstallFolder } from './cluster.ts'
import { randomRedisPasswords } from './test-redis.ts'

/** Several servers of Redis on this machine, each a process. They end with the process that started them, at the latest. */
export interface TestRedisGroup {
  /** The URLs for the components. Secrets, because they contain passwords. */
  readonly urls: Readonly<Record<RedisClientName, string>>
  /** Of the operator and, among each other, of the servers. */
  readonly admin: { readonly user: string; readonly password: string }
  readonly ports: readonly number[]
  readonly servers: readonly ManagedProcess[]
  stop(): Promise<void>
}

export interface TestSentinels extends TestRedisGroup {
  readonly sentinel: { readonly port: number; readonly password: string }
}

interface Server {
  readonly name: string
  readonly port: number
  readonly lines: readonly string[]
  readonly args?: readonly string[]
}

/** Configuration comes from a file: these servers rewrite theirs. */
async function start(home: string, { name, port, lines, args = [] }: Server): Promise<ManagedProcess> {
  const folder = join(home, name)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const file = join(folder, 'redis.conf')
  const common = [`bind ${loopback}`, `port ${port}`, `dir ${folder}`, 'daemonize no', 'logfile ""']
  await writeFile(file, `${[...common, ...lines].join('\n')}\n`, { mode: 0o600 })
  const { command, env } = await findRedisProgram(testInstallFolder, port, () => undefined)
  return await launch({
    name,
    command,
    args: [file, ...args],
    env,
    cwd: '/',
    logFile: join(home, 'logs', `${name}.log`),
  })
}

/** Creates the users of an installation. The servers use `admin` to log in to each other. */
function makeUsers() {
  const passwords = randomRedisPasswords()
  const admin = { user: redisUserName('admin'), password: passwords.admin }
  return {
    admin,
    lines: [...formatRedisUsers(passwords), `masteruser ${admin.user}`, `masterauth ${admin.password}`],
    urls: (scheme: string, address: string): Record<RedisClientName, string> => {
      const urlOf = (name: RedisClientName): string =>
        `${scheme}://${redisUserName(name)}:${passwords[name]}@${address}`
      return { keys: urlOf('keys'), gateway: urlOf('gateway'), console: urlOf('console') }
    },
  }
}

const forgetful = ['save ""', 'appendonly no']

/** A first server, one that follows it, and a sentinel that makes the other the first when the first is gone for half a second. */
export async function startTestSentinels(): Promise<TestSentinels> {
  const home = await makeTestFolder('sentinel')
  const sentinelPassword = randomPassword()
  const users = makeUsers()
  const [first, second, watching] = [await findFreePort(), await findFreePort(), await findFreePort()]
  const secret = [...users.lines, ...forgetful, 'repl-diskless-sync-delay 0']
  const servers = [
    await start(home, { name: 'first', port: first, lines: secret }),
    await start(home, { name: 'second', port: second, lines: [...secret, `replicaof ${loopback} ${first}`] }),
    await start(home, {
      name: 'sentinel',
      port: watching,
      args: ['--sentinel'],
      lines: [
        `requirepass ${sentinelPassword}`,
        `sentinel monitor main ${loopback} ${first} 1`,
        `sentinel auth-user main ${users.admin.user}`,
        `sentinel auth-pass main ${users.admin.password}`,
        'sentinel down-after-milliseconds main 500',
        'sentinel failover-timeout main 5000',
      ],
    }),
  ]
  return {
    urls: users.urls('redis+sentinel', `${loopback}:${watching}/main?sentinel_password=${sentinelPassword}`),
    admin: users.admin,
    ports: [first, second],
    servers,
    sentinel: { port: watching, password: sentinelPassword },
    stop: async () => void (await Promise.all(servers.map(async (server) => await server.stop()))),
  }
}

/** Servers that are yet to be made one cluster: three that hold keys, and one to follow the first. */
export async function startTestRedisCluster(): Promise<TestRedisGroup & { readonly busPorts: readonly number[] }> {
  const home = await makeTestFolder('cluster')
  const users = makeUsers()
  const ports = new Set<number>()
  while (ports.size < 8) ports.add(await findFreePort())
  const all = [...ports]
  const servers = await Promise.all(
    all.slice(0, 4).map(async (port, index) => {
      const lines = [
        ...users.lines,
        ...forgetful,
        'repl-diskless-sync-delay 0',
        'cluster-enabled yes',
        'cluster-node-timeout 1000',
        `cluster-port ${all[index + 4]}`,
      ]
      return await start(home, { name: `node-${index}`, port, lines })
    }),
  )
  return {
    urls: users.urls(
      'redis+cluster',
      all
        .slice(0, 4)
        .map((port) => `${loopback}:${port}`)
        .join(),
    ),
    admin: users.admin,
    ports: all.slice(0, 4),
    busPorts: all.slice(4),
    servers,
    stop: async () => void (await Promise.all(servers.map(async (server) => await server.stop()))),
  }
}
