import type { StoredCustodyEvent } from '@postern/contracts'
import { type Tx, statement } from '@postern/tenant-db'
import type { Actor } from '../actor.ts'
import type { CustodyEvent } from './rules.ts'

const insert = statement(
  'evidence_insert_custody_events',
  `insert into evidence.custody_event (
    tenant_id, file_id, upload_id, kind, detail, occurred_at, actor_type, actor_id, actor_label, request_id
  )
  select (select tenancy.tenant_id()), $1, $2, event.kind, event.detail, coalesce($4::timestamptz, clock_timestamp()), $5, $6, $7, $8
  from rows from (jsonb_to_recordset($3::jsonb) as (kind text, detail jsonb))
    with ordinality as event (kind, detail, place)
  order by event.place`,
)

export async function insertCustodyEvents(
  tx: Tx,
  subject: { readonly fileId?: string | undefined; readonly uploadId?: string | undefined },
  events: readonly CustodyEvent[],
  by: { readonly actor: Actor; readonly requestId: string; readonly at?: string | undefined },
): Promise<void> {
  if (events.length === 0) return
  await tx.execute(
    insert([
      subject.fileId ?? null,
      subject.uploadId ?? null,
      JSON.stringify(events),
      by.at ?? null,
      by.actor.type,
      by.actor.id,
      by.actor.label,
      by.requestId,
    ]),
  )
}

interface CustodyRow extends Omit<StoredCustodyEvent, 'occurred_at' | 'actor'> {
  readonly occurred_at: Date
  readonly actor_type: StoredCustodyEvent['actor']['type']
  readonly actor_id: string
  readonly actor_label: string
}

// custody_event_file
const selectCustody = statement(
  'evidence_list_custody',
  `select e.id, e.kind, e.detail, e.occurred_at, e.actor_type, e.actor_id, e.actor_label, e.request_id
  from evidence.custody_event e
  where e.file_id = $1::uuid and e.id > $2::uuid
  order by e.id
  limit $3`,
)

const firstId = '00000000-0000-0000-0000-000000000000'

export async function listCustody(
  tx: Tx,
  fileId: string,
  { after, limit }: { readonly after: string | undefined; readonly limit: number },
): Promise<StoredCustodyEvent[]> {
  const rows = await tx.query<CustodyRow>(selectCustody([fileId, after ?? firstId, limit]))
  return rows.map(({ actor_type: type, actor_id, actor_label: label, occurred_at, ...same }) => ({
    ...same,
    occurred_at: occurred_at.toISOString(),
    actor: { type, id: actor_id, label },
  }))
}

const count = statement(
  'evidence_count_custody',
  'select count(*)::integer as total from evidence.custody_event e where e.file_id = $1',
)

export async function countCustody(tx: Tx, fileId: string): Promise<number> {
  const [row] = await tx.query<{ total: number }>(count([fileId]))
  return row?.total ?? 0
}
