import { setTimeout as delay } from 'node:timers/promises'
import type { Destination, Route, ServiceProcessName, TestStack } from '@postern/local-stack/testing'
import { Redis } from 'ioredis'
import { Client } from 'pg'
import type { Operation } from './promises.ts'
import { type Direction, type TcpProxy, startTcpProxy } from './tcp-proxy.ts'

/** Something that breaks, and is mended. */
export interface Fault {
  readonly name: string
  /** What it does something to: two faults of one part never last at the same time. */
  readonly part: string
  /** Whether an operation must go on at a gateway, counted from 0, while the fault lasts. */
  readonly spares: (gateway: number, operation: Operation) => boolean
  /** The gateway that dies, counted from 0: its clients may be left without an answer. */
  readonly endsGateway?: number
  /** The gateway that is frozen, counted from 0. */
  readonly freezesGateway?: number
  apply(): Promise<void>
  heal(): Promise<void>
}

/** The proxies between the processes of a stack, made when a process first asks for its way. */
export interface Links {
  readonly route: Route
  find(from: ServiceProcessName, to: Destination): TcpProxy
  close(): Promise<void>
}

/** Makes links for a stack that is about to start: hand `route` to it. */
export function createLinks(): Links {
  const proxies = new Map<string, TcpProxy>()
  return {
    route: async (from, to, url) => {
      const target = new URL(url)
      const name = `${from} ${to}`
      const proxy = proxies.get(name) ?? (await startTcpProxy(Number(target.port)))
      proxies.set(name, proxy)
      target.port = String(proxy.port)
      return target.href.replace(/\/$/, '')
    },
    find: (from, to) => {
      const proxy = proxies.get(`${from} ${to}`)
      if (proxy === undefined) throw new Error(`nothing leads from ${from} to ${to}`)
      return proxy
    },
    close: async () => {
      await Promise.all([...proxies.values()].map(async (proxy) => await proxy.close()))
    },
  }
}

/** Long enough to answer all that stands before a gateway when it wakes. */
const deafMs = 200

/** All faults of a stack with three gateways. The stack is asked for when a fault is applied. */
export function faultsOf(stackOf: () => TestStack, links: Links): Fault[] {
  const killed = (name: ServiceProcessName): Fault => ({
    name: `${name} killed`,
    part: name,
    spares: sparedBy(name),
    ...(name.startsWith('gateway') ? { endsGateway: indexOf(name) } : {}),
    apply: async () => {
      stackOf().process(name).kill('SIGKILL')
      await stackOf().process(name).exited
    },
    heal: async () => await stackOf().restart(name),
  })
  const frozen = (name: ServiceProcessName): Fault => ({
    name: `${name} frozen`,
    part: name,
    spares: sparedBy(name),
    ...(name.startsWith('gateway') ? { freezesGateway: indexOf(name) } : {}),
    apply: async () => stackOf().process(name).kill('SIGSTOP'),
    heal: async () => stackOf().process(name).kill('SIGCONT'),
  })
  /** It wakes a moment before its network: nothing but its lease tells it that a key in its memory may have been revoked. */
  const frozenAndDeaf = (name: ServiceProcessName): Fault => ({
    ...frozen(name),
    name: `${name} frozen, and deaf when it wakes`,
    apply: async () => {
      for (const to of ['keys', 'redis'] as const) links.find(name, to).freeze('down')
      await frozen(name).apply()
    },
    heal: async () => {
      await frozen(name).heal()
      await delay(deafMs)
      for (const to of ['keys', 'redis'] as const) links.find(name, to).heal()
    },
  })
  const isolated = (name: ServiceProcessName): Fault => ({
    name: `${name} cut off from keys and Redis`,
    part: `${name} keys`,
    spares: sparedBy(name),
    apply: async () => {
      for (const to of ['keys', 'redis'] as const) links.find(name, to).cut()
    },
    heal: async () => {
      for (const to of ['keys', 'redis'] as const) links.find(name, to).heal()
    },
  })
  const cut = (from: ServiceProcessName, to: Destination, spares: Fault['spares']): Fault => ({
    name: `${from} cut off from ${to}`,
    part: `${from} ${to}`,
    spares,
    apply: async () => links.find(from, to).cut(),
    heal: async () => links.find(from, to).heal(),
  })
  const silent = (from: ServiceProcessName, to: Destination, direction: Direction, spares: Fault['spares']): Fault => ({
    name: `network from ${direction === 'down' ? `${to} to ${from}` : `${from} to ${to}`} silent${direction === 'both' ? ' both ways' : ''}`,
    part: `${from} ${to}`,
    spares,
    apply: async () => links.find(from, to).freeze(direction),
    heal: async () => links.find(from, to).heal(),
  })
  const redis = (
    name: string,
    whileOn: (client: Redis) => Promise<Repeated | undefined>,
    after?: string[][],
  ): Fault => {
    let client: Redis | undefined
    let repeated: Repeated | undefined
    return {
      name: `Redis ${name}`,
      part: 'redis',
      spares: everything,
      apply: async () => {
        client = new Redis(stackOf().redis.url, { maxRetriesPerRequest: 1 })
        client.on('error', () => undefined)
        repeated = await whileOn(client)
      },
      heal: async () => {
        await repeated?.stop()
        for (const [command = '', ...args] of after ?? []) await client?.call(command, ...args)
        client?.disconnect()
      },
    }
  }
  return [
    killed('gateway-1'),
    killed('keys'),
    killed('findings'),
    frozenAndDeaf('gateway-2'),
    frozen('gateway-2'),
    frozen('keys'),
    frozen('findings'),
    {
      name: 'Redis killed, and started empty',
      part: 'redis',
      spares: everything,
      apply: async () => stackOf().redis.kill('SIGKILL'),
      heal: async () => await stackOf().redis.start(),
    },
    {
      name: 'Redis frozen',
      part: 'redis',
      spares: everything,
      apply: async () => stackOf().redis.kill('SIGSTOP'),
      heal: async () => stackOf().redis.kill('SIGCONT'),
    },
    redis('emptied again and again', async (client) => repeat(100, async () => void (await client.flushall()))),
    redis('cutting off its subscribers', async (client) =>
      repeat(200, async () => void (await client.call('CLIENT', 'KILL', 'TYPE', 'pubsub'))),
    ),
    redis(
      'full',
      async (client) => {
        await client.config('SET', 'maxmemory-policy', 'noeviction')
        await client.config('SET', 'maxmemory', '1mb')
        return undefined
      },
      [
        ['CONFIG', 'SET', 'maxmemory', '256mb'],
        ['CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru'],
      ],
    ),
    redis('going back to the records it held before', rewind),
    databaseSessionsEnded(stackOf),
    isolated('gateway-3'),
    cut('gateway-3', 'keys', sparedBy('gateway-3')),
    silent('gateway-3', 'keys', 'down', sparedBy('gateway-3')),
    silent('gateway-3', 'keys', 'up', sparedBy('gateway-3')),
    silent('gateway-2', 'redis', 'down', everything),
    silent('keys', 'redis', 'both', everything),
    cut('keys', 'database', nothing),
    silent('keys', 'database', 'both', nothing),
    silent('keys', 'database', 'down', nothing),
    cut('findings', 'database', sparedBy('findings')),
  ]
}

