import { type KeyRefusal, refusalOfKey } from '@postern/service-kit/access'
import type { DatabaseClock } from './clocks.ts'
import { type RevocationWatermarks, recordStatus } from './revocation-watermarks.ts'
import type { KeyEntry } from './key-lookup.ts'

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
  const isRevoked = record.revoked || status === 'revoked'
  const isExpired = clock.hasPassed(record.expiresAt)
  // If the time is unknown, the key is neither active nor expired.
  if (!isRevoked && (status === 'outdated' || isExpired === undefined)) return 'outdated'
  const isActive = record.tenantStatus === 'active'
  return refusalOfKey(isRevoked, isExpired === true, isActive, principal.isAddressAllowed, address) ?? 'accepted'
}
