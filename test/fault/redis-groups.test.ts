import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { KeyRecord, Revocation } from '@postern/contracts/internal'
import {
  type TestRedisGroup,
  randomRing,
  startTestRedisCluster,
  startTestSentinels,
} from '@postern/local-stack/testing'
import { parseKeyRing } from '@postern/signed-context'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createLogger } from '../../packages/service-kit/src/logger.ts'
import { createMetrics } from '../../packages/service-kit/src/metrics.ts'
import { openRedis } from '../../services/console/src/redis.ts'
import { createSeal } from '../../services/console/src/session/seal.ts'
import { randomId } from '../../services/console/src/session/sessions.ts'
import { type Owner, type SessionStore, createSessionStore } from '../../services/console/src/session/store.ts'
import { openRedisCache } from '../../services/gateway/src/authenticate/redis-cache.ts'
import { createTokenSource } from '../../services/gateway/src/limit/token-source.ts'
import { openKeyCache } from '../../services/keys/src/key-cache.ts'

const ring = parseKeyRing(randomRing())
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

/** The clients of a gateway, the keys service and a console for a group. */
function open({ urls }: TestRedisGroup) {
  const cache = openRedisCache({ url: urls.gateway, ring, logger: quiet, onRefused: () => undefined })
  const keys = openKeyCache({ url: urls.keys, mac: ring }, { logger: quiet, metrics: createMetrics('keys') })
  const console = openRedis(urls.console, quiet)
  const heard: Revocation[] = []
  cache.onRevocation((revocation) => heard.push(revocation))
  return {
    cache,
    keys,
    sessions: createSessionStore(console, createSeal(ring, 'session'), randomId),
    heard,
    close: async () => {
      await cache.close()
      await keys.close()
      console.close()
    },
  }
}

type Opened = ReturnType<typeof open>

/** Retries until the work succeeds. */
async function inTheEnd<T>(work: () => Promise<T | undefined>): Promise<T> {
  const deadline = performance.now() + 60_000
  for (;;) {
    const value = await work().catch(() => undefined)
    if (value !== undefined) return value
    if (performance.now() > deadline) throw new Error('it has not come to pass in a minute')
    await delay(50)
  }
}

/** Stores and finds a record, announces and receives a revocation, and leases tokens. */
async function expectAllToWork({ cache, keys, sessions, heard }: Opened): Promise<void> {
  // In a cluster they are on several nodes.
  const records = Array.from({ length: 12 }, newRecord)
  for (const record of records) expect(await inTheEnd(async () => await storedBy(keys, record, cache))).toEqual(record)
  const seq = heard.length + 1
  await inTheEnd(async () => {
    keys.publish({ kind: 'tenant', seq, tenantId: randomUUID(), version: 2 })
    await delay(20)
    return heard.length >= seq ? true : undefined
  })
  const source = createTokenSource(cache.commands)
  // The response of a counted lease may be lost, so another tenant asks again.
  const lease = await inTheEnd(async () => await source.lease(`{${randomBytes(8).toString('hex')}}:tenant`, 100, 10))
  expect(lease).toMatchObject({ granted: 10, left: 90 })
  await expectSessionsToWork(sessions)
}

/** Stores a record like the keys service, without a confirmation, and reads it like a gateway. */
async function storedBy(
  keys: Opened['keys'],
  record: KeyRecord,
  cache: Opened['cache'],
): Promise<KeyRecord | undefined> {
  keys.store(record)
  return await cache.find(record.hash)
}

/** Creates, finds, uses, replaces and ends sessions, singly and all of a person. */
async function expectSessionsToWork(sessions: SessionStore): Promise<void> {
  const subject = randomUUID()
  const [now, issuer] = [Date.now(), 'https://sign-in.example']
  const times = { seenAt: now, endsAt: now + 3_600_000, lastEndsAt: now + 3_600_000 }
  // In a cluster, sessions and their indexes are on several nodes.
  const begun = Array.from({ length: 12 }, (_none, index) => ({
    id: randomId(),
    content: {
      createdAt: now,
      issuer,
      subject,
      sid: `${subject}-${index}`,
      person: { id: subject, name: 'Ada', email: null },
      tenant: { id: randomUUID(), name: 'Harbourline' },
      roles: ['admin'],
      canSwitch: false,
      csrfToken: randomId(),
      tokens: { access: 'token', accessExpiresAt: now },
    },
  }))
  for (const { id, content } of begun) {
    await inTheEnd(async () => await sessions.create(id, content, { ...times, begunAt: now }))
    expect(await inTheEnd(async () => await sessions.find(id))).toEqual({ content, seenAt: now })
  }
  const [{ id, content } = { id: '', content: undefined }, other] = begun
  if (content === undefined || other === undefined) throw new Error('there are no sessions')
  await inTheEnd(async () => await sessions.touch(id, { ...times, seenAt: now + 1 }).then(() => true))
  const changed = { ...content, roles: ['viewer'] }
  expect(await inTheEnd(async () => await sessions.replace(id, changed))).toBe(true)
  expect(await inTheEnd(async () => await sessions.find(id))).toEqual({ content: changed, seenAt: now + 1 })
  const marks = await inTheEnd(async () => {
    const mark = randomId()
    return [await sessions.markOnce(mark, 60_000), await sessions.markOnce(mark, 60_000)]
  })
  expect(marks).toEqual([true, false])
  const turns = await inTheEnd(async () => {
    const of = randomId()
    const [first, second] = [await sessions.lock(of, 60_000), await sessions.lock(of, 60_000)]
    await first?.()
    return [first, second, await sessions.lock(of, 60_000)].map((each) => each !== undefined)
  })
  expect(turns).toEqual([true, false, true])
  expect([1, 'unknown']).toContain(await removedBy(sessions, { kind: 'sid', issuer, value: content.sid }))
  expect(await inTheEnd(async () => [await sessions.find(id), await sessions.find(other.id)])).toEqual([
    undefined,
    { content: other.content, seenAt: now },
  ])
  expect([11, 'unknown']).toContain(await removedBy(sessions, { kind: 'subject', issuer, value: subject }))
  for (const each of begun) {
    expect(await inTheEnd(async () => [await sessions.find(each.id)])).toEqual([undefined])
  }
}

