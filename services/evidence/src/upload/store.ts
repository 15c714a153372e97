import type { AttachmentReceipt, EvidenceDetails, Receipt } from '@postern/contracts'
import { type Tx, sqlError } from '@postern/tenant-db'

/** Who uploads, as the rows keep it. */
export interface Actor {
  readonly type: 'api_key' | 'user' | 'operator' | 'connector'
  readonly id: string
  readonly label: string
}

// One upload or sweep of the same bytes at a time in a tenant: between the look at the rows and the change of the
// directory nobody else may do either. The key holds the tenant that the assertion proves, so that no tenant can hold
// back another's; a collision of two keys costs waiting, nothing else.
const lockBlobText = `
  select pg_advisory_xact_lock(hashtextextended('evidence.blob:' || (select tenancy.tenant_id())::text || ':' || $1, 0))`

/** Waits for the lock of a blob and holds it to the end of the transaction. */
export async function lockBlob(tx: Tx, sha256: string): Promise<void> {
  await tx.query({ name: 'evidence_lock_blob', text: lockBlobText, values: [sha256] })
}

// The counter's row stays locked to the end of the transaction, so that no number is given out twice or lost; hence it
// is asked for last, just before the insert. Served by the primary key.
const takeNumberText = `
  insert into evidence.reference_counter as counter (tenant_id, year, last_number)
  values ((select tenancy.tenant_id()), extract(year from now() at time zone 'utc')::integer, 1)
  on conflict (tenant_id, year) do update
    set last_number = counter.last_number + 1
  returning
    counter.year,
    counter.last_number as number,
    uuidv7() as id,
    date_trunc('milliseconds', clock_timestamp()) as received_at,
    (
      (now() at time zone 'utc')
      + make_interval(years => coalesce(
          (select p.retention_years from evidence.policy p where p.tenant_id = (select tenancy.tenant_id())), 7))
    )::date as retention_until`

/** What the database decides of a file: its number within the year, its id and the time of its receipt. */
export interface NewFile {
  readonly year: number
  /** A bigint, as text. */
  readonly number: string
  readonly id: string
  readonly receivedAt: Date
  /** As the tenant's policy says now. */
  readonly retentionUntil: string
}

/** Takes the next number of the tenant's year (UTC). */
export async function takeNumber(tx: Tx): Promise<NewFile> {
  const [row] = await tx.query<{
    year: number
    number: string
    id: string
    received_at: Date
    retention_until: string
  }>({
    name: 'evidence_take_number',
    text: takeNumberText,
    values: [],
  })
  if (row === undefined) throw new Error('the counter gave no number')
  const { year, number, id, received_at: receivedAt, retention_until: retentionUntil } = row
  return { year, number, id, receivedAt, retentionUntil }
}

const insertFileText = `
  with file as (
    insert into evidence.file (
      tenant_id, id, reference, file_name, content_type, detected_content_type, size_bytes, sha256, test_procedures,
      scan, received_at, receipt_jws, created_by_type, created_by_id, created_by_label,
      evidence_date, period_start, period_end, source_system, collection_method, collected_by, collected_at,
      query_text, classification, description, version_of, revision, malware, retention_until
    )
    values (
      (select tenancy.tenant_id()), $1, $2, $3, $4, $5, $6, $7, $8,
      $9, $10, $11, $12, $13, $14,
      $15, $16, $17, $18, $19, $20, $21,
      $22, $23, $24, $25, $26, $27, $29
    )
  )
  insert into evidence.attachment (
    tenant_id, file_id, test_procedure, attached_at, attached_by_type, attached_by_id, attached_by_label
  )
  select (select tenancy.tenant_id()), $1, test_procedure, $10, $12, $13, $14
  from unnest($28::text[]) as test_procedure`

