import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type KeyRecord, type Revocation, redisRevocationChannel } from '@postern/contracts/internal'
import { createCacheCodec, storeRecordScript } from '@postern/key-cache'
import {
  type TestRedisGroup,
  randomRing,
  startTestRedisCluster,
  startTestSentinels,
} from '@postern/local-stack/testing'
import { createLogger } from '@postern/service-kit'
import { type RedisClient, openRedisClient } from '@postern/service-kit/redis'
import { parseKeyRing } from '@postern/signed-context'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openRedisCache } from '../src/authenticate/redis-cache.ts'
import { createTokenSource } from '../src/limit/token-source.ts'

const ring = parseKeyRing(randomRing())
const codec = createCacheCodec(ring)
const quiet = createLogger({ service: 'gateway', level: 'fatal', write: () => undefined })

function newRecord(): KeyRecord {
  return {
    hash: randomBytes(32).toString('hex'),
    id: randomUUID(),
    tenantId: randomUUID(),
    tenantName: 'Harbourline',
    tenantStatus: 'active',
    tenantVersion: 1,
    label: 'Nightly',
    lastFour: 'abcd',
    scopes: ['read:findings'],
    allowedAddresses: [],
    expiresAt: Date.now() + 3_600_000,
    revoked: false,
    version: 1,
    readAt: Date.now(),
    keyLimit: 100,
    tenantLimit: 100,
  }
}

/** A gateway's connections to a group, and one that writes as the keys service does. */
function open(url: string) {
  const cache = openRedisCache({ url, ring, logger: quiet })
  const keys = openRedisClient(url, { name: 'keys', commandTimeoutMs: 50 })
  keys.on('error', () => undefined)
  const heard: Revocation[] = []
  cache.onRevocation((revocation) => heard.push(revocation))
  return {
    cache,
    keys,
    heard,
    close: async () => {
      await cache.close()
      keys.disconnect()
    },
  }
}

async function store(keys: RedisClient, record: KeyRecord): Promise<void> {
  const { key, value, endsAt } = codec.encodeRecord(record)
  await keys.eval(storeRecordScript, 1, key, value, endsAt)
}

/** Tries until it works: whoever is in between says so by rejecting. */
async function inTheEnd<T>(work: () => Promise<T | undefined>): Promise<T> {
  const deadline = performance.now() + 60_000
  for (;;) {
    const value = await work().catch(() => undefined)
    if (value !== undefined) return value
    if (performance.now() > deadline) throw new Error('it has not come to pass in a minute')
    await delay(50)
  }
}

/** Stores a record and finds it as the gateway does; announces a revocation and hears of it; leases tokens. */
async function expectAllToWork({ cache, keys, heard }: ReturnType<typeof open>): Promise<void> {
  // In a cluster they lie on several nodes.
  const records = Array.from({ length: 12 }, newRecord)
  for (const record of records) await inTheEnd(async () => await store(keys, record).then(() => true))
  for (const record of records) {
    expect(await inTheEnd(async () => await cache.find(record.hash))).toEqual(record)
  }
  const seq = heard.length + 1
  await inTheEnd(async () => {
    await keys.publish(
      redisRevocationChannel,
      codec.encodeMessage({ kind: 'tenant', seq, tenantId: randomUUID(), version: 2 }),
    )
    await delay(20)
    return heard.length >= seq ? true : undefined
  })
  const source = createTokenSource(cache.commands)
  const tenant = randomBytes(8).toString('hex')
  const lease = await inTheEnd(async () => await source.lease(`{${tenant}}:tenant`, 100, 10))
  expect(lease).toMatchObject({ granted: 10, left: 90 })
}

describe.each([
  ['Sentinel', startSentinels],
  ['a cluster', startCluster],
])('with %s', (_name, startGroup) => {
  let group: TestRedisGroup
  let opened: ReturnType<typeof open>

  beforeAll(async () => {
    group = await startGroup()
    opened = open(group.url)
  })
  afterAll(async () => {
    await opened.close()
    await group.stop()
  })

  test('keys are found, revocations heard and tokens counted', async () => await expectAllToWork(opened))

  test('a request waits for no server that has died, and all goes on with the one that takes its place', async () => {
    const records = Array.from({ length: 6 }, newRecord)
    for (const record of records) await inTheEnd(async () => await store(opened.keys, record).then(() => true))
    const [first] = group.servers
    first?.kill('SIGKILL')
    await first?.exited
    // Found or not: an answer comes, and never a rejection.
    for (const { hash } of records) await opened.cache.find(hash)
    await expectAllToWork(opened)
  })
})

async function ask(port: number, password: string, ...args: readonly string[]): Promise<unknown> {
  const [command = '', ...rest] = args
  const redis = new Redis({ host: '127.0.0.1', port, password, lazyConnect: true, retryStrategy: () => null })
  redis.on('error', () => undefined)
  try {
    await redis.connect()
    return await redis.call(command, ...rest)
  } finally {
    redis.disconnect()
  }
}

async function startSentinels(): Promise<TestRedisGroup> {
  const group = await startTestSentinels()
  const { port, password } = group.sentinel
  // Who knows no second server could make none the first.
  await inTheEnd(async () => {
    const text = JSON.stringify(await ask(port, password, 'SENTINEL', 'REPLICAS', 'main'))
    return text.includes('"master-link-status","ok"') ? true : undefined
  })
  return group
}

async function startCluster(): Promise<TestRedisGroup> {
  const group = await startTestRedisCluster()
  const { ports, busPorts, password } = group
  const [first = 0, second = 0, third = 0, follower = 0] = ports
  for (const port of ports) await inTheEnd(async () => await ask(port, password, 'PING'))
  const shares = [
    [first, '0', '5460'],
    [second, '5461', '10922'],
    [third, '10923', '16383'],
  ] as const
  for (const [port, from, to] of shares) await ask(port, password, 'CLUSTER', 'ADDSLOTSRANGE', from, to)
  for (const [index, port] of ports.entries()) {
    await ask(port, password, 'CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1))
    if (port !== first)
      await ask(first, password, 'CLUSTER', 'MEET', '127.0.0.1', String(port), String(busPorts[index]))
  }
  const id = await ask(first, password, 'CLUSTER', 'MYID')
  await inTheEnd(async () => await ask(follower, password, 'CLUSTER', 'REPLICATE', String(id)))
  for (const port of ports) {
    await inTheEnd(async () => {
      const text = String(await ask(port, password, 'CLUSTER', 'INFO'))
      return text.includes('cluster_state:ok') && text.includes('cluster_known_nodes:4') ? true : undefined
    })
  }
  await inTheEnd(async () => {
    const text = String(await ask(follower, password, 'INFO', 'replication'))
    return text.includes('master_link_status:up') ? true : undefined
  })
  return group
}
