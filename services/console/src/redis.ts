import { type Logger, problem } from '@postern/service-kit'
import { type RedisClient, type RedisHealth, openRedisClient, watchRedisClient } from '@postern/service-kit/redis'

export interface RedisConnection {
  /** A failure of Redis becomes the problem `service_unavailable`. */
  run<T>(commands: (redis: RedisClient) => Promise<T>): Promise<T>
  readonly health: RedisHealth
  close(): void
}

const commandTimeoutMs = 1000

/** Reconnects forever. Redis need not be reachable yet. */
export function openRedis(url: string, logger: Logger): RedisConnection {
  const redis = openRedisClient(url, { name: 'postern-console', commandTimeoutMs })
  const health = watchRedisClient(redis, {
    use: 'sessions',
    write: async () => await redis.set('postern:console:health', '', 'PX', 1),
    logger,
  })
  const firstTried = new Promise<void>((resolve) => {
    redis.once('ready', resolve)
    redis.once('close', resolve)
  })
  return {
    run: async (commands) => {
      await firstTried
      try {
        return await commands(redis)
      } catch (error) {
        throw problem('service_unavailable', {
          detail: 'Sessions are not available. Try again in a moment.',
          retryAfterSeconds: 2,
          cause: error,
        })
      }
    },
    health,
    close: () => {
      health.stop()
      redis.disconnect()
    },
  }
}
