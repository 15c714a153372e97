import { type EvidenceFile, maxListedAttachments } from '@postern/contracts'
import { type Tx, statement } from '@postern/tenant-db'
import type { Actor } from '../actor.ts'
import { lockBlob } from '../upload/store.ts'

export interface FileFilter {
  readonly status?: readonly EvidenceFile['status'][] | undefined
  readonly sha256?: string | undefined
  readonly retentionOver?: boolean | undefined
  readonly legalHold?: boolean | undefined
  readonly testProcedureIds?: readonly string[] | undefined
  readonly receivedAfter?: Date | undefined
  readonly receivedBefore?: Date | undefined
  readonly evidenceFrom?: string | undefined
  readonly evidenceTo?: string | undefined
  /** A part of the name, description, source or reference, in any case. */
  readonly text?: string | undefined
}

interface FilePage {
  readonly order: 'asc' | 'desc'
  readonly after: string | undefined
  readonly limit: number
}

export interface FoundFile {
  readonly file: EvidenceFile
  readonly isRetentionOver: boolean
  readonly verdict: 'reviewed' | 'rejected' | null
}

export async function listFiles(
  tx: Tx,
  filter: FileFilter,
  { order, after, limit }: FilePage,
): Promise<EvidenceFile[]> {
  const rows = await tx.query<FileRow>({
    ...(isOfInfected(filter)
      ? { name: `evidence_list_infected_${order}`, text: listText(`${filtered} and f.scan = 'infected'`, order) }
      : { name: `evidence_list_files_${order}`, text: listText(filtered, order) }),
    values: [...filterValues(filter), after ?? (order === 'asc' ? firstId : lastId), limit],
  })
  return rows.map((row) => toFile(row).file)
}

export async function countFiles(tx: Tx, filter: FileFilter): Promise<number> {
  const [row] = await tx.query<{ total: number }>(count(filterValues(filter)))
  return row?.total ?? 0
}

export async function findFile(tx: Tx, id: string): Promise<FoundFile | undefined> {
  const [row] = await tx.query<FileRow>(find([id]))
  return row === undefined ? undefined : toFile(row)
}

/** Locks the file against other decisions until the transaction ends. */
export async function lockFile(tx: Tx, id: string): Promise<FoundFile | undefined> {
  const before = await findFile(tx, id)
  if (before === undefined) return undefined
  await lockBlob(tx, before.file.sha256)
  // A separate statement sees what was committed while this one waited.
  return (await findFile(tx, id)) ?? before
}

const insert = statement(
  'evidence_insert_decision',
  `insert into evidence.file_decision (
    tenant_id, file_id, kind, reason, decided_by_type, decided_by_id, decided_by_label
  )
  values ((select tenancy.tenant_id()), $1, $2, $3, $4, $5, $6)`,
)

export async function insertDecision(
  tx: Tx,
  id: string,
  { kind, reason }: { readonly kind: 'released' | 'reviewed' | 'rejected' | 'purged'; readonly reason: string },
  by: Actor,
): Promise<void> {
  await tx.execute(insert([id, kind, reason, by.type, by.id, by.label]))
}

const firstId = '00000000-0000-0000-0000-000000000000'
const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

type Person = EvidenceFile['created_by']

interface FileRow extends Omit<
  EvidenceFile,
  'size_bytes' | 'received_at' | 'collected_at' | 'decided_at' | 'decided_by' | 'created_by' | 'legal_hold'
> {
  readonly size_bytes: string
  readonly collected_at: Date | null
  readonly received_at: Date
  readonly decided_at: Date | null
  readonly decided_by_type: Person['type'] | null
  readonly decided_by_id: string | null
  readonly decided_by_label: string | null
  readonly created_by_type: Person['type']
  readonly created_by_id: string
  readonly created_by_label: string
  readonly hold_reason: string | null
  readonly held_at: Date | null
  readonly held_by_type: Person['type'] | null
  readonly held_by_id: string | null
  readonly held_by_label: string | null
  readonly verdict: FoundFile['verdict']
  readonly is_retention_over: boolean
}

function toFile(row: FileRow): FoundFile {
  const {
    is_retention_over: isRetentionOver,
    verdict,
    created_by_type,
    created_by_id,
    created_by_label,
    decided_by_type,
    decided_by_id,
    decided_by_label,
    held_by_type,
    held_by_id,
    held_by_label,
    hold_reason,
    held_at,
    size_bytes,
    received_at,
    collected_at,
    decided_at,
    ...same
  } = row
  const setBy = personOf(held_by_type, held_by_id, held_by_label)
  const isHeld = hold_reason !== null && held_at !== null && setBy !== null
  return {
    isRetentionOver,
    verdict,
    file: {
      ...same,
      size_bytes: Number(size_bytes),
      received_at: received_at.toISOString(),
      collected_at: collected_at?.toISOString() ?? null,
      decided_at: decided_at?.toISOString() ?? null,
      decided_by: personOf(decided_by_type, decided_by_id, decided_by_label),
      legal_hold: isHeld ? { reason: hold_reason, set_at: held_at.toISOString(), set_by: setBy } : null,
      created_by: { type: created_by_type, id: created_by_id, label: created_by_label },
    },
  }
}

function personOf(type: Person['type'] | null, id: string | null, label: string | null): Person | null {
  return type === null || id === null ? null : { type, id, label: label ?? '' }
}

