import { once } from 'node:events'
import type { AddressInfo, Socket } from 'node:net'
import { createServer, getCACertificates, setDefaultCACertificates } from 'node:tls'
import { type TestRedis, startTestRedis } from '@postern/local-stack/testing'
import { Redis } from 'ioredis'
import { generate } from 'selfsigned'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type RedisRelay, type RelayedCache, openRelayedCache, startRedisRelay } from './redis-relay.ts'

const trusted = getCACertificates('default')
/** How the relay treats a new TCP connection; undefined: it relays the connection. */
let disturb: ((connection: Socket) => void) | undefined
let disturbed: number
let connections: Set<Socket>
let server: TestRedis
let operator: Redis
let certificate: { readonly key: string; readonly cert: string }
let relay: RedisRelay
let relayed: RelayedCache

async function newCertificate(name: string, notAfterDate: Date) {
  const attributes = [{ name: 'commonName', value: name }]
  const { private: key, cert } = await generate(attributes, { notBeforeDate: new Date(0), notAfterDate })
  return { key, cert }
}

const tomorrow = (): Date => new Date(Date.now() + 86_400_000)

async function startRelay(shown: typeof certificate): Promise<RedisRelay> {
  return await startRedisRelay(server.urls.gateway, {
    host: 'localhost',
    certificate: shown,
    onConnection: (connection) => {
      connections.add(connection)
      connection.on('close', () => connections.delete(connection))
      if (disturb === undefined) return true
      disturbed += 1
      disturb(connection)
      return false
    },
  })
}

beforeAll(async () => {
  server = await startTestRedis()
  operator = new Redis(server.url)
  certificate = await newCertificate('localhost', tomorrow())
  setDefaultCACertificates([...trusted, certificate.cert])
})

afterAll(async () => {
  setDefaultCACertificates(trusted)
  operator?.disconnect()
  await server?.stop()
})

beforeEach(async () => {
  disturb = undefined
  disturbed = 0
  connections = new Set()
  relay = await startRelay(certificate)
  relayed = openRelayedCache(relay.url)
  await relayed.expectToWork(operator)
})

afterEach(async () => {
  await relayed?.cache.close()
  relay?.close()
})

const alert = (level: number, description: number) => Buffer.from([21, 3, 3, 0, 2, level, description])

describe('a gateway reconnects to Redis by TLS', () => {
  test.each<readonly [string, (connection: Socket) => void]>([
    ['a reset', (connection) => void connection.resetAndDestroy()],
    ['an end of the TCP connection without an end of TLS', (connection) => void connection.end()],
    ['an alert', (connection) => void connection.write(alert(2, 40))],
    ['an alert that closes TLS', (connection) => void connection.end(alert(1, 0))],
    [
      'a record that cannot be decrypted',
      (connection) => void connection.write(`\x17\x03\x03\x00\x20${'x'.repeat(32)}`),
    ],
    ['bytes that are not TLS', (connection) => void connection.write('-ERR unknown command\r\n')],
  ])('after %s on connections in use', async (_name, cut) => {
    const { count } = relay
    for (const connection of connections) cut(connection)
    await expect.poll(() => relay.count).toBeGreaterThanOrEqual(count + 2)
    await relayed.expectToWork(operator)
    expect(relayed.lines.length).toBeLessThan(25)
  })

  test.each<readonly [string, (connection: Socket) => void]>([
    ['a reset before the handshake', (connection) => void connection.resetAndDestroy()],
    ['a reset in the handshake', (connection) => connection.once('data', () => connection.resetAndDestroy())],
    ['an end in the handshake', (connection) => connection.once('data', () => connection.end())],
    ['an alert in the handshake', (connection) => connection.once('data', () => connection.end(alert(2, 80)))],
    ['bytes that are not TLS', (connection) => void connection.write('-ERR Protocol error\r\n')],
    [
      'an answer that ends in a record',
      (connection) => connection.once('data', () => connection.end('\x16\x03\x03\x40')),
    ],
    ['no answer', () => undefined],
  ])('after %s', async (_name, refuse) => {
    disturb = refuse
    for (const connection of connections) connection.resetAndDestroy()
    await expect.poll(() => disturbed, { timeout: 40_000 }).toBeGreaterThan(4)
    expect(relayed.health()).toEqual({ commands: false, subscription: false })
    disturb = undefined
    for (const connection of connections) connection.destroy()
    await relayed.expectToWork(operator)
    expect(relayed.lines.length).toBeLessThan(25)
  })
})

describe('a gateway does not use a Redis', () => {
  test.each([
    ['whose certificate nobody it trusts has signed', async () => await newCertificate('localhost', tomorrow())],
    [
      'whose certificate is of another name',
      async () => {
        const other = await newCertificate('redis.example', tomorrow())
        setDefaultCACertificates([...trusted, other.cert])
        return other
      },
    ],
    [
      'whose certificate has expired',
      async () => {
        const expired = await newCertificate('localhost', new Date(Date.now() - 1000))
        setDefaultCACertificates([...trusted, expired.cert])
        return expired
      },
    ],
  ])('%s', async (_name, make) => {
    const other = await startRelay(await make())
    const refused = openRelayedCache(other.url)
    try {
      await expect.poll(() => connections.size + refused.lines.length).toBeGreaterThan(2)
      await expect.poll(() => refused.lines.map(({ event }) => event)).toContain('redis_lost')
      expect(refused.health()).toEqual({ commands: false, subscription: false })
    } finally {
      await refused.cache.close()
      other.close()
      setDefaultCACertificates([...trusted, certificate.cert])
    }
  })
})

test('a gateway does not use a Redis without TLS at an address that names TLS', async () => {
  const plain = await startRedisRelay(server.urls.gateway, { host: 'localhost' })
  const refused = openRelayedCache(plain.url.replace('redis:', 'rediss:'))
  try {
    await expect.poll(() => plain.count).toBeGreaterThan(4)
    expect(refused.health()).toEqual({ commands: false, subscription: false })
  } finally {
    await refused.cache.close()
    plain.close()
  }
})

test('a gateway asks Sentinels by TLS at an address that names TLS', async () => {
  const { port, username, password } = new URL(relay.url)
  const sentinel = createServer(certificate, (connection) => {
    connection.on('error', () => undefined)
    connection.on('data', () => connection.write(`*2\r\n$9\r\nlocalhost\r\n$${port.length}\r\n${port}\r\n`))
  })
  sentinel.on('tlsClientError', () => undefined)
  sentinel.listen(0, '127.0.0.1')
  await once(sentinel, 'listening')
  const { port: sentinelPort } = sentinel.address() as AddressInfo
  const found = openRelayedCache(`rediss+sentinel://${username}:${password}@localhost:${sentinelPort}/main`)
  try {
    await found.expectToWork(operator)
    expect(found.health()).toEqual({ commands: true, subscription: true })
  } finally {
    await found.cache.close()
    sentinel.close()
  }
})
