import type { AttachmentReceipt } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import { statement } from '../sql/store.ts'
import type { Actor } from '../actor.ts'

// A file in quarantine replaces nothing until it is released, so the walk goes on to the version before it.
const selectReplaced = statement(
  'evidence_replaced_procedures',
  `with recursive line (id, version_of, counts) as (
    select null::uuid, $1::uuid, false
    where not evidence.is_superseded((select tenancy.tenant_id()), $1)
    union all
    select older.id, older.version_of, older.scan <> 'infected' or exists (
      select from evidence.file_decision as decision
      where decision.tenant_id = older.tenant_id
        and decision.file_id = older.id
        and decision.kind = 'released'
    )
    from line
    join evidence.file as older
      on older.tenant_id = (select tenancy.tenant_id())
      and older.id = line.version_of
    where not line.counts
  )
  select distinct attachment.test_procedure
  from line
  join evidence.attachment
    on attachment.tenant_id = (select tenancy.tenant_id())
    and attachment.file_id = line.id
  where attachment.test_procedure ~ '^[0-9a-f]{8}-'
  order by attachment.test_procedure`,
)

/** Lists the test procedures whose evidence a newer version of the file would replace. */
export async function listReplacedProcedures(tx: Tx, fileId: string): Promise<readonly string[]> {
  const rows = await tx.query<{ test_procedure: string }>(selectReplaced([fileId]))
  return rows.map(({ test_procedure: id }) => id)
}

// The same key as in guard_file_decision and guard_legal_hold.
const lock = statement(
  'evidence_lock_decisions',
  `select pg_advisory_xact_lock(
    hashtextextended('evidence.decision:' || (select tenancy.tenant_id()) || ':' || $1::uuid, 0))`,
)

export async function lockDecisions(tx: Tx, fileId: string): Promise<void> {
  await tx.query(lock([fileId]))
}

const insert = statement(
  'evidence_insert_attachments',
  `insert into evidence.attachment (
    tenant_id, file_id, test_procedure, note, attached_at, attached_by_type, attached_by_id, attached_by_label
  )
  select (select tenancy.tenant_id()), $1, test_procedure, $3, $4, $5, $6, $7
  from unnest($2::text[]) as test_procedure
  on conflict on constraint attachment_once do nothing
  returning test_procedure`,
)

export async function insertAttachments(
  tx: Tx,
  receipt: Omit<AttachmentReceipt, 'attachments' | 'jws'>,
  procedureIds: readonly string[],
  actor: Actor,
): Promise<readonly string[]> {
  const rows = await tx.query<{ test_procedure: string }>(
    insert([receipt.id, procedureIds, receipt.note, receipt.attached_at, actor.type, actor.id, actor.label]),
  )
  return rows.map(({ test_procedure: id }) => id)
}

const find = statement(
  'evidence_find_attachments',
  `select test_procedure, note, attached_at
  from evidence.attachment
  where tenant_id = (select tenancy.tenant_id())
    and file_id = $1
    and test_procedure = any($2::text[])
  order by attached_at, test_procedure`,
)

export async function findAttachments(
  tx: Tx,
  fileId: string,
  procedureIds: readonly string[],
): Promise<NonNullable<AttachmentReceipt['attachments']>> {
  const rows = await tx.query<{ test_procedure: string; note: string | null; attached_at: Date }>(
    find([fileId, procedureIds]),
  )
  return rows.map(({ test_procedure: test_procedure_id, note, attached_at: at }) => ({
    test_procedure_id,
    note,
    attached_at: at.toISOString(),
  }))
}
