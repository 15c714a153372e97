import type { Clocks } from '../authenticate/clocks.ts'
import { createMinuteCounts } from './minute-counts.ts'

/** Counted in this gateway only, so that strangers cause no load on Redis. */
export interface PublicRequests {
  /** Counts a request as `cost` requests. Returns seconds to wait, or 0. */
  count(address: string, cost?: number): number
}

export function createPublicRequests({
  clocks,
  limit,
}: {
  readonly clocks: Pick<Clocks, 'monotonic'>
  readonly limit: number
}): PublicRequests {
  const counts = createMinuteCounts(clocks)
  return {
    count: (address, cost = 1) => {
      counts.of(address).total += cost
      return counts.waitSeconds(address, limit)
    },
  }
}
