/** Why a known key is rejected, as problem codes. */
export type KeyRefusal = 'key_revoked' | 'key_expired' | 'tenant_suspended' | 'address_not_allowed'

/**
 * Returns the first reason to reject a key, or undefined. `isAddressAllowed` is undefined if every address may call. HOT
 * PATH: separate parameters, so that a request allocates nothing.
 */
export function refusalOfKey(
  isRevoked: boolean,
  isExpired: boolean,
  isTenantActive: boolean,
  isAddressAllowed: ((address: string) => boolean) | undefined,
  address: string,
): KeyRefusal | undefined {
  if (isRevoked) return 'key_revoked'
  if (isExpired) return 'key_expired'
  if (!isTenantActive) return 'tenant_suspended'
  return isAddressAllowed === undefined || isAddressAllowed(address) ? undefined : 'address_not_allowed'
}
