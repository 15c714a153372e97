import type { AuditEvent } from '@postern/contracts'
import { nextPage } from './keys.ts'
import { download, request } from './request.ts'

export type { AuditEvent }

const base = '/api/v1/audit-events'

/** `query` has the filters. Lists the newest hundred events. */
export async function listAuditEvents(
  query: string,
  signal: AbortSignal,
): Promise<{ readonly events: readonly AuditEvent[]; readonly hasMore: boolean }> {
  const { body, headers } = await request<readonly AuditEvent[]>(`${base}?limit=100&${query}`, { signal })
  return { events: body, hasMore: nextPage(headers.get('link')) !== undefined }
}

/** Returns all events that match as CSV. */
export async function exportAuditEvents(query: string, signal: AbortSignal): Promise<Blob> {
  return await download(`${base}?csv=excel&formulas=escape&${query}`, { headers: { accept: 'text/csv' }, signal })
}
