import { connect, createServer } from 'node:net'
import { type Revocation, redisRecordKey, redisRevocationChannel } from '@postern/contracts/internal'
import { createCacheCodec } from '@postern/key-cache'
import { type TestRedis, startTestRedis } from '@postern/local-stack/testing'
import { createLogger } from '@postern/service-kit'
import { parseKeyRing } from '@postern/signed-context'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { keyRecord } from '../../test/builders.ts'
import { type RedisCache, type Refused, openRedisCache } from './redis-cache.ts'

const ring = parseKeyRing(`k1:${Buffer.alloc(32, 1).toString('base64url')}`)
const codec = createCacheCodec(ring)
const revocation: Revocation = { kind: 'tenant', seq: 7, tenantId: keyRecord().tenantId, version: 2 }
const both = { commands: true, subscription: true }
const neither = { commands: false, subscription: false }

let server: TestRedis
let operator: Redis
let cache: RedisCache
let lines: { readonly event: string; readonly use?: string; readonly err?: unknown }[]
let refused: Refused[]
let heard: Revocation[]

beforeAll(async () => {
  server = await startTestRedis()
  operator = new Redis(server.url)
})

afterAll(async () => {
  operator?.disconnect()
  await server?.stop()
})

beforeEach(async () => {
  lines = []
  refused = []
  heard = []
  cache = open(server.urls.gateway)
  await vi.waitUntil(() => Object.values(healthOf(cache)).every(Boolean), { timeout: 20_000 })
})

afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

const opened: RedisCache[] = []

/** Messages for caches of earlier tests are ignored. */
function open(url: string): RedisCache {
  const [ofLines, ofRefused, ofHeard] = [lines, refused, heard]
  const logger = createLogger({ service: 'test', level: 'info', write: (line) => void ofLines.push(JSON.parse(line)) })
  const one = openRedisCache({ url, ring, logger, onRefused: (what) => void ofRefused.push(what) })
  opened.push(one)
  one.onRevocation((revoked) => void ofHeard.push(revoked))
  return one
}

function healthOf({ health }: RedisCache) {
  return { commands: health.commands.isHealthy(), subscription: health.subscription.isHealthy() }
}

/** Until what is announced is heard: a subscription may come after its connection. */
async function announce(text: string, isHeard: () => boolean): Promise<void> {
  await expect
    .poll(async () => {
      await operator.publish(redisRevocationChannel, text)
      return isHeard()
    })
    .toBe(true)
}

const told = () => lines.map(({ event, use }) => [event, use].filter((part) => part !== undefined).join(' ')).toSorted()

describe('the record of a key', () => {
  test('is found under its hash, and a missing one is undefined', async () => {
    const record = keyRecord()
    const { key, value } = codec.encodeRecord(record)
    await operator.set(key, value)
    expect(await cache.find(record.hash)).toEqual(record)
    expect(await cache.find(keyRecord().hash)).toBeUndefined()
    expect([refused, lines]).toEqual([[], []])
  })

  test('is ignored if it belongs to another key', async () => {
    const [one, other] = [keyRecord(), keyRecord()]
    await operator.set(redisRecordKey(one.hash), codec.encodeRecord(other).value)
    expect(await cache.find(one.hash)).toBeUndefined()
    expect([refused, told()]).toEqual([['record'], ['cache_record_refused']])
  })
})

test('a slow Redis stays connected, and its answers are not awaited until it is fast again', async () => {
  let slowMs = 120
  // Slower than a command is waited for, and quicker than a connection.
  const slow = createServer((from) => {
    const to = connect(Number(new URL(server.urls.gateway).port), '127.0.0.1')
    for (const socket of [from, to])
      socket.on('error', () => undefined).on('close', () => [from, to].map((each) => each.destroy()))
    from.on('data', (bytes) => to.write(bytes))
    to.on('data', (bytes) => void setTimeout(() => from.write(bytes), slowMs))
  })
  await new Promise<void>((resolve) => void slow.listen(0, '127.0.0.1', resolve))
  const url = new URL(server.urls.gateway)
  const address = slow.address()
  url.port = String(address !== null && typeof address === 'object' ? address.port : '')
  const record = keyRecord()
  const { key, value } = codec.encodeRecord(record)
  await operator.set(key, value)
  const far = open(url.href)
  await vi.waitUntil(() => far.commands.status === 'ready', { timeout: 20_000 })
  expect(await far.find(record.hash)).toBeUndefined()
  slowMs = 0
  await expect.poll(async () => await far.find(record.hash)).toEqual(record)
  slow.close()
})

describe('a revocation', () => {
  test('reaches each listener', async () => {
    const alsoHeard: Revocation[] = []
    cache.onRevocation((one) => void alsoHeard.push(one))
    await announce(codec.encodeMessage(revocation), () => heard.length > 0)
    expect(heard[0]).toEqual(revocation)
    expect(alsoHeard).toEqual(heard)
    expect([refused, lines]).toEqual([[], []])
  })

  test('is ignored if its MAC is not valid', async () => {
    await announce('{}', () => refused.length > 0)
    expect(refused[0]).toBe('announcement')
    expect(told()[0]).toBe('revocation_message_refused')
    expect(heard).toEqual([])
  })

  test('whose subscription fails is logged', async () => {
    const url = new URL(server.urls.gateway)
    await operator.call('ACL', 'SETUSER', 'deaf', 'on', `>${url.password}`, '~*', '+@all', 'resetchannels')
    url.username = 'deaf'
    open(url.href)
    await expect.poll(() => lines).toMatchObject([{ event: 'redis_subscribe_failed', err: { type: 'ReplyError' } }])
  })
})

describe('the connections', () => {
  test('have a name, and send the commands of one tick in one batch', async () => {
    const clients = String(await operator.call('CLIENT', 'LIST'))
    expect(clients.match(/ name=postern-gateway /g)).toHaveLength(2)
    expect(cache.commands.options.enableAutoPipelining).toBe(true)
  })

  test('do not delay a request while Redis is frozen', async () => {
    const record = keyRecord()
    const { key, value } = codec.encodeRecord(record)
    await operator.set(key, value)
    server.kill('SIGSTOP')
    try {
      expect(await cache.find(record.hash)).toBeUndefined()
      expect(healthOf(cache)).toEqual(both)
    } finally {
      server.kill('SIGCONT')
    }
    await expect.poll(async () => await cache.find(record.hash)).toEqual(record)
  })

  test('are logged once when they are lost and restored, and are subscribed again', async () => {
    const lost = ['redis_lost commands', 'redis_lost subscription']
    const back = ['redis_recovered commands', 'redis_recovered subscription']
    for (let times = 1; times <= 2; times += 1) {
      let attempts = 0
      cache.commands.on('error', () => (attempts += 1))
      await server.stop()
      await expect.poll(() => attempts).toBeGreaterThan(3)
      await expect.poll(told).toEqual(lost)
      expect(lines).toMatchObject([{ err: { code: 'ECONNREFUSED' } }, { err: { code: 'ECONNREFUSED' } }])
      expect(healthOf(cache)).toEqual(neither)
      expect(await cache.find(keyRecord().hash)).toBeUndefined()
      await server.start()
      await expect.poll(() => healthOf(cache)).toEqual(both)
      await expect.poll(told).toEqual([...lost, ...back])
      lines.length = 0
    }
    await announce(codec.encodeMessage(revocation), () => heard.length > 0)
  })

  test('end when they are closed', async () => {
    await cache.close()
    await expect.poll(() => healthOf(cache)).toEqual(neither)
    expect(lines).toEqual([])
  })
})
