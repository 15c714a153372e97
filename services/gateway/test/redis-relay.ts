import { once } from 'node:events'
import { type AddressInfo, type Server, type Socket, connect, createServer } from 'node:net'
import { type TLSSocket, createServer as createTlsServer } from 'node:tls'
import { type Revocation, redisRevocationChannel } from '@postern/contracts/internal'
import { createCacheCodec } from '@postern/key-cache'
import { createLogger } from '@postern/service-kit'
import { parseKeyRing } from '@postern/signed-context'
import type { Redis } from 'ioredis'
import { expect, vi } from 'vitest'
import { type RedisCache, openRedisCache } from '../src/authenticate/redis-cache.ts'
import { keyRecord } from './builders.ts'

const ring = parseKeyRing(`k1:${Buffer.alloc(32, 1).toString('base64url')}`)
const codec = createCacheCodec(ring)
const revocation: Revocation = { kind: 'tenant', seq: 7, tenantId: keyRecord().tenantId, version: 2 }

/** A relay that can change and cut what Redis sends. */
export interface RedisRelay {
  readonly url: string
  /** The connections of the gateway: TLS sockets if the relay speaks TLS. */
  readonly open: Set<Socket>
  count: number
  /** Returns what the gateway is sent in place of `bytes`; undefined: nothing. */
  rewrite: (bytes: Buffer, client: Socket) => Buffer | string | undefined
  close(): void
}

export interface RelayOptions {
  readonly host?: string
  /** Speaks TLS to the gateway with this certificate. */
  readonly certificate?: { readonly key: string; readonly cert: string }
  /** Called with each TCP connection before anything is read from it. Returns false if it has dealt with the connection. */
  readonly onConnection?: (connection: Socket) => boolean
}

export async function startRedisRelay(target: string, options: RelayOptions = {}): Promise<RedisRelay> {
  const { host, certificate, onConnection = () => true } = options
  const url = new URL(target)
  const port = Number(url.port)
  const open = new Set<Socket>()
  const serve = (client: Socket | TLSSocket): void => {
    const redis = connect(port, '127.0.0.1')
    open.add(client)
    relay.count += 1
    for (const socket of [client, redis]) {
      socket.on('error', () => undefined)
      socket.on('close', () => {
        client.destroy()
        redis.destroy()
        open.delete(client)
      })
    }
    client.on('data', (bytes) => redis.write(bytes))
    redis.on('data', (bytes) => {
      const changed = relay.rewrite(bytes, client)
      if (changed !== undefined && !client.destroyed) client.write(changed)
    })
  }
  const tls = certificate === undefined ? undefined : createTlsServer(certificate, serve)
  tls?.on('tlsClientError', () => undefined)
  const listener: Server = createServer((connection) => {
    connection.on('error', () => undefined)
    if (!onConnection(connection)) return
    if (tls === undefined) serve(connection)
    else tls.emit('connection', connection)
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const address: AddressInfo | string | null = listener.address()
  url.port = String(address !== null && typeof address === 'object' ? address.port : 0)
  if (host !== undefined) url.hostname = host
  const relay: RedisRelay = {
    url: certificate === undefined ? url.href : url.href.replace('redis:', 'rediss:'),
    open,
    count: 0,
    rewrite: (bytes) => bytes,
    close: () => {
      listener.close()
      for (const socket of open) socket.destroy()
    },
  }
  return relay
}

export interface RelayedCache {
  readonly cache: RedisCache
  readonly lines: { readonly event: string; readonly use?: string }[]
  readonly health: () => { readonly commands: boolean; readonly subscription: boolean }
  /** Waits until the cache finds records and hears of revocations. `operator` writes them to Redis. */
  readonly expectToWork: (operator: Redis) => Promise<void>
}

export function openRelayedCache(url: string): RelayedCache {
  const lines: { readonly event: string; readonly use?: string }[] = []
  const heard: Revocation[] = []
  const logger = createLogger({ service: 'test', level: 'info', write: (line) => void lines.push(JSON.parse(line)) })
  const cache = openRedisCache({ url, ring, logger, onRefused: () => undefined })
  cache.onRevocation((one) => void heard.push(one))
  const health = () => ({
    commands: cache.health.commands.isHealthy(),
    subscription: cache.health.subscription.isHealthy(),
  })

  async function expectToWork(operator: Redis): Promise<void> {
    // `expect.poll` does not work in tests that run at the same time.
    await vi.waitUntil(() => Object.values(health()).every(Boolean), { timeout: 20_000 })
    const record = keyRecord()
    const { key, value } = codec.encodeRecord(record)
    await operator.set(key, value)
    await vi.waitFor(async () => expect(await cache.find(record.hash)).toEqual(record), { timeout: 20_000 })
    heard.length = 0
    await vi.waitUntil(
      async () => {
        await operator.publish(redisRevocationChannel, codec.encodeMessage(revocation))
        return heard.length > 0
      },
      { timeout: 20_000 },
    )
    expect(heard[0]).toEqual(revocation)
  }
  return { cache, lines, health, expectToWork }
}
