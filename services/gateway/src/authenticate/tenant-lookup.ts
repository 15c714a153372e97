import type { TenantRecord } from '@postern/contracts/internal'
import { LRUCache } from 'lru-cache'
import { type DatabaseClock, isFresh } from './clocks.ts'
import type { Floors } from './floors.ts'
import type { KeysClient } from './keys-client.ts'
import type { Lease } from './lease.ts'

export type TenantFound =
  | { readonly kind: 'found'; readonly tenant: TenantRecord }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'unavailable' }

/** Tenants of signed-in people, under the same lease and floors as keys. */
export interface TenantLookup {
  /** What it finds may be used in the same tick in which the promise resolves. */
  obtain(tenantId: string): Promise<TenantFound>
  clear(): void
}

export interface TenantLookupParts {
  readonly lease: Lease
  readonly floors: Floors
  readonly databaseClock: DatabaseClock
  readonly keys: Pick<KeysClient, 'findTenant'>
}

const maxTenants = 10_000

/** Makes an empty memory in front of the keys service. */
export function createTenantLookup({ lease, floors, databaseClock, keys }: TenantLookupParts): TenantLookup {
  const memory = new LRUCache<string, TenantRecord>({ max: maxTenants })

  function isCurrent(tenant: TenantRecord): boolean {
    return isFresh(tenant.readAt, databaseClock) && !floors.isTenantOutdated(tenant.tenantId, tenant.tenantVersion)
  }

  return {
    obtain: async (tenantId) => {
      const known = memory.get(tenantId)
      if (known !== undefined && lease.isHeld() && isCurrent(known)) return { kind: 'found', tenant: known }
      try {
        const answer = await keys.findTenant(tenantId)
        databaseClock.observe(answer.now, answer.sentMonotonic)
        if (answer.record === null) return { kind: 'unknown' }
        if (!isCurrent(answer.record)) return { kind: 'unavailable' }
        memory.set(tenantId, answer.record)
        return { kind: 'found', tenant: answer.record }
      } catch {
        return { kind: 'unavailable' }
      }
    },
    clear: () => memory.clear(),
  }
}
