import { LRUCache } from 'lru-cache'
import { networkOf } from '../authenticate/addresses.ts'
import type { Clocks } from '../authenticate/clocks.ts'

export interface MinuteCount {
  total: number
  readonly windowEnds: number
}

/** By network: an IPv4 address or an IPv6 /64. */
export interface MinuteCounts {
  of(address: string): MinuteCount
  /** Returns seconds to wait for more than `limit`, or 0. Starts no minute. */
  waitSeconds(address: string, limit: number): number
}

export const windowMs = 60_000
const maxNetworks = 50_000

export function createMinuteCounts(clocks: Pick<Clocks, 'monotonic'>): MinuteCounts {
  const counts = new LRUCache<string, MinuteCount>({ max: maxNetworks })
  return {
    of: (address) => {
      const network = networkOf(address)
      const now = clocks.monotonic()
      const known = counts.get(network)
      if (known !== undefined && now < known.windowEnds) return known
      const count = { total: 0, windowEnds: now + windowMs }
      counts.set(network, count)
      return count
    },
    waitSeconds: (address, limit) => {
      const count = counts.get(networkOf(address))
      if (count === undefined || count.total <= limit) return 0
      return Math.max(0, Math.ceil((count.windowEnds - clocks.monotonic()) / 1000))
    },
  }
}