/** Records a file as its receipt describes it, what its sender says of it, and for which test procedures it is evidence. */
export async function insertFile(
  tx: Tx,
  receipt: Receipt,
  { details, procedureIds }: { readonly details: EvidenceDetails; readonly procedureIds: readonly string[] },
  actor: Actor,
): Promise<void> {
  await tx.execute({
    name: 'evidence_insert_file',
    text: insertFileText,
    values: [
      receipt.id,
      receipt.reference,
      receipt.file_name,
      receipt.content_type,
      receipt.detected_content_type,
      receipt.size_bytes,
      receipt.sha256,
      receipt.test_procedures,
      receipt.scan,
      receipt.received_at,
      receipt.jws,
      actor.type,
      actor.id,
      actor.label,
      receipt.evidence_date,
      details.period_start ?? null,
      details.period_end ?? null,
      details.source_system ?? null,
      details.collection_method ?? null,
      details.collected_by === undefined ? null : JSON.stringify(details.collected_by),
      details.collected_at ?? null,
      details.query_text ?? null,
      details.classification,
      details.description ?? null,
      receipt.version_of,
      receipt.revision,
      receipt.malware,
      procedureIds,
      receipt.retention_until ?? null,
    ],
  })
}

// Like the reference counter, its row stays locked to the end of the transaction: two uploads at once cannot both take
// the last room. Served by the primary key.
const addUsageText = `
  insert into evidence.tenant_usage as usage (tenant_id, bytes, files)
  values ((select tenancy.tenant_id()), $1, $2)
  on conflict (tenant_id) do update
    set bytes = usage.bytes + excluded.bytes,
        files = usage.files + excluded.files
  returning bytes`

/** Counts files to what the tenant keeps, and gives the bytes that it keeps then. */
export async function addUsage(tx: Tx, bytes: number, files: number): Promise<bigint> {
  const [row] = await tx.query<{ bytes: string }>({
    name: 'evidence_add_usage',
    text: addUsageText,
    values: [bytes, files],
  })
  if (row === undefined) throw new Error('the usage of the tenant was not counted')
  return BigInt(row.bytes)
}

// Served by the primary key.
const usageText = `
  select bytes
  from evidence.tenant_usage
  where tenant_id = (select tenancy.tenant_id())`

/** How many bytes the tenant keeps. */
export async function findUsage(tx: Tx): Promise<bigint> {
  const [row] = await tx.query<{ bytes: string }>({ name: 'evidence_usage', text: usageText, values: [] })
  return BigInt(row?.bytes ?? 0)
}

// Served by upload_open and upload_piece_one_open.
const promisedText = `
  select coalesce(sum(length), 0)::text as bytes
  from evidence.upload
  where tenant_id = (select tenancy.tenant_id())
    and receipt_jws is null
    and expires_at > now()
    and (
      arrived > 0
      or created_at > now() - interval '1 hour'
      or exists (
        select from evidence.upload_piece as piece
        where piece.tenant_id = upload.tenant_id
          and piece.upload_id = upload.id
          and piece.length is null
      )
    )
    and id is distinct from $1::uuid`

/**
 * How many bytes the tenant's resumable uploads have been promised room for, but for the one named. A promise lapses where
 * nothing was sent for an hour, and nobody is sending now: to begin costs nothing, nor does a piece of no bytes.
 */
export async function findPromised(tx: Tx, except: string | undefined): Promise<bigint> {
  const [row] = await tx.query<{ bytes: string }>({
    name: 'evidence_promised',
    text: promisedText,
    values: [except ?? null],
  })
  return BigInt(row?.bytes ?? 0)
}

// Some minutes early, since clocks of transactions that run at once differ: where the promise still holds there is room.
// Served by the primary key and upload_piece_one_open.
const lapsingText = `
  select length::text
  from evidence.upload
  where tenant_id = (select tenancy.tenant_id())
    and id = $1
    and created_by_type = $2
    and created_by_id = $3
    and receipt_jws is null
    and expires_at > now()
    and arrived = 0
    and created_at < now() - interval '55 minutes'
    and not exists (
      select from evidence.upload_piece as piece
      where piece.tenant_id = upload.tenant_id
        and piece.upload_id = upload.id
        and piece.length is null
    )`

