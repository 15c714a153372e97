import type { EvidenceDetails, Receipt } from '@postern/contracts'
import type { Actor } from '../actor.ts'
import {
  NoFreeNumberError,
  type Tx,
  commitAsynchronously,
  createNumberSeries,
  getRow,
  sqlError,
  statement,
} from '@postern/tenant-db'

// The verified tenant is part of the key, so tenants cannot block each other.
const lock = statement(
  'evidence_lock_blob',
  `select pg_advisory_xact_lock(hashtextextended('evidence.blob:' || (select tenancy.tenant_id())::text || ':' || $1, 0))`,
)

export async function commitWithoutWaiting(tx: Tx): Promise<void> {
  await tx.execute(commitAsynchronously)
}

export async function lockBlob(tx: Tx, sha256: string): Promise<void> {
  await tx.query(lock([sha256]))
}

const evidenceNumbers = createNumberSeries({ schema: 'evidence', name: 'evidence', counter: 'reference_counter' })

const takeNumbers = statement(
  'evidence_take_numbers',
  `with ${evidenceNumbers.next('$1::integer')}
  select next.year, next.number
  from next
  order by next.number`,
)

export interface FileNumber {
  readonly year: number
  readonly number: string
}

/** Returns free numbers of the current year (UTC). Throws NoFreeNumberError. */
export async function allocateNumbers(tx: Tx, count: number): Promise<readonly FileNumber[]> {
  const rows = await tx.query<{ year: number; number: string }>(takeNumbers([count]))
  if (rows.length < count) throw new NoFreeNumberError(evidenceNumbers, count)
  return rows
}

// evidence.policy_pk
const describe = statement(
  'evidence_describe_new_file',
  `select
    uuidv7() as id,
    date_trunc('milliseconds', clock_timestamp()) as "receivedAt",
    (
      (now() at time zone 'utc')
      + make_interval(years => coalesce(
          (select p.retention_years from evidence.policy p where p.tenant_id = (select tenancy.tenant_id())), 7))
    )::date as "retentionUntil"`,
)

export interface NewFile {
  readonly id: string
  readonly receivedAt: Date
  readonly retentionUntil: string
}

export async function describeNewFile(tx: Tx): Promise<NewFile> {
  return getRow(await tx.query<NewFile>(describe([])))
}

const insert = statement(
  'evidence_insert_file',
  `with file as (
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
  from unnest($28::text[]) as test_procedure`,
)

export async function insertFile(
  tx: Tx,
  receipt: Receipt,
  { details, procedureIds }: { readonly details: EvidenceDetails; readonly procedureIds: readonly string[] },
  actor: Actor,
): Promise<void> {
  await tx.execute(
    insert([
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
      receipt.retention_until,
    ]),
  )
}

export interface OwnFile {
  readonly id: string
  readonly reference: string
  readonly sha256: string
  readonly revision: number
  readonly isReplaced: boolean
  readonly isQuarantined: boolean
  readonly isDismissed: boolean
}

// All that a key that only writes may learn.
const findOwn = statement(
  'evidence_own_file',
  `select
    file.id,
    file.reference,
    file.sha256,
    file.revision,
    file.scan = 'infected' and not exists (
      select from evidence.file_decision as decision
      where decision.tenant_id = file.tenant_id
        and decision.file_id = file.id
        and decision.kind = 'released'
    ) as "isQuarantined",
    exists (
      select from evidence.file_decision as decision
      where decision.tenant_id = file.tenant_id
        and decision.file_id = file.id
        and decision.kind in ('rejected', 'purged')
    ) as "isDismissed",
    exists (
      select from evidence.file as newer
      where newer.tenant_id = file.tenant_id
        and newer.version_of = file.id
    ) as "isReplaced"
  from evidence.file
  where file.tenant_id = (select tenancy.tenant_id())
    and file.id = $1
    and file.created_by_type = $2
    and file.created_by_id = $3
    and file.received_at > now() - interval '30 days'`,
)

export async function findOwnFile(tx: Tx, id: string, actor: Actor): Promise<OwnFile | undefined> {
  const [row] = await tx.query<OwnFile>(findOwn([id, actor.type, actor.id]))
  return row
}

// Served by file_sha256 and file_decision_pk.
const isRecorded = statement(
  'evidence_blob_is_recorded',
  `select exists (
    select from evidence.file
    where file.tenant_id = (select tenancy.tenant_id())
      and file.sha256 = $1
      and not exists (
        select from evidence.file_decision as decision
        where decision.tenant_id = file.tenant_id
          and decision.file_id = file.id
          and decision.kind = 'purged'
      )
  ) as recorded`,
)

/** Call it under the blob's lock. */
export async function isBlobRecorded(tx: Tx, sha256: string): Promise<boolean> {
  const [row] = await tx.query<{ recorded: boolean }>(isRecorded([sha256]))
  return row?.recorded === true
}

export type RecordFailure =
  | 'storage_full'
  | 'assertion_refused'
  | 'unavailable'
  | 'replaced'
  | 'too_many_attachments'
  | 'unexpected'

// disk_full, and configuration_limit_exceeded of quota extensions.
const fullDatabaseStates: ReadonlySet<string> = new Set(['53100', '53400'])

/** Why rows could not be written. `unexpected` means a bug. */
export function recordFailure(error: unknown): RecordFailure {
  const { kind, sqlState, constraint } = sqlError(error)
  if (constraint === 'file_version_unique') return 'replaced'
  if (constraint === 'attachment_at_most') return 'too_many_attachments'
  if (sqlState !== undefined && fullDatabaseStates.has(sqlState)) return 'storage_full'
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
