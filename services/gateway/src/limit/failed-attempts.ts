import type { RedisClient } from '@postern/service-kit/redis'
import { networkOf } from '../authenticate/addresses.ts'
import type { Clocks } from '../authenticate/clocks.ts'
import { createMinuteCounts, windowMs } from './minute-counts.ts'

/**
 * Counts failed authentications of each client address, over all gateways; of IPv6 those of a /64 together. An address that has failed too often gets no
 * more look-ups for the rest of the minute: guessing stops costing us, while keys that are in memory go on working for
 * everybody behind the same address.
 */
export interface FailedAttempts {
  /** Counts one failure. Does not wait for Redis. */
  note(address: string): void
  /** Whole seconds that the address is to wait, or 0. HOT PATH for requests whose key is not in memory. */
  waitSeconds(address: string): number
}

const counters = { key: 'postern:failed', token: 'postern:failed-tokens' } as const

const countScript = `
local failures = redis.call('INCR', KEYS[1])
if failures == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return failures
`

/** Starts with no failures. While Redis is away each gateway counts for itself. */
export function createFailedAttempts(options: {
  readonly redis: RedisClient
  /** Whether Redis answers. */
  readonly isHealthy?: () => boolean
  readonly clocks: Clocks
  readonly limit: number
  /** Of what fails: each kind has a count of its own. */
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
