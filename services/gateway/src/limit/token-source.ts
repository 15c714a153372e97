import type { RedisClient } from '@postern/service-kit/redis'
import { windowMs } from './rate-limit.ts'

export interface TokenLease {
  readonly granted: number
  readonly left: number
  /** Milliseconds until the window and its tokens end. */
  readonly windowLeftMs: number
}

export interface TokenSource {
  isHealthy(): boolean
  /** Rejects if Redis is slow. */
  lease(name: string, limit: number, wanted: number): Promise<TokenLease>
}

/** Fixed windows of Redis's clock. The hash tag of `KEYS[1]` keeps a tenant's counters in one slot. */
const leaseScript = `
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local window = tonumber(ARGV[3])
local started = now - now % window
local counter = KEYS[1] .. ':' .. started
local used = tonumber(redis.call('GET', counter) or '0')
local granted = math.min(tonumber(ARGV[2]), math.max(0, tonumber(ARGV[1]) - used))
if granted > 0 then
  redis.call('INCRBY', counter, granted)
  redis.call('PEXPIRE', counter, 2 * window)
end
return { granted, math.max(0, tonumber(ARGV[1]) - used - granted), started + window - now }
`

export function createTokenSource(redis: RedisClient, isHealthy = () => redis.status === 'ready'): TokenSource {
  return {
    isHealthy,
    lease: async (name, limit, wanted) => {
      if (!isHealthy()) throw new Error('Redis does not answer')
      const answer: unknown = await redis.eval(leaseScript, 1, `postern:rate:${name}`, limit, wanted, windowMs)
      if (!isTriple(answer)) throw new Error('Redis did not answer with a lease')
      const [granted, left, windowLeftMs] = answer
      return { granted, left, windowLeftMs }
    },
  }
}

function isTriple(answer: unknown): answer is readonly [number, number, number] {
  return Array.isArray(answer) && answer.length === 3 && answer.every((part) => typeof part === 'number')
}
