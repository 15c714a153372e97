import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Client } from 'pg'
import { type Fault, type Repeated, type World, everything, nothing, patienceMs, repeat, until } from './fault.ts'

/** Faults of Redis and PostgreSQL. */
export function storeFaults(worldOf: () => World): Fault[] {
  return [...redisFaults(worldOf), ...postgresFaults(worldOf)]
}

/** Longer than a running server needs to respond on a busy machine. */
const silenceMs = 1000

/** Resolves when a server no longer responds. */
async function unanswered(what: string, ask: () => Promise<unknown>): Promise<void> {
  await until(`${what} does not answer`, async () => {
    const answer = ask().then(
      () => 'answered',
      () => 'failed',
    )
    return (await Promise.race([answer, delay(silenceMs, 'silent')])) !== 'answered'
  })
}

function redisFaults(worldOf: () => World): Fault[] {
  const away = (
    name: string,
    apply: () => Promise<void>,
    heal: () => Promise<void>,
    given: Partial<Fault> = {},
  ): Fault => ({
    name: `Redis ${name}`,
    part: 'redis',
    spares: everything,
    apply,
    seen: async () => {
      await unanswered('Redis', async () => {
        const client = new Redis(worldOf().stack.redis.url, { retryStrategy: () => null, maxRetriesPerRequest: 0 })
        client.on('error', () => undefined)
        await client.ping().finally(() => client.disconnect())
      })
    },
    heal,
    ...given,
  })
  /** A fault made by commands, with a counter that proves its effect. */
  const by = (name: string, whileOn: (client: Redis) => Promise<Done>, given: Partial<Fault> = {}): Fault => {
    let client: Redis | undefined
    let done: Done | undefined
    return {
      name: `Redis ${name}`,
      part: 'redis',
      spares: everything,
      inShortForm: true,
      apply: async () => {
        client = new Redis(worldOf().stack.redis.url, { maxRetriesPerRequest: 1 })
        client.on('error', () => undefined)
        done = await whileOn(client)
      },
      seen: async () => await until(`Redis ${name}`, async () => ((await done?.count()) ?? 0) > 0),
      heal: async () => {
        await done?.stop()
        client?.disconnect()
      },
      ...given,
    }
  }
  const redis = () => worldOf().stack.redis
  const start = async (): Promise<void> => await redis().start()
  return [
    away('killed, and started empty', async () => redis().kill('SIGKILL'), start, { inShortForm: true }),
    away('ended in order, and started empty', async () => await redis().stop(), start),
    away(
      'frozen',
      async () => redis().kill('SIGSTOP'),
      async () => redis().kill('SIGCONT'),
      { isFreeze: true },
    ),
    by('emptied again and again', async (client) => {
      let removed = 0
      const { stop } = repeat(100, async () => {
        const held = await client.dbsize()
        await client.flushall()
        removed += held
      })
      return { stop, count: async () => removed }
    }),
    by('cutting off its subscribers', async (client) => {
      let ended = 0
      const { stop } = repeat(200, async () => {
        ended += Number(await client.call('CLIENT', 'KILL', 'TYPE', 'pubsub'))
      })
      return { stop, count: async () => ended }
    }),
    by('full', async (client) => {
      await client.config('RESETSTAT')
      await client.config('SET', 'maxmemory-policy', 'noeviction')
      await client.config('SET', 'maxmemory', '1mb')
      return {
        stop: async () => {
          await client.config('SET', 'maxmemory', '256mb')
          await client.config('SET', 'maxmemory-policy', 'volatile-lru')
        },
        count: async () => Number(/errorstat_OOM:count=(\d+)/.exec(await client.info('errorstats'))?.[1] ?? 0),
      }
    }),
    by('going back to the records it held before', rewind),
  ]
}

interface Done extends Repeated {
  /** How often it had an effect. */
  count(): Promise<number>
}

/** Overwrites each changed record with its first version, so that tombstones disappear. */
async function rewind(client: Redis): Promise<Done> {
  const before = new Map<string, string>()
  let written = 0
  const { stop } = repeat(20, async () => {
    const names = await client.keys('postern:key:*')
    for (const name of names) {
      const value = await client.get(name)
      const old = before.get(name)
      if (old === undefined && value !== null) before.set(name, value)
      if (old === undefined || old === value) continue
      await client.set(name, old)
      written += 1
    }
  })
  return { stop, count: async () => written }
}

function postgresFaults(worldOf: () => World): Fault[] {
  const url = (): string => worldOf().stack.database.url('superuser')
  const away = (
    name: string,
    apply: () => Promise<void>,
    heal: () => Promise<void>,
    given: Partial<Fault> = {},
  ): Fault => ({
    name: `PostgreSQL ${name}`,
    part: 'database',
    spares: nothing,
    apply,
    seen: async () => {
      await unanswered('PostgreSQL', async () => {
        const client = await connect(url())
        await client.end()
      })
    },
    heal,
    ...given,
  })
  const postgres = () => worldOf().postgres
  const restart = async (): Promise<void> => await postgres().restart()
  return [
    away('killed', async () => await postgres().kill('SIGKILL'), restart, { inShortForm: true }),
    away('ended in order, and started again', async () => await postgres().stop(), restart),
    away(
      'frozen',
      async () => await postgres().kill('SIGSTOP'),
      async () => await postgres().kill('SIGCONT'),
      { isFreeze: true },
    ),
    sessionsEnded(url),
  ]
}

/** Ends every session of the keys service as the superuser, after each reconnect. */
function sessionsEnded(url: () => string): Fault {
  let client: Client | undefined
  let repeated: Repeated | undefined
  let ended = 0
  return {
    name: 'PostgreSQL ending the sessions of keys again and again',
    part: 'database links',
    spares: nothing,
    inShortForm: true,
    apply: async () => {
      ended = 0
      repeated = repeat(100, async () => {
        try {
          client ??= await connect(url())
          const { rowCount } = await client.query({
            text: `select pg_terminate_backend(pid) from pg_stat_activity
                    where datname = current_database() and application_name = 'postern-keys'`,
          })
          ended += rowCount ?? 0
        } catch {
          // Another fault has ended it as well.
          await client?.end().catch(() => undefined)
          client = undefined
        }
      })
    },
    seen: async () => await until('a session that was ended', () => ended > 0),
    heal: async () => {
      await repeated?.stop()
      await client?.end().catch(() => undefined)
      client = undefined
    },
  }
}

/** A long time limit, because this process is busy with the load. */
async function connect(connectionString: string): Promise<Client> {
  const client = new Client({ connectionString, connectionTimeoutMillis: patienceMs })
  client.on('error', () => undefined)
  await client.connect()
  return client
}
