import type { DatabaseClock } from './clocks.ts'
import { type RevocationWatermarks, recordStatus } from './revocation-watermarks.ts'
import type { KeyEntry } from './key-lookup.ts'

/** Why a known key is refused; the names are problem codes. */
export type KeyRefusal = 'key_revoked' | 'key_expired' | 'tenant_suspended' | 'address_not_allowed'

/** `outdated`: the record has been overtaken and must be read again. */
export type KeyDecision = KeyRefusal | 'outdated' | 'accepted'

/**
 * Decides on a key's entry at this very moment. HOT PATH, and to be called in the tick of the dispatch: whatever was
 * decided before an await may no longer be so.
 *
 * Revoked comes before expired: exactly one state holds, and revoked wins.
 */
export function decideKey(
  entry: KeyEntry,
  watermarks: RevocationWatermarks,
  clock: DatabaseClock,
  address: string,
): KeyDecision {
  const { record, principal } = entry
  const status = recordStatus(entry, watermarks)
  if (record.revoked || status === 'revoked') return 'key_revoked'
  if (status === 'outdated') return 'outdated'
  const isExpired = clock.hasPassed(record.expiresAt)
  // No idea of the time: it can be said neither to live nor to have expired.
  if (isExpired === undefined) return 'outdated'
  if (isExpired) return 'key_expired'
  if (record.tenantStatus !== 'active') return 'tenant_suspended'
  if (principal.isAddressAllowed !== undefined && !principal.isAddressAllowed(address)) return 'address_not_allowed'
  return 'accepted'
}
