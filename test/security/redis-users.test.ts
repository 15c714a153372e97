/**
 * @promise Revocation: The Redis login of console, gateway and keys allows only the commands, keys and channels that the component
 * uses.
 */

import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { redisHeartbeatChannel, redisRecordKey, redisRevocationChannel } from '@postern/contracts/internal'
import { type RedisClientName, initSecrets, redisClients, rotateSecret, rotationSteps } from '@postern/installation'
import {
  type InstalledRedis,
  makeTestFolder,
  redisServerNames,
  startInstalledRedis,
  startTestRedis,
} from '@postern/local-stack/testing'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'

// An attacker has the Redis login of a component. All other tests run with the same logins, so their rights suffice.

const record = redisRecordKey('0'.repeat(64))
const heartbeat = redisHeartbeatChannel('one')
const session = 'postern:console:session:one'
const limit = 'postern:rate:{t}:tenant'

const open: Redis[] = []

function connect(url: string): Redis {
  const client = new Redis(url, { enableReadyCheck: false, disableClientInfo: true, retryStrategy: () => null })
  client.on('error', () => undefined)
  open.push(client)
  return client
}

async function answerOf(client: Redis, [command = '', ...rest]: readonly string[]): Promise<string> {
  const answer: unknown = await client.call(command, ...rest).catch((error: unknown) => error)
  if (!(answer instanceof Error)) return 'done'
  return answer.message.split(' ')[0] ?? ''
}

/** Commands that only the operator may run. */
const administration = [
  ['ACL', 'SETUSER', 'default', 'on', 'nopass', '+@all', '~*', '&*'],
  ['ACL', 'SETUSER', 'postern-console', '+@all'],
  ['ACL', 'GETUSER', 'postern-keys'],
  ['ACL', 'LIST'],
  ['CLIENT', 'KILL', 'TYPE', 'pubsub'],
  ['CLIENT', 'LIST'],
  ['CLIENT', 'PAUSE', '1000'],
  ['CONFIG', 'SET', 'maxmemory', '1'],
  ['CONFIG', 'GET', '*'],
  ['FLUSHALL'],
  ['FLUSHDB'],
  ['SWAPDB', '0', '1'],
  ['KEYS', '*'],
  ['SCAN', '0'],
  ['RANDOMKEY'],
  ['MONITOR'],
  ['SHUTDOWN', 'NOSAVE'],
  ['REPLICAOF', '127.0.0.1', '1'],
  ['SCRIPT', 'KILL'],
  ['SCRIPT', 'FLUSH'],
  ['FUNCTION', 'LOAD', '#!lua name=x'],
  ['MODULE', 'LIST'],
  ['SAVE'],
  ['INFO'],
  ['SLOWLOG', 'GET'],
  ['PSUBSCRIBE', '*'],
  ['PUBSUB', 'CHANNELS'],
  ['MIGRATE', '127.0.0.1', '1', record, '0', '1'],
  ['RESTORE', record, '0', 'x'],
  ['SORT', record],
]

const readsRecord = "return redis.call('get', 'postern:key:{" + '0'.repeat(64) + "}')"

const refusals: Readonly<Record<RedisClientName, readonly (readonly string[])[]>> = {
  console: [
    ['GET', record],
    ['EXISTS', record],
    ['SET', record, 'x'],
    ['UNLINK', record],
    ['EVAL', readsRecord, '0'],
    ['GET', limit],
    ['DEL', limit],
    ['SET', 'elsewhere', 'x'],
    ['PUBLISH', redisRevocationChannel, 'x'],
    ['PUBLISH', heartbeat, 'x'],
    ['SUBSCRIBE', redisRevocationChannel],
  ],
  gateway: [
    ['SET', record, 'x'],
    ['DEL', record],
    ['INCR', record],
    ['PEXPIRE', record, '1'],
    ['EVAL', "return redis.call('set', KEYS[1], 'x')", '1', record],
    ['EVAL', "return redis.call('pexpire', 'postern:key:{" + '0'.repeat(64) + "}', 1)", '0'],
    ['GET', session],
    ['INCR', session],
    ['PUBLISH', redisRevocationChannel, 'x'],
    ['SUBSCRIBE', 'elsewhere'],
  ],
  keys: [
    ['DEL', record],
    ['GET', session],
    ['SET', session, 'x'],
    ['GET', limit],
    ['SET', limit, '1'],
    ['EVAL', "return redis.call('incr', 'postern:rate:{t}:tenant')", '0'],
    ['PUBLISH', heartbeat, 'x'],
    ['SUBSCRIBE', redisRevocationChannel],
  ],
}

/** Of the same kinds, what each is there for. */
const controls: Readonly<Record<RedisClientName, readonly (readonly string[])[]>> = {
  console: [
    ['HSET', session, 'seen', '1'],
    ['EVAL', "return redis.call('exists', KEYS[1])", '1', session],
    ['UNLINK', session],
  ],
  gateway: [
    ['GET', record],
    ['INCR', limit],
    ['PUBLISH', heartbeat, 'x'],
    ['SUBSCRIBE', redisRevocationChannel, heartbeat],
  ],
  keys: [
    ['SET', record, 'x'],
    ['PUBLISH', redisRevocationChannel, 'x'],
  ],
}

