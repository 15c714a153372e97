import { redisRevocationChannel } from '@postern/contracts/internal'
import { type TestRedis, startTestRedis } from '@postern/local-stack/testing'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test as anyTest, vi } from 'vitest'
import { type RedisRelay, type RelayedCache, openRelayedCache, startRedisRelay } from './redis-relay.ts'

const bulk = (text: string): string => `$${text.length}\r\n${text}\r\n`

let server: TestRedis
let operator: Redis
beforeAll(async () => {
  server = await startTestRedis()
  operator = new Redis(server.url)
})

afterAll(async () => {
  operator?.disconnect()
  await server?.stop()
})

/** Each test has a cache and a relay of its own, so that tests can run at the same time. */
const test = anyTest.extend<{ relay: RedisRelay; relayed: RelayedCache }>({
  // oxlint-disable-next-line no-empty-pattern -- Vitest reads the names of other fixtures from it
  relay: async ({}, use) => {
    const relay = await startRedisRelay(server.urls.gateway)
    await use(relay)
    relay.close()
  },
  relayed: async ({ relay }, use) => {
    const relayed = openRelayedCache(relay.url)
    await relayed.expectToWork(operator)
    await use(relayed)
    await relayed.cache.close()
  },
})

describe.concurrent('a gateway continues, and receives revocations again, after Redis has sent', () => {
  test.for<string[]>([
    ['an array of a negative length', '*-7\r\n'],
    ['a null of RESP3', '_\r\n'],
    ['a null that answers nothing', '$-1\r\n'],
    ['an array of no length that answers nothing', '*-1\r\n'],
    ['a string of 999999999999 bytes', '$999999999999\r\n'],
    ['an array of 999999999 members', '*999999999\r\n'],
    ['many large arrays in each other', '*90000\r\n*90000\r\n*90000\r\n'],
    ['arrays that are nested without end', '*1\r\n'.repeat(5000)],
    ['an announcement that is cut in half', `*3\r\n${bulk('message')}$19\r\npostern:revoc`],
    ['an announcement without a text', `*2\r\n${bulk('message')}${bulk(redisRevocationChannel)}`],
    ['an announcement of nothing', `*3\r\n${bulk('message')}${bulk(redisRevocationChannel)}$-1\r\n`],
    ['an announcement from no channel', `*3\r\n${bulk('message')}*-1\r\n${bulk('text')}`],
    ['an array that holds null', '*3\r\n$-1\r\n$-1\r\n$-1\r\n'],
    ['an empty array', '*0\r\n'],
    ['an announcement for a pattern', `*4\r\n${bulk('pmessage')}$-1\r\n$-1\r\n$-1\r\n`],
    ['the end of a subscription that nobody ended', `*3\r\n${bulk('unsubscribe')}$-1\r\n:0\r\n`],
    ['a push of RESP3', `>2\r\n${bulk('invalidate')}*0\r\n`],
    ['a push of RESP3 that is empty', '>0\r\n'],
    ['a map of RESP3', '%1\r\n+a\r\n+b\r\n'],
    ['an error that nobody caused', '-LOADING Redis is loading the dataset in memory\r\n'],
    ['a reply that nobody asked for', '+OK\r\n'],
    ['a number that is none', ':twelve\r\n'],
    ['an endless line', `+${'x'.repeat(200_000)}`],
    ['an answer of HTTP', 'HTTP/1.1 400 Bad Request\r\n\r\n'],
    ['a record of TLS', Buffer.from('15030300020246', 'hex').toString('latin1')],
    ['bytes of no protocol', '\u0000\u0001\u0002\n\n\n'],
  ])('%s', async ([, frame = ''], { relay, relayed }) => {
    for (const client of relay.open) client.write(frame, 'latin1')
    await relayed.expectToWork(operator)
    expect(relayed.lines.length).toBeLessThan(25)
  })

  test.for<string[]>([
    ['NOAUTH', '-NOAUTH Authentication required.\r\n'],
    ['LOADING', '-LOADING Redis is loading the dataset in memory\r\n'],
    ['MASTERDOWN', '-MASTERDOWN Link with MASTER is down\r\n'],
    ['READONLY', "-READONLY You can't write against a read only replica.\r\n"],
    ['MOVED without a node', '-MOVED\r\n'],
    ['ASK without a port', '-ASK 99999 somewhere\r\n'],
    ['WRONGTYPE', '-WRONGTYPE Operation against a key holding the wrong kind of value\r\n'],
    ['a null', '$-1\r\n'],
    ['a number', ':5\r\n'],
    ['an array', '*3\r\n:1\r\n:2\r\n$-1\r\n'],
    ['OK', '+OK\r\n'],
    ['nothing but the end of the connection', ''],
  ])('%s in answer to everything, from the greeting on', async ([, reply = ''], { relay, relayed }) => {
    let answered = 0
    relay.rewrite = (_bytes, client) => {
      answered += 1
      if (reply === '') client.resetAndDestroy()
      return reply
    }
    for (const client of relay.open) client.resetAndDestroy()
    await vi.waitUntil(() => answered > 8, { timeout: 20_000 })
    relay.rewrite = (bytes) => bytes
    await relayed.expectToWork(operator)
    expect(relayed.lines.length).toBeLessThan(25)
  })

  test('every reply with its end cut off', async ({ relay, relayed }) => {
    let cut = 0
    relay.rewrite = (bytes, client) => {
      cut += 1
      client.end(bytes.subarray(0, bytes.length - 3))
      return undefined
    }
    await vi.waitFor(() => expect(cut).toBeGreaterThan(4), { timeout: 20_000 })
    relay.rewrite = (bytes) => bytes
    await relayed.expectToWork(operator)
  })
})