/** Returns how many it ended. Unknown if an attempt had no response: the next one finds only the others. */
async function removedBy(sessions: SessionStore, owner: Owner): Promise<number | 'unknown'> {
  let attempts = 0
  const removed = await inTheEnd(async () => {
    attempts += 1
    return await sessions.removeOf(owner, Date.now())
  })
  return attempts === 1 ? removed : 'unknown'
}

describe.each([
  ['Sentinel', startSentinels],
  ['a cluster', startCluster],
])('with %s', (_name, startGroup) => {
  let group: TestRedisGroup
  let opened: Opened

  beforeAll(async () => {
    group = await startGroup()
    opened = open(group)
  })
  afterAll(async () => {
    await opened.close()
    await group.stop()
  })

  test('keys, announcements, counters and sessions work', async () => await expectAllToWork(opened))

  test('requests do not wait for a dead server and continue with its replacement', async () => {
    const records = Array.from({ length: 6 }, newRecord)
    const { cache, keys, sessions } = opened
    for (const record of records) await inTheEnd(async () => await storedBy(keys, record, cache))
    const [first] = group.servers
    first?.kill('SIGKILL')
    await first?.exited
    // Found or not: a response arrives, never a rejection.
    for (const { hash } of records) await opened.cache.find(hash)
    // A session is found, or the lookup fails; it is never reported as missing.
    for (const id of Array.from({ length: 6 }, randomId)) {
      const answer = await sessions.find(id).catch((error: unknown) => error)
      if (answer !== undefined) expect(answer).toMatchObject({ code: 'service_unavailable' })
    }
    await expectAllToWork(opened)
  })
})

interface Login {
  readonly user?: string
  readonly password: string
}

async function ask(port: number, { user, password }: Login, ...args: readonly string[]): Promise<unknown> {
  const [command = '', ...rest] = args
  const login = { password, ...(user === undefined ? {} : { username: user }) }
  const redis = new Redis({ host: '127.0.0.1', port, ...login, lazyConnect: true, retryStrategy: () => null })
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
  // A client with only one address could not switch.
  await inTheEnd(async () => {
    const text = JSON.stringify(await ask(port, { password }, 'SENTINEL', 'REPLICAS', 'main'))
    return text.includes('"master-link-status","ok"') ? true : undefined
  })
  return group
}

async function startCluster(): Promise<TestRedisGroup> {
  const group = await startTestRedisCluster()
  const { ports, busPorts, admin } = group
  const [first = 0, second = 0, third = 0, follower = 0] = ports
  for (const port of ports) await inTheEnd(async () => await ask(port, admin, 'PING'))
  const shares = [
    [first, '0', '5460'],
    [second, '5461', '10922'],
    [third, '10923', '16383'],
  ] as const
  for (const [port, from, to] of shares) await ask(port, admin, 'CLUSTER', 'ADDSLOTSRANGE', from, to)
  for (const [index, port] of ports.entries()) {
    await ask(port, admin, 'CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1))
    if (port !== first) await ask(first, admin, 'CLUSTER', 'MEET', '127.0.0.1', String(port), String(busPorts[index]))
  }
  const id = await ask(first, admin, 'CLUSTER', 'MYID')
  await inTheEnd(async () => await ask(follower, admin, 'CLUSTER', 'REPLICATE', String(id)))
  for (const port of ports) {
    await inTheEnd(async () => {
      const text = String(await ask(port, admin, 'CLUSTER', 'INFO'))
      return text.includes('cluster_state:ok') && text.includes('cluster_known_nodes:4') ? true : undefined
    })
  }
  await inTheEnd(async () => {
    const text = String(await ask(follower, admin, 'INFO', 'replication'))
    return text.includes('master_link_status:up') ? true : undefined
  })
  return group
}
