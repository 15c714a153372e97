import { type KeyRecord, type Revocation, redisRecordKey, redisRevocationChannel } from '@postern/contracts/internal'
import { createCacheCodec } from '@postern/key-cache'
import type { Logger } from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'
import { type RedisClient, openRedisClient } from '@postern/service-kit/redis'

/** Redis as the gateway uses it: quick or not at all. Nothing here is needed for a right decision. */
export interface RedisCache {
  /** The record of a key, or undefined when there is none, it does not verify, or Redis does not answer at once. */
  find(hash: string): Promise<KeyRecord | undefined>
  /** Calls back with each revocation that the keys service announces. */
  onRevocation(listener: (revocation: Revocation) => void): void
  /** For the rate limits, which share the connection. */
  readonly commands: RedisClient
  /** Whether there is a connection, by what it is for. */
  connected(): Readonly<Record<'commands' | 'subscription', boolean>>
  close(): Promise<void>
}

/** Longer than a healthy Redis ever takes; a request never waits longer for a frozen one. */
const commandTimeoutMs = 50

/** What of Redis is not believed: our MAC does not cover it. */
export type Refused = 'record' | 'announcement'

/** Opens two connections, for commands and for the subscription; both reconnect for ever. `onRefused` is told of each refusal. */
export function openRedisCache(options: {
  readonly url: string
  readonly ring: KeyRing
  readonly logger: Logger
  readonly onRefused: (what: Refused) => void
}): RedisCache {
  const { url, ring, logger, onRefused } = options
  const codec = createCacheCodec(ring)
  const name = 'postern-gateway'
  const commands = openRedisClient(url, { name, commandTimeoutMs, pipelines: true })
  // The subscription is renewed by ioredis itself after every reconnect.
  const subscriber = openRedisClient(url, { name, waitsForConnection: true })
  const listeners: ((revocation: Revocation) => void)[] = []

  for (const [client, use] of [
    [commands, 'commands'],
    [subscriber, 'subscription'],
  ] as const) {
    let lost = false
    client.on('error', (error: unknown) => {
      if (!lost) logger.warn({ event: 'redis_lost', use, err: error })
      lost = true
    })
    client.on('ready', () => {
      if (lost) logger.info({ event: 'redis_recovered', use })
      lost = false
    })
  }

  subscriber.on('message', (_channel: string, text: string) => {
    const revocation = codec.decodeMessage(text)
    if (revocation === undefined) {
      logger.warn({ event: 'revocation_message_refused' })
      onRefused('announcement')
      return
    }
    for (const listener of listeners) listener(revocation)
  })
  subscriber.subscribe(redisRevocationChannel).catch((error: unknown) => {
    logger.warn({ event: 'redis_subscribe_failed', err: error })
  })

  return {
    find: async (hash) => {
      if (commands.status !== 'ready') return undefined
      try {
        const text = await commands.get(redisRecordKey(hash))
        if (text === null) return undefined
        const record = codec.decodeRecord(hash, text)
        if (record === undefined) {
          logger.warn({ event: 'cache_record_refused' })
          onRefused('record')
        }
        return record
      } catch {
        // Slow, gone or full of something else: the keys service knows.
        return undefined
      }
    },
    onRevocation: (listener) => void listeners.push(listener),
    commands,
    connected: () => ({ commands: commands.status === 'ready', subscription: subscriber.status === 'ready' }),
    close: async () => {
      commands.disconnect()
      subscriber.disconnect()
    },
  }
}
