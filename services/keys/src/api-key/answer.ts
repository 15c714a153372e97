import { keyState, maskKey } from '@postern/api-key'
import { type ApiKey, grantableScopeSchema } from '@postern/contracts'
import { tagsIn } from '@postern/service-kit'
import type { StoredKey } from './stored-key.ts'

export function toApiKey(key: StoredKey): ApiKey {
  return {
    id: key.id,
    label: key.label,
    note: key.note,
    owner: key.owner === null ? null : { ...key.owner, left_at: key.ownerLeftAt?.toISOString() ?? null },
    masked: maskKey(key.lastFour),
    state: keyState({ revokedAt: key.revoked?.at ?? null, expiresAt: key.expiresAt }, key.readAt),
    scopes: key.scopes.map((scope) => grantableScopeSchema.parse(scope)),
    allowed_addresses: [...key.addresses],
    created_by: key.createdBy,
    created_at: key.createdAt.toISOString(),
    expires_at: key.expiresAt.toISOString(),
    revoked_at: key.revoked?.at.toISOString() ?? null,
    revoked_by: key.revoked?.by ?? null,
    revoke_reason: key.revoked?.reason ?? null,
    last_used_at: key.lastUsedAt?.toISOString() ?? null,
    last_refused_at: key.lastRefusedAt?.toISOString() ?? null,
    rotated_from: key.rotatedFrom,
    version: key.version,
  }
}

/**
 * Includes the last use, the state and whether the owner left, which change without a new version. Conditional writes compare only the version.
 */
export function etagOf(key: StoredKey): string {
  return `"${key.version}.${key.lastUsedAt?.valueOf() ?? 0}.${toApiKey(key).state}${key.ownerLeftAt === null ? '' : 'left'}"`
}

/** Whether an `If-Match` field (RFC 9110 §13.1.1) names this version. */
export function matchesVersion(ifMatch: string, version: number): boolean {
  return tagsIn(ifMatch).some(
    (tag) => tag === '*' || /^"(\d{1,10})\.\d{1,16}\.[a-z]{1,20}"$/.exec(tag)?.[1] === String(version),
  )
}
