import type { Clocks } from '../authenticate/clocks.ts'
import { createMinuteCounts } from './minute-counts.ts'

/**
 * Counts the requests of each client network for what needs no credentials. Of this gateway alone: what they cost is its own processor, and
 * Redis must not be asked by who has no key.
 */
export interface PublicRequests {
  /** Counts one request. Gives whole seconds that the address is to wait, or 0. */
  take(address: string): number
}

/** `limit`: requests a minute. */
export function createPublicRequests({
  clocks,
  limit,
}: {
  readonly clocks: Pick<Clocks, 'monotonic'>
  readonly limit: number
}): PublicRequests {
  const counts = createMinuteCounts(clocks)
  return {
    take: (address) => {
      counts.of(address).total += 1
      return counts.waitSeconds(address, limit)
    },
  }
}
