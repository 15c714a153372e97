import { LRUCache } from 'lru-cache'
import { networkOf } from '../authenticate/addresses.ts'
import type { Clocks } from '../authenticate/clocks.ts'

/**
 * Counts the requests of each client network for what needs no credentials. Of this gateway alone: what they cost is its own processor, and
 * Redis must not be asked by who has no key.
 */
export interface PublicRequests {
  /** Counts one request. Gives whole seconds that the address is to wait, or 0. */
  take(address: string): number
}

const windowMs = 60_000
const maxNetworks = 50_000

/** `limit`: requests a minute. */
export function createPublicRequests({
  clocks,
  limit,
}: {
  readonly clocks: Pick<Clocks, 'monotonic'>
  readonly limit: number
}): PublicRequests {
  const counts = new LRUCache<string, { requests: number; readonly windowEnds: number }>({ max: maxNetworks })
  return {
    take: (address) => {
      const network = networkOf(address)
      const now = clocks.monotonic()
      let count = counts.get(network)
      if (count === undefined || now >= count.windowEnds) {
        count = { requests: 0, windowEnds: now + windowMs }
        counts.set(network, count)
      }
      count.requests += 1
      return count.requests <= limit ? 0 : Math.max(1, Math.ceil((count.windowEnds - now) / 1000))
    },
  }
}
