import type { AuditEvent } from '@postern/contracts'
import { type PartialList, readFirstPage } from './list.ts'
import { download } from './request.ts'

export type { AuditEvent }

const base = '/api/v1/audit-events'

/** Lists the newest hundred events that match the filters in `query`. */
export async function listAuditEvents(query: string, signal: AbortSignal): Promise<PartialList<AuditEvent>> {
  return await readFirstPage(`${base}?limit=100&${query}`, { signal })
}

/** Returns all events that match as CSV. */
export async function exportAuditEvents(query: string, signal: AbortSignal): Promise<Blob> {
  return await download(`${base}?csv=excel&formulas=escape&${query}`, { headers: { accept: 'text/csv' }, signal })
}