describe('a Redis that answers PING is detected as lost', () => {
  test.for<[string, [string, string], [string, string]]>([
    ['because it is full', ['maxmemory', '1'], ['maxmemory', '0']],
    ['because too few replicas confirm its writes', ['min-replicas-to-write', '1'], ['min-replicas-to-write', '0']],
  ])('%s', async ([, refuse, allow], { relayed }) => {
    await operator.config('SET', ...refuse)
    try {
      await expect.poll(() => relayed.health()).toMatchObject({ commands: false })
      await expect
        .poll(() => relayed.lines)
        .toContainEqual(expect.objectContaining({ event: 'redis_lost', use: 'commands' }))
    } finally {
      await operator.config('SET', ...allow)
    }
    await relayed.expectToWork(operator)
  })

  test('because it has become a replica', async ({ relayed }) => {
    await operator.replicaof('127.0.0.1', '1')
    try {
      await expect.poll(() => relayed.health()).toMatchObject({ commands: false })
    } finally {
      await operator.replicaof('NO', 'ONE')
    }
    await relayed.expectToWork(operator)
  })
})

describe('a subscription', () => {
  test('that is not allowed is retried until it is, and counts as lost meanwhile', async ({ relayed }) => {
    await operator.call('ACL', 'SETUSER', 'postern-gateway', '-subscribe')
    await operator.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await expect.poll(() => relayed.health()).toEqual({ commands: true, subscription: false })
    await expect.poll(() => relayed.lines.map(({ event }) => event)).toContain('redis_subscribe_failed')
    await operator.call('ACL', 'SETUSER', 'postern-gateway', '+subscribe')
    await relayed.expectToWork(operator)
  })

  test('that is connected but receives no messages is detected and opened again', async ({ relay, relayed }) => {
    const { count } = relay
    relay.rewrite = (bytes) => (bytes.includes('message') ? undefined : bytes)
    await expect.poll(() => relayed.health()).toEqual({ commands: true, subscription: false })
    await expect
      .poll(() => relayed.lines)
      .toContainEqual(expect.objectContaining({ event: 'redis_lost', use: 'subscription' }))
    await expect.poll(() => relay.count).toBeGreaterThan(count)
    relay.rewrite = (bytes) => bytes
    await relayed.expectToWork(operator)
  })
})

test('a hanging Redis is detected as lost, and used again when it answers', async ({ relayed }) => {
  // On a busy machine a connection may be slow to open and be logged as lost.
  const before = relayed.lines.length
  server.kill('SIGSTOP')
  try {
    await expect.poll(() => relayed.health()).toEqual({ commands: false, subscription: false })
    const lost = () => relayed.lines.slice(before).flatMap(({ event, use }) => (event === 'redis_lost' ? [use] : []))
    await expect.poll(() => lost().toSorted()).toEqual(['commands', 'subscription'])
    expect(relayed.cache.health.commands.answerAgeMs()).toBeGreaterThanOrEqual(3000)
  } finally {
    server.kill('SIGCONT')
  }
  await relayed.expectToWork(operator)
})
