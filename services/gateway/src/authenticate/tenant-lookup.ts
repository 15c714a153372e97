import type { TenantRecord } from '@postern/contracts/internal'
import { LRUCache } from 'lru-cache'
import { type Clocks, type DatabaseClock, isFresh } from './clocks.ts'
import { createSingleFlight, withDeadline } from './single-flight.ts'
import type { RevocationWatermarks } from './revocation-watermarks.ts'
import type { KeysClient } from './keys-client.ts'
import type { Lease, Timers } from './lease.ts'
import { createTtlCache } from './ttl-cache.ts'

export type TenantFound =
  | { readonly kind: 'found'; readonly tenant: TenantRecord }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'unavailable' }

export interface TenantLookup {
  /**
   * Looks the tenant with this id or slug up, in memory first; 'unavailable' after 2.5 s. Use the result before the
   * next tick.
   */
  obtain(reference: string): Promise<TenantFound>
  clear(): void
}

export interface TenantLookupParts {
  readonly lease: Lease
  readonly watermarks: RevocationWatermarks
  readonly clocks: Clocks
  readonly timers: Timers
  readonly databaseClock: DatabaseClock
  readonly keys: Pick<KeysClient, 'findTenant'>
}

const maxTenants = 10_000
/** A verified token may name a missing tenant repeatedly. */
const unknownTtlMs = 1000
const maxUnknown = 10_000

export function createTenantLookup(parts: TenantLookupParts): TenantLookup {
  const { lease, watermarks, clocks, timers, databaseClock, keys } = parts
  const memory = new LRUCache<string, TenantRecord>({ max: maxTenants })
  const unknown = createTtlCache<true>({ max: maxUnknown, ttlMs: unknownTtlMs, now: clocks.monotonic })
  const lookups = createSingleFlight(ask)

  function isCurrent(tenant: TenantRecord): boolean {
    return isFresh(tenant.readAt, databaseClock) && !watermarks.isTenantOutdated(tenant.tenantId, tenant.tenantVersion)
  }

  async function ask(reference: string): Promise<TenantFound> {
    let answer
    try {
      answer = await keys.findTenant(reference)
    } catch {
      return { kind: 'unavailable' }
    }
    databaseClock.observe(answer.now, answer.sentMonotonic)
    if (answer.record === null) {
      unknown.set(reference, true)
      return { kind: 'unknown' }
    }
    if (!isCurrent(answer.record)) return { kind: 'unavailable' }
    memory.set(reference, answer.record)
    return { kind: 'found', tenant: answer.record }
  }

  return {
    obtain: async (reference) => {
      const known = memory.get(reference)
      if (known !== undefined && lease.isHeld() && isCurrent(known)) return { kind: 'found', tenant: known }
      if (unknown.get(reference) === true) return { kind: 'unknown' }
      const lookup = lease.isHeld() ? lookups.share(reference) : lookups.shareNext(reference)
      const found = await withDeadline<TenantFound>(lookup, { kind: 'unavailable' }, timers)
      // The shared look-up may have ended before a change that was applied since.
      return found.kind === 'found' && !isCurrent(found.tenant) ? { kind: 'unavailable' } : found
    },
    clear: () => {
      memory.clear()
      unknown.clear()
    },
  }
}
