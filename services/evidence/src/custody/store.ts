import type { Tx } from '@postern/tenant-db'
import type { Actor } from '../actor.ts'
import type { CustodyEvent } from './rules.ts'

const insertText = `
  insert into evidence.custody_event (
    tenant_id, file_id, upload_id, kind, detail, occurred_at, actor_type, actor_id, actor_label, request_id
  )
  select (select tenancy.tenant_id()), $1, $2, event.kind, event.detail, coalesce($4::timestamptz, clock_timestamp()), $5, $6, $7, $8
  from rows from (jsonb_to_recordset($3::jsonb) as (kind text, detail jsonb))
    with ordinality as event (kind, detail, place)
  order by event.place`

export async function insertCustodyEvents(
  tx: Tx,
  subject: { readonly fileId?: string | undefined; readonly uploadId?: string | undefined },
  events: readonly CustodyEvent[],
  by: { readonly actor: Actor; readonly requestId: string; readonly at?: string | undefined },
): Promise<void> {
  if (events.length === 0) return
  await tx.execute({
    name: 'evidence_insert_custody_events',
    text: insertText,
    values: [
      subject.fileId ?? null,
      subject.uploadId ?? null,
      JSON.stringify(events),
      by.at ?? null,
      by.actor.type,
      by.actor.id,
      by.actor.label,
      by.requestId,
    ],
  })
}
