import type { RedisClient } from '@postern/service-kit/redis'
import { networkOf } from '../authenticate/addresses.ts'
import type { Clocks } from '../authenticate/clocks.ts'
import { createMinuteCounts, windowMs } from './minute-counts.ts'

/** Above the limit, look-ups of a client network are rejected for the rest of the minute; keys in memory still work. */
export interface FailedAttempts {
  /** Does not wait for Redis. */
  note(address: string): void
  /** Seconds to wait, or 0. HOT PATH for keys that are not in memory. */
  waitSeconds(address: string): number
}

const counters = { key: 'postern:failed', token: 'postern:failed-tokens' } as const

const countScript = `
local failures = redis.call('INCR', KEYS[1])
if failures == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return failures
`

/** Without Redis each gateway counts separately. */
export function createFailedAttempts(options: {
  readonly redis: RedisClient
  readonly isHealthy?: () => boolean
  readonly clocks: Clocks
  readonly limit: number
  /** Each kind has its own count. */
  readonly kind: 'key' | 'token'
}): FailedAttempts {
  const { redis, clocks, limit, kind, isHealthy = () => redis.status === 'ready' } = options
  const counts = createMinuteCounts(clocks)

  return {
    note: (address) => {
      const count = counts.of(address)
      count.total += 1
      if (!isHealthy()) return
      redis.eval(countScript, 1, `${counters[kind]}:{${networkOf(address)}}`, windowMs).then(
        (failures) => {
          if (typeof failures === 'number') count.total = Math.max(count.total, failures)
        },
        () => undefined,
      )
    },
    waitSeconds: (address) => counts.waitSeconds(address, limit),
  }
}