function filterValues(filter: FileFilter): readonly unknown[] {
  const { status, sha256, retentionOver, legalHold, testProcedureIds, receivedAfter, receivedBefore } = filter
  const { evidenceFrom, evidenceTo, text } = filter
  const pattern = text === undefined ? undefined : `%${text.replaceAll(/[\\%_]/g, '\\$&')}%`
  const values = [status, sha256, retentionOver, legalHold, testProcedureIds, receivedAfter, receivedBefore]
  return [...values, evidenceFrom, evidenceTo, pattern].map((value) => value ?? null)
}

function attachmentsOf(most: string): string {
  return `coalesce((
    select jsonb_agg(
      jsonb_build_object(
        'test_procedure_id', a.test_procedure,
        'note', a.note,
        'attached_at', to_char(a.attached_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'attached_by',
        jsonb_build_object('type', a.attached_by_type, 'id', a.attached_by_id, 'label', a.attached_by_label)
      )
      order by a.attached_at, a.test_procedure
    )
    from (
      select first.*
      from evidence.attachment first
      where first.tenant_id = f.tenant_id and first.file_id = f.id
      order by first.attached_at, first.test_procedure
      limit ${most}
    ) as a
  ), '[]') as attachments`
}

// The subquery runs only for rows with a newer version; with `exists` PostgreSQL would read all files.
const columns = `
  f.id, f.reference, f.file_name, f.content_type, f.detected_content_type, f.size_bytes, f.sha256, f.received_at,
  f.evidence_date, f.period_start, f.period_end, f.source_system, f.collection_method, f.collected_by, f.collected_at,
  f.query_text, f.classification, f.description,
  array(
    select a.test_procedure
    from evidence.attachment a
    where a.tenant_id = f.tenant_id and a.file_id = f.id
    order by a.attached_at, a.test_procedure
  ) as test_procedure_ids,
  f.version_of, f.revision, state.status, f.scan, f.malware, state.retention_until,
  last.decided_at, last.decided_by_type, last.decided_by_id, last.decided_by_label, last.reason as decision_reason,
  hold.reason as hold_reason, hold.decided_at as held_at,
  hold.decided_by_type as held_by_type, hold.decided_by_id as held_by_id, hold.decided_by_label as held_by_label,
  (
    select d.kind from evidence.file_decision d
    where d.tenant_id = f.tenant_id and d.file_id = f.id and d.kind in ('reviewed', 'rejected')
  ) as verdict,
  f.created_by_type, f.created_by_id, f.created_by_label, state.is_retention_over`

const from = `
  evidence.file f
  left join lateral (
    select d.kind, d.decided_at, d.decided_by_type, d.decided_by_id, d.decided_by_label, d.reason
    from evidence.file_decision d
    where d.tenant_id = f.tenant_id and d.file_id = f.id
    order by d.kind = 'purged' desc, d.decided_at desc, d.kind = 'released'
    limit 1
  ) as last on true
  left join lateral (
    select newest.reason, newest.decided_at, newest.decided_by_type, newest.decided_by_id, newest.decided_by_label
    from (
      select h.* from evidence.legal_hold h
      where h.tenant_id = f.tenant_id and h.file_id = f.id
      order by h.number desc
      limit 1
    ) as newest
    where newest.kind = 'set'
  ) as hold on true
  cross join lateral (
    select
      case
        when last.kind = 'purged' then 'purged'
        when f.scan = 'infected' and last.kind is null then 'quarantined'
        when (
          select evidence.is_superseded(f.tenant_id, f.id)
          from evidence.file newer
          where newer.tenant_id = f.tenant_id and newer.version_of = f.id
        ) then 'superseded'
        else coalesce(last.kind, 'accepted')
      end as status,
      f.retention_until,
      (now() at time zone 'UTC')::date > f.retention_until as is_retention_over
  ) as state`

const filtered = `
  ($1::text[] is null or state.status = any($1::text[]))
  and ($2::text is null or f.sha256 = $2::text)
  and ($3::boolean is null or (state.is_retention_over and state.status <> 'purged' and hold.decided_at is null) = $3::boolean)
  and ($4::boolean is null or (hold.decided_at is not null) = $4::boolean)
  and ($5::text[] is null or f.id = any(array(
    select a.file_id from evidence.attachment a where a.test_procedure = any($5::text[])
  )))
  and ($6::timestamptz is null or f.received_at > $6::timestamptz)
  and ($7::timestamptz is null or f.received_at < $7::timestamptz)
  and ($8::date is null or f.evidence_date >= $8::date)
  and ($9::date is null or f.evidence_date <= $9::date)
  and ($10::text is null or f.file_name ilike $10 or f.description ilike $10 or f.source_system ilike $10
    or f.reference ilike $10)`

function listText(where: string, order: FilePage['order']): string {
  return `
    select ${columns}, ${attachmentsOf(String(maxListedAttachments))}
    from ${from}
    where ${where} and f.id ${order === 'asc' ? '>' : '<'} $11::uuid
    order by f.id ${order}
    limit $12`
}

function isOfInfected({ status }: FileFilter): boolean {
  return status?.every((each) => each === 'quarantined' || each === 'released') ?? false
}

const count = statement('evidence_count_files', `select count(*)::integer as total from ${from} where ${filtered}`)

// file_pk
const find = statement(
  'evidence_find_file',
  `select ${columns}, ${attachmentsOf('all')} from ${from} where f.id = $1::uuid`,
)
