import type { ApiKey, ApiKeyEvent, ApiKeyUsage, CreatedApiKey, Enforcement, GrantableScope } from '@postern/contracts'
import { request } from './request.ts'

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

/** All keys, newest first; `onPage` is given what is there so far, since a page holds a thousand. */
export async function listKeys(signal: AbortSignal, onPage: (keys: readonly ApiKey[]) => void): Promise<ApiKey[]> {
  const keys: ApiKey[] = []
  let next: string | undefined = `${base}?limit=1000`
  while (next !== undefined) {
    const { body, headers }: { body: readonly ApiKey[]; headers: Headers } = await request<readonly ApiKey[]>(next, {
      signal,
    })
    keys.push(...body)
    next = nextPage(headers.get('link'))
    if (next !== undefined) onPage([...keys])
  }
  return keys
}

/** The target of `rel="next"` (RFC 8288), as a path of the API, whatever the path below which a proxy publishes it. */
export function nextPage(link: string | null): string | undefined {
  const target = /<([^>]*)>\s*;\s*rel="?next"?/.exec(link ?? '')?.[1]
  if (target === undefined) return undefined
  const { pathname, search } = new URL(target, location.origin)
  return `${pathname.slice(Math.max(0, pathname.lastIndexOf('/api/v1/')))}${search}`
}

export async function getKey(id: string, signal: AbortSignal): Promise<ApiKey> {
  const { body } = await request<ApiKey>(`${base}/${encodeURIComponent(id)}`, { signal })
  return body
}

/** The newest events of a key, and whether there are more. */
export async function listEvents(
  id: string,
  signal: AbortSignal,
): Promise<{ events: readonly ApiKeyEvent[]; hasMore: boolean }> {
  const { body, headers } = await request<readonly ApiKeyEvent[]>(
    `${base}/${encodeURIComponent(id)}/events?limit=200`,
    { signal },
  )
  return { events: body, hasMore: nextPage(headers.get('link')) !== undefined }
}

/** Makes a key. `attempt` names the person's one decision: repeated after a broken connection it makes no second key. */
export async function createKey(body: NewKey, attempt: string, signal: AbortSignal): Promise<CreatedApiKey> {
  const headers = { 'idempotency-key': attempt }
  return (await request<CreatedApiKey>(base, { method: 'POST', body, headers, signal })).body
}

export interface Rotation {
  readonly overlap: string
  readonly expires_in?: '30d' | '90d' | '1y'
}

/** Makes the successor of a key; the old one ends after the overlap. */
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

/** Revokes a key; answers when no gateway accepts it any more. Safe to repeat. */
export async function revokeKey(id: string, reason: string, signal: AbortSignal): Promise<RevokedKey> {
  const path = `${base}/${encodeURIComponent(id)}/revoke`
  const body = reason === '' ? {} : { reason }
  // No Idempotency-Key: a repetition shall wait for the enforcement anew, not read an old answer.
  return (await request<RevokedKey>(path, { method: 'POST', body, signal })).body
}

/** How often a key was used, a day at a time, and which routes it called. */
export async function readKeyUsage(id: string, signal: AbortSignal): Promise<ApiKeyUsage> {
  return (await request<ApiKeyUsage>(`${base}/${encodeURIComponent(id)}/usage`, { signal })).body
}
