import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type RedisClientName, formatRedisUsers, redisUserName } from '@postern/installation'
import { findFreePort, loopback } from '../ports.ts'
import { type ManagedProcess, launch } from '../processes.ts'
import { findRedisProgram } from '../redis-program.ts'
import { randomPassword } from '../secrets.ts'
import { makeTestFolder, testInstallFolder } from './cluster.ts'
import { randomRedisPasswords } from './test-redis.ts'

/** Several Redis servers. They end with this process at the latest. */
export interface TestRedisGroup {
  /** URLs by component; secrets. */
  readonly urls: Readonly<Record<RedisClientName, string>>
  /** For the operator, and for the servers among each other. */
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

/** Sentinels and cluster nodes rewrite their configuration file. */
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

/** Creates the users of an installation, and `admin` for the servers. */
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

/** Starts a master, a replica, and a sentinel that promotes the replica half a second after the master is gone. */
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

/** Starts the servers of a cluster, unconnected: three masters, and a replica of the first. */
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
