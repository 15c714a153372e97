import type {
  ApiKey,
  ApiKeyEvent,
  ApiKeyUsage,
  BulkPreview,
  BulkReceipt,
  ChangeKeys,
  CreatedApiKey,
  Enforcement,
  Explanation,
  GrantableScope,
  HealthReason,
  KeyHealth,
  OwnerChoice,
} from '@postern/contracts'
import { type PartialList, readAllPages, readFirstPage } from './list.ts'
import { download, request } from './request.ts'

export type { ApiKey, ApiKeyEvent, ApiKeyUsage, CreatedApiKey, Enforcement, GrantableScope }
export type Expiry = '30d' | '90d' | '1y' | 'custom'

export interface NewKey {
  readonly label: string
  readonly expires_in: Expiry
  readonly expires_at?: string
  readonly scopes: readonly GrantableScope[]
  readonly allowed_addresses: readonly string[]
}

const base = '/api/v1/api-keys'

/** Newest first. `onPage` receives the keys so far. */
export async function listKeys(signal: AbortSignal, onPage: (keys: readonly ApiKey[]) => void): Promise<ApiKey[]> {
  return await readAllPages(`${base}?limit=1000`, signal, onPage)
}

export async function getKey(id: string, signal: AbortSignal): Promise<ApiKey> {
  const { body } = await request<ApiKey>(`${base}/${encodeURIComponent(id)}`, { signal })
  return body
}

export type RequestToExplain =
  | { readonly method: string; readonly path: string; readonly address?: string }
  | { readonly request_id: string }

/** Returns what a gateway would decide about a request with the key. */
export async function explainRequest(id: string, asked: RequestToExplain, signal: AbortSignal): Promise<Explanation> {
  const path = `${base}/${encodeURIComponent(id)}/explain`
  return (await request<Explanation>(path, { method: 'POST', body: asked, signal })).body
}

/** Throws a 404 problem if no key of the tenant has this value. */
export async function findKey(value: string, signal: AbortSignal): Promise<ApiKey> {
  return (await request<ApiKey>(`${base}/find`, { method: 'POST', body: { key: value }, signal })).body
}

export interface TaggedKey {
  readonly key: ApiKey
  readonly etag: string
}

export async function readTaggedKey(id: string, signal: AbortSignal): Promise<TaggedKey> {
  const { body, headers } = await request<ApiKey>(`${base}/${encodeURIComponent(id)}`, { signal })
  return { key: body, etag: headers.get('etag') ?? '' }
}

export interface KeyChange {
  readonly label?: string
  readonly note?: string | null
  readonly owner?: OwnerChoice
  readonly scopes?: readonly GrantableScope[]
  readonly allowed_addresses?: readonly string[]
  readonly expires_at?: string
}

/** Resolves when every gateway enforces a narrowing. */
export async function changeKey({ key, etag }: TaggedKey, change: KeyChange, signal: AbortSignal): Promise<ApiKey> {
  const path = `${base}/${encodeURIComponent(key.id)}`
  return (await request<ApiKey>(path, { method: 'PATCH', body: change, headers: { 'if-match': etag }, signal })).body
}

export async function readKeyHealth(signal: AbortSignal): Promise<KeyHealth> {
  return (await request<KeyHealth>('/api/v1/key-health', { signal })).body
}

/** Lists the newest hundred keys with this reason. */
export async function listKeysByReason(reason: HealthReason, signal: AbortSignal): Promise<readonly ApiKey[]> {
  return (await request<readonly ApiKey[]>(`${base}?limit=100&health=${reason}`, { signal })).body
}

/** Returns all keys with this reason as CSV. */
export async function exportKeysByReason(reason: HealthReason, signal: AbortSignal): Promise<Blob> {
  return await download(`${base}?csv=excel&formulas=escape&health=${reason}`, {
    headers: { accept: 'text/csv' },
    signal,
  })
}

export async function listEvents(id: string, signal: AbortSignal): Promise<PartialList<ApiKeyEvent>> {
  return await readFirstPage(`${base}/${encodeURIComponent(id)}/events?limit=200`, { signal })
}

/** The same `attempt` creates no second key. */
export async function createKey(body: NewKey, attempt: string, signal: AbortSignal): Promise<CreatedApiKey> {
  const headers = { 'idempotency-key': attempt }
  return (await request<CreatedApiKey>(base, { method: 'POST', body, headers, signal })).body
}

export interface Rotation {
  readonly overlap: string
  readonly overlap_from?: 'rotation' | 'first_use'
  readonly expires_in?: '30d' | '90d' | '1y'
  readonly scopes?: readonly GrantableScope[]
}

export async function rotateKey(
  id: string,
  body: Rotation,
  attempt: string,
  signal: AbortSignal,
): Promise<CreatedApiKey> {
  const path = `${base}/${encodeURIComponent(id)}/rotate`
  const headers = { 'idempotency-key': attempt }
  return (await request<CreatedApiKey>(path, { method: 'POST', body, headers, signal })).body
}

export type RevokedKey = ApiKey & { readonly enforcement: Enforcement | null }

/** Resolves when every gateway rejects the key. Safe to repeat. */
export async function revokeKey(id: string, reason: string, signal: AbortSignal): Promise<RevokedKey> {
  const path = `${base}/${encodeURIComponent(id)}/revoke`
  const body = reason === '' ? {} : { reason }
  // No Idempotency-Key: a repeated request must wait for the enforcement.
  return (await request<RevokedKey>(path, { method: 'POST', body, signal })).body
}

/** Shows which of the keys were used in the last 24 hours. */
export async function previewBulk(ids: readonly string[], signal: AbortSignal): Promise<BulkPreview> {
  return (await request<BulkPreview>(`${base}/bulk/preview`, { method: 'POST', body: { ids }, signal })).body
}

/** Changes all keys of the preview or none. Resolves when every gateway enforces it. Safe to repeat. */
export async function changeKeys(
  preview: BulkPreview,
  change: Omit<ChangeKeys, 'ids' | 'version'>,
  signal: AbortSignal,
): Promise<BulkReceipt> {
  const body = { ...change, ids: preview.keys.map(({ id }) => id), version: preview.version }
  return (await request<BulkReceipt>(`${base}/bulk`, { method: 'POST', body, signal })).body
}

export async function readKeyUsage(id: string, signal: AbortSignal): Promise<ApiKeyUsage> {
  return (await request<ApiKeyUsage>(`${base}/${encodeURIComponent(id)}/usage`, { signal })).body
}
