import { keyState, maskKey } from '@postern/api-key'
import { type ApiKey, grantableScopeSchema } from '@postern/contracts'
import { type RequestInfo, tagsIn } from '@postern/service-kit'
import type { StoredKey } from './stored-key.ts'

export function toApiKey(key: StoredKey): ApiKey {
  const state = keyState({ revokedAt: key.revoked?.at ?? null, expiresAt: key.expiresAt }, key.readAt)
  return {
    id: key.id,
    label: key.label,
    note: key.note,
    owner: key.owner === null ? null : { ...key.owner, left_at: key.ownerLeftAt?.toISOString() ?? null },
    masked: maskKey(key.lastFour),
    state,
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
    pending_overlap: state === 'active' ? key.pendingOverlap : null,
    version: key.version,
  }
}

/** The only response with the value of a key. */
export function toCreatedKey(answer: RequestInfo['answer'], key: StoredKey, value: string): ApiKey & { key: string } {
  answer.header('cache-control', 'no-store')
  answer.header('location', `/api/v1/api-keys/${key.id}`)
  answer.etag(etagOf(key))
  return { ...toApiKey(key), key: value }
}

/** A repeated request returns only the id, because the value is not stored. */
export function alreadyCreatedDetail(id: string): string {
  return `This request already created the API key ${id}. Only the first response contained its value. If you did not receive it, revoke the key and create another one with a new Idempotency-Key.`
}

/**
 * Includes the last use and refusal, the state, whether the owner left, and a pending overlap, which change without a new
 * version. Conditional writes compare only the version.
 */
export function etagOf(key: StoredKey): string {
  const { state, pending_overlap: pending } = toApiKey(key)
  const words = `${state}${key.ownerLeftAt === null ? '' : 'left'}${pending ?? ''}`
  const times = `${key.lastUsedAt?.valueOf() ?? 0}.${key.lastRefusedAt?.valueOf() ?? 0}`
  return `"${key.version}.${times}.${words}"`
}

/** Whether an `If-Match` field (RFC 9110 §13.1.1) names this version. Tags of earlier releases have one time. */
export function matchesVersion(ifMatch: string, version: number): boolean {
  return tagsIn(ifMatch).some(
    (tag) => tag === '*' || /^"(\d{1,10})(?:\.\d{1,16}){1,2}\.[a-z0-9]{1,20}"$/.exec(tag)?.[1] === String(version),
  )
}