const everything: Fault['spares'] = () => true
/** Also keys in memory are refused once the leases have run out. */
const nothing: Fault['spares'] = () => false

/** What goes on without a process. */
function sparedBy(name: ServiceProcessName): Fault['spares'] {
  if (name.startsWith('gateway')) return (gateway) => gateway !== indexOf(name)
  return name === 'findings' ? (_gateway, operation) => operation === 'whoami' : nothing
}

function indexOf(name: ServiceProcessName): number {
  return Number(name.replace('gateway-', '')) - 1
}

interface Repeated {
  stop(): Promise<void>
}

/** Does something at once and then every so many milliseconds, until stopped. */
function repeat(everyMs: number, task: () => Promise<void>): Repeated {
  let running: Promise<void> | undefined
  const once = (): void => {
    running ??= task()
      // What another fault has broken too is tried again.
      .catch(() => undefined)
      .finally(() => {
        running = undefined
      })
  }
  once()
  const timer = setInterval(once, everyMs)
  return {
    stop: async () => {
      clearInterval(timer)
      await running
    },
  }
}

/** Writes over each record, as often as it changes, what was first seen in its place: the tombstone is gone, the key lives. */
async function rewind(client: Redis): Promise<Repeated> {
  const before = new Map<string, string>()
  return repeat(20, async () => {
    const names = await client.keys('postern:key:*')
    for (const name of names) {
      const value = await client.get(name)
      const old = before.get(name)
      if (old === undefined && value !== null) before.set(name, value)
      if (old !== undefined && old !== value) await client.set(name, old)
    }
  })
}

/** The superuser ends every session of the keys service, as soon as it has opened another. */
function databaseSessionsEnded(stackOf: () => TestStack): Fault {
  let client: Client | undefined
  let repeated: Repeated | undefined
  return {
    name: 'database sessions of keys ended again and again',
    part: 'keys database',
    spares: nothing,
    apply: async () => {
      const superuser = new Client({ connectionString: stackOf().database.url('superuser') })
      await superuser.connect()
      client = superuser
      repeated = repeat(100, async () => {
        await superuser.query({
          text: `select pg_terminate_backend(pid) from pg_stat_activity
                  where datname = current_database() and application_name = 'postern-keys'`,
        })
      })
    },
    heal: async () => {
      await repeated?.stop()
      await client?.end()
    },
  }
}
