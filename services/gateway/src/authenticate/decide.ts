import type { DatabaseClock } from './clocks.ts'
import { type RevocationWatermarks, recordStatus } from './revocation-watermarks.ts'
import type { KeyEntry } from './key-lookup.ts'

/** Why a known key is rejected, as problem codes. */
export type KeyRefusal = 'key_revoked' | 'key_expired' | 'tenant_suspended' | 'address_not_allowed'

/** `outdated`: a newer record exists and must be read. */
export type KeyDecision = KeyRefusal | 'outdated' | 'accepted'

/**
 * Decides about a key. HOT PATH. Call it in the tick of the dispatch, because a decision before an `await` may be
 * outdated.
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
  // The time is unknown, so the key is neither active nor expired.
  if (isExpired === undefined) return 'outdated'
  if (isExpired) return 'key_expired'
  if (record.tenantStatus !== 'active') return 'tenant_suspended'
  if (principal.isAddressAllowed !== undefined && !principal.isAddressAllowed(address)) return 'address_not_allowed'
  return 'accepted'
}
