import { type Logger, problem } from '@postern/service-kit'
import { type RedisClient, type RedisHealth, openRedisClient, watchRedisClient } from '@postern/service-kit/redis'

/** Redis as the console uses it: it holds the sessions, so without it nobody is signed in and the answer is 503. */
export interface RedisConnection {
  /** Runs commands; a failure of Redis becomes the problem `service_unavailable`. */
  run<T>(commands: (redis: RedisClient) => Promise<T>): Promise<T>
  readonly health: RedisHealth
  close(): void
}

const commandTimeoutMs = 1000

/** Opens the connection, which reconnects for ever. Redis need not be there yet. */
export function openRedis(url: string, logger: Logger): RedisConnection {
  const redis = openRedisClient(url, { name: 'postern-console', commandTimeoutMs })
  const health = watchRedisClient(redis, { use: 'sessions', logger })
  // Who comes while the first connection is still being made waits for how it ends, which `connectTimeout` bounds.
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
          detail: 'Sessions cannot be read now. Repeat in a moment.',
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
