import { type Tx, statement } from '@postern/tenant-db'
import type { Actor } from '../actor.ts'

const insert = statement(
  'evidence_insert_hold',
  `insert into evidence.legal_hold (
    tenant_id, file_id, number, kind, reason, decided_by_type, decided_by_id, decided_by_label
  )
  select (select tenancy.tenant_id()), $1, coalesce(max(h.number), 0) + 1, $2, $3, $4, $5, $6
  from evidence.legal_hold h
  where h.file_id = $1`,
)

export async function insertHold(
  tx: Tx,
  id: string,
  { kind, reason }: { readonly kind: 'set' | 'lifted'; readonly reason: string },
  by: Actor,
): Promise<void> {
  await tx.execute(insert([id, kind, reason, by.type, by.id, by.label]))
}
