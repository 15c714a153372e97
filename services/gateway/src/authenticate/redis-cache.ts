import { randomUUID } from 'node:crypto'
import {
  type KeyRecord,
  type Revocation,
  redisHeartbeatChannel,
  redisRecordKey,
  redisRevocationChannel,
} from '@postern/contracts/internal'
import { createCacheCodec } from '@postern/key-cache'
import type { Logger } from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'
import {
  type RedisClient,
  type RedisHealth,
  openRedisClient,
  openRedisSubscriber,
  watchConnection,
  watchRedisClient,
} from '@postern/service-kit/redis'
import { createTokenSource } from '../limit/token-source.ts'

/** Correct decisions never depend on it. */
export interface RedisCache {
  /** Returns undefined if the record is missing or invalid, or if Redis is slow. */
  find(hash: string): Promise<KeyRecord | undefined>
  onRevocation(listener: (revocation: Revocation) => void): void
  readonly commands: RedisClient
  /** The subscription must receive published messages. */
  readonly health: Readonly<Record<'commands' | 'subscription', RedisHealth>>
  close(): Promise<void>
}

/** Longer than a healthy Redis ever takes. */
const commandTimeoutMs = 50
const heartbeatTimeoutMs = 1000
/** More than the probes of all gateways in a minute. */
const probeLimit = 1_000_000_000

/** Data from Redis without a valid MAC. */
export type Refused = 'record' | 'announcement'

/** Opens two connections that reconnect forever. Calls `onRefused` for invalid data. */
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
  const subscriber = openRedisSubscriber(url, name)
  const listeners: ((revocation: Revocation) => void)[] = []
  const heartbeats = redisHeartbeatChannel(randomUUID())
  let onHeartbeat: (() => void) | undefined

  subscriber.on('message', (channel: string, text: string) => {
    if (channel === heartbeats) {
      onHeartbeat?.()
      return
    }
    const revocation = codec.decodeMessage(text)
    if (revocation === undefined) {
      logger.warn({ event: 'revocation_message_refused' })
      onRefused('announcement')
      return
    }
    for (const listener of listeners) listener(revocation)
  })

  let isRefused = false
  async function subscribe(): Promise<void> {
    try {
      await subscriber.subscribe(redisRevocationChannel)
      isRefused = false
      await subscriber.subscribe(heartbeats)
    } catch (error) {
      // The health check opens a new connection, which subscribes again.
      if (!isRefused) logger.warn({ event: 'redis_subscribe_failed', err: error })
      isRefused = true
    }
  }
  subscriber.on('ready', () => void subscribe())

  /** Logins that may not publish only confirm the subscription. */
  async function waitForHeartbeat(): Promise<void> {
    const received = new Promise<boolean>((resolve) => {
      onHeartbeat = () => resolve(true)
      setTimeout(() => resolve(false), heartbeatTimeoutMs).unref()
    })
    const receivers = await commands.publish(heartbeats, '').catch(() => undefined)
    if (receivers === undefined) await subscriber.subscribe(redisRevocationChannel)
    else if (!(await received)) throw new Error('the subscription receives nothing')
  }

  const counter = createTokenSource(commands, () => true)
  const health = {
    commands: watchRedisClient(commands, {
      use: 'commands',
      // Redis counts as lost if it refuses to count. The hash tag is for clusters.
      write: async () => await counter.lease('{health}', probeLimit, 1),
      logger,
    }),
    subscription: watchConnection(subscriber, { use: 'subscription', probe: waitForHeartbeat, logger }),
  }

  return {
    find: async (hash) => {
      if (!health.commands.isHealthy()) return undefined
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
        return undefined
      }
    },
    onRevocation: (listener) => void listeners.push(listener),
    commands,
    health,
    close: async () => {
      health.commands.stop()
      health.subscription.stop()
      commands.disconnect()
      subscriber.disconnect()
    },
  }
}