/** The bytes of an upload of the actor of which nothing was sent for so long that it is promised room no more, or soon will not be. */
export async function findLapsing(tx: Tx, id: string, actor: Actor): Promise<bigint | undefined> {
  const [row] = await tx.query<{ length: string }>({
    name: 'evidence_lapsing',
    text: lapsingText,
    values: [id, actor.type, actor.id],
  })
  return row === undefined ? undefined : BigInt(row.length)
}

/** A file as those who brought it may go on with it. */
export interface OwnFile {
  readonly id: string
  readonly reference: string
  readonly sha256: string
  readonly revision: number
  readonly isReplaced: boolean
  readonly isQuarantined: boolean
  /** Rejected by an auditor, or purged: evidence of nothing any more. */
  readonly isDismissed: boolean
}

// A sender can go on with what it has brought itself, for a month: a key that may only write learns nothing else.
// Served by the primary keys and by file_version_unique.
const ownFileText = `
  select
    file.id,
    file.reference,
    file.sha256,
    file.revision,
    file.scan = 'infected' and not exists (
      select from evidence.file_decision as decision
      where decision.tenant_id = file.tenant_id
        and decision.file_id = file.id
        and decision.kind = 'released'
    ) as is_quarantined,
    exists (
      select from evidence.file_decision as decision
      where decision.tenant_id = file.tenant_id
        and decision.file_id = file.id
        and decision.kind in ('rejected', 'purged')
    ) as is_dismissed,
    exists (
      select from evidence.file as newer
      where newer.tenant_id = file.tenant_id
        and newer.version_of = file.id
    ) as is_replaced
  from evidence.file
  where file.tenant_id = (select tenancy.tenant_id())
    and file.id = $1
    and file.created_by_type = $2
    and file.created_by_id = $3
    and file.received_at > now() - interval '30 days'`

/** The file of that id, where the actor has brought it within the last 30 days. */
export async function findOwnFile(tx: Tx, id: string, actor: Actor): Promise<OwnFile | undefined> {
  const [row] = await tx.query<{
    id: string
    reference: string
    sha256: string
    revision: number
    is_replaced: boolean
    is_quarantined: boolean
    is_dismissed: boolean
  }>({ name: 'evidence_own_file', text: ownFileText, values: [id, actor.type, actor.id] })
  if (row === undefined) return undefined
  return {
    id: row.id,
    reference: row.reference,
    sha256: row.sha256,
    revision: row.revision,
    isReplaced: row.is_replaced,
    isQuarantined: row.is_quarantined,
    isDismissed: row.is_dismissed,
  }
}

// What is in quarantine has replaced nothing: what comes after it, or it itself once it is released, replaces the first
// before it that counts. Nothing more is replaced where a newer version counts already. What named no id in former times
// locks nothing. Served by the primary keys, by file_version_unique and by attachment_once.
const replaceableText = `
  with recursive line (id, version_of, counts) as (
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
  order by attachment.test_procedure`

/** Ids of the test procedures whose evidence a next version of the file would replace, or the file itself by its release. */
export async function findReplaceable(tx: Tx, fileId: string): Promise<readonly string[]> {
  const rows = await tx.query<{ test_procedure: string }>({
    name: 'evidence_replaceable',
    text: replaceableText,
    values: [fileId],
  })
  return rows.map(({ test_procedure: id }) => id)
}

// As guard_file_decision and guard_legal_hold spell it.
const lockDecisionsText = `
  select pg_advisory_xact_lock(
    hashtextextended('evidence.decision:' || (select tenancy.tenant_id()) || ':' || $1::uuid, 0))`

/** Waits for who decides about the file just now. Nobody else does to the end of the transaction. */
export async function lockDecisions(tx: Tx, fileId: string): Promise<void> {
  await tx.query({ name: 'evidence_lock_decisions', text: lockDecisionsText, values: [fileId] })
}