describe.each(redisServerNames)('with the files of secrets init, %s', (product) => {
  let folder: string
  let server: InstalledRedis | undefined

  beforeAll(async () => {
    folder = await makeTestFolder('installation')
    await initSecrets(folder)
    server = await startInstalledRedis(product, join(folder, 'redis'))
  })
  afterEach(() => {
    for (const client of open.splice(0)) client.disconnect()
  })
  afterAll(async () => {
    await server?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  /** Of the running server; skips the test on a machine without it. */
  function portOf(context: { skip(note: string): void }): number {
    if (server === undefined) context.skip(`this machine has no ${product}`)
    return server?.port ?? 0
  }

  async function urlOf(name: RedisClientName | 'admin', port: number): Promise<string> {
    if (name === 'admin') {
      const password = (await readFile(join(folder, 'password-redis-admin'), 'utf8')).trim().replace(/^[ab]:|,.*$/g, '')
      return `redis://postern-admin:${password}@127.0.0.1:${port}`
    }
    const url = (await readFile(join(folder, name, 'POSTERN_REDIS_URL'), 'utf8')).trim()
    return url.replace('@redis:6379', `@127.0.0.1:${port}`)
  }

  test.for(redisClients)('gives the login of %s its own work and nothing else', async (name, context) => {
    const port = portOf(context)
    const url = await urlOf(name, port)
    const client = connect(url)
    const tried = [...administration, ...refusals[name]]
    const allowed: string[] = []
    for (const command of tried) {
      if ((await answerOf(client, command)) !== 'NOPERM') allowed.push(command.join(' '))
    }
    // Inside a script the refusal is an error of the script.
    expect(allowed.filter((command) => !command.startsWith('EVAL'))).toEqual([])
    for (const script of tried.filter(([command]) => command === 'EVAL')) {
      expect(await answerOf(client, script), script.join(' ')).not.toBe('done')
    }
    for (const command of controls[name]) expect(await answerOf(client, command), command.join(' ')).toBe('done')
  })

  test('no component has a command of @admin or @dangerous', async (context) => {
    const admin = connect(await urlOf('admin', portOf(context)))
    const categories = await Promise.all(
      ['admin', 'dangerous'].map(async (name) => await admin.call('ACL', 'CAT', name)),
    )
    const forbidden = new Set(categories.flat())
    expect(forbidden.has('info')).toBe(true)
    for (const name of redisClients) {
      const described = JSON.stringify(await admin.call('ACL', 'GETUSER', `postern-${name}`))
      const granted = [...described.matchAll(/[ "]\+([\w@|]+)/g)].map(([, command = '']) => command)
      expect(granted).toContain('ping')
      expect(granted.filter((command) => command.startsWith('@') || forbidden.has(command))).toEqual([])
    }
  })

  test('connections without a login, or as the user default, are rejected', async (context) => {
    const port = portOf(context)
    expect(await answerOf(connect(`redis://127.0.0.1:${port}`), ['PING'])).toBe('NOAUTH')
    const { password } = new URL(await urlOf('admin', port))
    expect(await answerOf(connect(`redis://default:${password}@127.0.0.1:${port}`), ['PING'])).toBe('WRONGPASS')
  })

  test('users.acl can be reloaded while Redis runs, and a rotation closes no connection', async (context) => {
    const port = portOf(context)
    const before = connect(await urlOf('console', port))
    expect(await answerOf(before, ['PING'])).toBe('done')
    const old = await urlOf('console', port)
    const admin = connect(await urlOf('admin', port))
    for (const step of rotationSteps) {
      for (const name of [...redisClients, 'admin']) await rotateSecret(folder, `password-redis-${name}`, step)
      await initSecrets(folder)
      const lines = (await readFile(join(folder, 'redis', 'users.acl'), 'utf8')).trim().split('\n')
      for (const line of lines)
        expect(await answerOf(admin, ['ACL', 'SETUSER', ...line.split(' ').slice(1)])).toBe('done')
      expect(await answerOf(connect(await urlOf('console', port)), ['PING'])).toBe('done')
      expect(await answerOf(connect(old), ['PING'])).toBe(step === 'retire' ? 'WRONGPASS' : 'done')
    }
    expect(await answerOf(before, ['PING'])).toBe('done')
    expect(await answerOf(connect(await urlOf('admin', port)), ['PING'])).toBe('done')
  })
})

test('tests give components the same rights as an installation', async () => {
  const server = await startTestRedis()
  try {
    expect(await answerOf(connect(server.urls.console), ['GET', record])).toBe('NOPERM')
    expect(await answerOf(connect(server.url), ['GET', record])).toBe('done')
  } finally {
    await server.stop()
  }
})
