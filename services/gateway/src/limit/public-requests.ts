import type { Clocks } from '../authenticate/clocks.ts'
import { createMinuteCounts } from './minute-counts.ts'

/** Counted in this gateway only, so that strangers cause no load on Redis. */
export interface PublicRequests {
  /** Returns seconds to wait, or 0. */
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