// Served by attachment_once.
const insertAttachmentsText = `
  insert into evidence.attachment (
    tenant_id, file_id, test_procedure, note, attached_at, attached_by_type, attached_by_id, attached_by_label
  )
  select (select tenancy.tenant_id()), $1, test_procedure, $3, $4, $5, $6, $7
  from unnest($2::text[]) as test_procedure
  on conflict on constraint attachment_once do nothing
  returning test_procedure`

/** Attaches a file to test procedures, and gives those that it was not attached to before. */
export async function insertAttachments(
  tx: Tx,
  receipt: Omit<AttachmentReceipt, 'jws'>,
  procedureIds: readonly string[],
  actor: Actor,
): Promise<readonly string[]> {
  const rows = await tx.query<{ test_procedure: string }>({
    name: 'evidence_insert_attachments',
    text: insertAttachmentsText,
    values: [receipt.id, procedureIds, receipt.note, receipt.attached_at, actor.type, actor.id, actor.label],
  })
  return rows.map(({ test_procedure: id }) => id)
}

// Served by attachment_once.
const findAttachmentsText = `
  select test_procedure, note, attached_at
  from evidence.attachment
  where tenant_id = (select tenancy.tenant_id())
    and file_id = $1
    and test_procedure = any($2::text[])
  order by attached_at, test_procedure`

/** The file's attachments to these test procedures, as they stand, also those that others have made at the same time. */
export async function findAttachments(
  tx: Tx,
  fileId: string,
  procedureIds: readonly string[],
): Promise<NonNullable<AttachmentReceipt['attachments']>> {
  const rows = await tx.query<{ test_procedure: string; note: string | null; attached_at: Date }>({
    name: 'evidence_find_attachments',
    text: findAttachmentsText,
    values: [fileId, procedureIds],
  })
  return rows.map(({ test_procedure: test_procedure_id, note, attached_at: at }) => ({
    test_procedure_id,
    note,
    attached_at: at.toISOString(),
  }))
}

// Served by file_sha256 and file_decision_pk.
const blobIsRecordedText = `
  select exists (
    select from evidence.file
    where file.tenant_id = (select tenancy.tenant_id())
      and file.sha256 = $1
      and not exists (
        select from evidence.file_decision as decision
        where decision.tenant_id = file.tenant_id
          and decision.file_id = file.id
          and decision.kind = 'purged'
      )
  ) as recorded`

/** Whether any file of the tenant has these bytes, and is not purged. Under the lock of the blob the answer stays true. */
export async function isBlobRecorded(tx: Tx, sha256: string): Promise<boolean> {
  const [row] = await tx.query<{ recorded: boolean }>({
    name: 'evidence_blob_is_recorded',
    text: blobIsRecordedText,
    values: [sha256],
  })
  return row?.recorded === true
}

/** What a failed transaction means to the uploader. */
export type RecordFailure =
  | 'no_room'
  | 'assertion_refused'
  | 'unavailable'
  | 'replaced'
  | 'too_many_attachments'
  | 'unexpected'

// disk_full, and configuration_limit_exceeded, in which quota extensions report.
const noRoomStates: ReadonlySet<string> = new Set(['53100', '53400'])

/** Says what an error that ended a transaction means; `unexpected` is what only a bug of ours can cause. */
export function recordFailure(error: unknown): RecordFailure {
  const { kind, sqlState, constraint } = sqlError(error)
  if (constraint === 'file_version_unique') return 'replaced'
  if (constraint === 'attachment_at_most') return 'too_many_attachments'
  if (sqlState !== undefined && noRoomStates.has(sqlState)) return 'no_room'
  switch (kind) {
    case 'assertion':
      return 'assertion_refused'
    case 'timeout':
    case 'unavailable':
    case 'serialization':
      return 'unavailable'
    case 'unique':
    case 'foreign-key':
    case 'check':
    case 'not-null':
    case 'rls':
    case 'other':
      return 'unexpected'
    default:
      return kind satisfies never
  }
}
