import type { KeyRecord, Revocation } from '@postern/contracts/internal'
import { redisRevocationChannel } from '@postern/contracts/internal'
import { createCacheCodec, storeRecordScript } from '@postern/key-cache'
import type { Logger, Registry } from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'
import { observeRedis, openRedisClient, watchRedisClient } from '@postern/service-kit/redis'
import { Counter } from '@prometheus-io/client'

/** The cache that gateways share. Calls return at once and failures are counted: leases carry what Redis loses. */
export interface KeyCache {
  /** Stores a record or a tombstone, unless Redis has a later one. */
  store(record: KeyRecord): void
  publish(revocation: Revocation): void
  isHealthy(): boolean
  close(): Promise<void>
}

/** Used without Redis. */
export const noCache: KeyCache = {
  store: () => undefined,
  publish: () => undefined,
  isHealthy: () => true,
  close: async () => undefined,
}

/** Returns an error reply's code, such as OOM or READONLY, without the command's arguments. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown'
  if (error.message === 'Command timed out') return 'timeout'
  const code = /^[A-Z]{2,20}(?= )/.exec(error.message)?.[0]
  if (code !== undefined) return code
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name
}

const defaultTimeoutMs = 50
/** While Redis is frozen, commands must not collect in memory. */
const pauseMs = 1000

export interface KeyCacheOptions {
  readonly url: string
  readonly mac: KeyRing
  /** Tests on a busy machine use a longer limit. */
  readonly commandTimeoutMs?: number
}

/** Redis need not be reachable. */
export function openKeyCache(
  options: KeyCacheOptions,
  { logger, metrics }: { readonly logger: Logger; readonly metrics: Registry },
): KeyCache {
  const codec = createCacheCodec(options.mac)
  const failures = new Counter({
    name: 'postern_keys_cache_failures_total',
    help: 'Records and messages that could not be sent to Redis',
    labelNames: ['operation'],
    registers: [metrics],
  })
  const { commandTimeoutMs = defaultTimeoutMs } = options
  const redis = openRedisClient(options.url, { name: 'postern-keys', commandTimeoutMs })
  const health = watchRedisClient(redis, {
    use: 'cache',
    write: async () => await redis.set('postern:key:health', '', 'PX', 1),
    logger,
    events: { lost: 'cache_unreachable', recovered: 'cache_reachable' },
  })
  observeRedis(metrics, [health])

  let pausedUntil = 0
  const underWay = new Set<Promise<void>>()

  function attempt(operation: 'store' | 'publish', command: () => Promise<unknown>): void {
    if (performance.now() < pausedUntil) {
      failures.inc({ operation })
      return
    }
    const task = command().then(
      () => undefined,
      (error: unknown) => {
        // The error contains a key's hash, so it is not logged.
        failures.inc({ operation })
        if (redis.status === 'ready') {
          pausedUntil = performance.now() + pauseMs
          logger.warn({
            event: 'cache_paused',
            operation,
            for_ms: pauseMs,
            reason: reasonOf(error),
          })
        }
      },
    )
    underWay.add(task)
    void task.then(() => underWay.delete(task))
  }

  return {
    store: (record) => {
      const { key, value, endsAt } = codec.encodeRecord(record)
      attempt('store', async () => await redis.eval(storeRecordScript, 1, key, value, endsAt))
    },
    publish: (revocation) =>
      attempt('publish', async () => await redis.publish(redisRevocationChannel, codec.encodeMessage(revocation))),
    isHealthy: health.isHealthy,
    close: async () => {
      health.stop()
      await Promise.all(underWay)
      redis.disconnect()
    },
  }
}
