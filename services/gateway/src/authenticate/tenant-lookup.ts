import type { TenantRecord } from '@postern/contracts/internal'
import { LRUCache } from 'lru-cache'
import { type Clocks, type DatabaseClock, isFresh } from './clocks.ts'
import { createFlights, inTime } from './flights.ts'
import type { Floors } from './floors.ts'
import type { KeysClient } from './keys-client.ts'
import type { Lease, Timers } from './lease.ts'
import { createShortMemory } from './short-memory.ts'

export type TenantFound =
  | { readonly kind: 'found'; readonly tenant: TenantRecord }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'unavailable' }

/** Tenants of signed-in people, under the same lease and floors as keys. */
export interface TenantLookup {
  /**
   * Looks the tenant up where it is not in memory, for 2.5 s at most, whatever it has to wait for; it is 'unavailable' then. What
   * it finds may be used in the same tick in which the promise resolves.
   */
  obtain(tenantId: string): Promise<TenantFound>
  clear(): void
}

export interface TenantLookupParts {
  readonly lease: Lease
  readonly floors: Floors
  readonly clocks: Clocks
  readonly timers: Timers
  readonly databaseClock: DatabaseClock
  readonly keys: Pick<KeysClient, 'findTenant'>
}

const maxTenants = 10_000
/** A verified token can name a tenant that there is not, as often as it is sent: in this time that is asked once. */
const unknownTtlMs = 1000
const maxUnknown = 10_000

/** Makes an empty memory in front of the keys service. */
export function createTenantLookup(parts: TenantLookupParts): TenantLookup {
  const { lease, floors, clocks, timers, databaseClock, keys } = parts
  const memory = new LRUCache<string, TenantRecord>({ max: maxTenants })
  const unknown = createShortMemory<true>({ max: maxUnknown, ttlMs: unknownTtlMs, now: clocks.monotonic })
  const flights = createFlights(ask)

  function isCurrent(tenant: TenantRecord): boolean {
    return isFresh(tenant.readAt, databaseClock) && !floors.isTenantOutdated(tenant.tenantId, tenant.tenantVersion)
  }

  async function ask(tenantId: string): Promise<TenantFound> {
    let answer
    try {
      answer = await keys.findTenant(tenantId)
    } catch {
      return { kind: 'unavailable' }
    }
    databaseClock.observe(answer.now, answer.sentMonotonic)
    if (answer.record === null) {
      unknown.set(tenantId, true)
      return { kind: 'unknown' }
    }
    if (!isCurrent(answer.record)) return { kind: 'unavailable' }
    memory.set(tenantId, answer.record)
    return { kind: 'found', tenant: answer.record }
  }

  return {
    obtain: async (tenantId) => {
      const known = memory.get(tenantId)
      if (known !== undefined && lease.isHeld() && isCurrent(known)) return { kind: 'found', tenant: known }
      if (unknown.get(tenantId) === true) return { kind: 'unknown' }
      const flight = lease.isHeld() ? flights.join(tenantId) : flights.joinLater(tenantId)
      const found = await inTime<TenantFound>(flight, { kind: 'unavailable' }, timers)
      // A flight is shared, and may have ended before what has been applied by now.
      return found.kind === 'found' && !isCurrent(found.tenant) ? { kind: 'unavailable' } : found
    },
    clear: () => {
      memory.clear()
      unknown.clear()
    },
  }
}
