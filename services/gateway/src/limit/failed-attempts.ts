import { LRUCache } from 'lru-cache'
import type { RedisClient } from '@postern/service-kit/redis'
import { networkOf } from '../authenticate/addresses.ts'
import type { Clocks } from '../authenticate/clocks.ts'

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

interface Count {
  failures: number
  /** Monotonic clock. */
  windowEnds: number
}

const windowMs = 60_000
const maxAddresses = 50_000

const counters = { key: 'postern:failed', token: 'postern:failed-tokens' } as const

const countScript = `
local failures = redis.call('INCR', KEYS[1])
if failures == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return failures
`

/** Starts with no failures. While Redis is away each gateway counts for itself. */
export function createFailedAttempts(options: {
  readonly redis: RedisClient
  readonly clocks: Clocks
  readonly limit: number
  /** Of what fails: each kind has a count of its own. */
  readonly kind: 'key' | 'token'
}): FailedAttempts {
  const { redis, clocks, limit, kind } = options
  const counts = new LRUCache<string, Count>({ max: maxAddresses })

  function countOf(network: string): Count {
    const now = clocks.monotonic()
    const known = counts.get(network)
    if (known !== undefined && now < known.windowEnds) return known
    const count = { failures: 0, windowEnds: now + windowMs }
    counts.set(network, count)
    return count
  }

  return {
    note: (address) => {
      const network = networkOf(address)
      const count = countOf(network)
      count.failures += 1
      if (redis.status !== 'ready') return
      redis.eval(countScript, 1, `${counters[kind]}:{${network}}`, windowMs).then(
        (failures) => {
          if (typeof failures === 'number') count.failures = Math.max(count.failures, failures)
        },
        () => undefined,
      )
    },
    waitSeconds: (address) => {
      const count = counts.get(networkOf(address))
      if (count === undefined || count.failures <= limit) return 0
      return Math.max(0, Math.ceil((count.windowEnds - clocks.monotonic()) / 1000))
    },
  }
}
