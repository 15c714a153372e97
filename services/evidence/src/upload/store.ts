import type { Receipt } from '@postern/contracts'
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
    date_trunc('milliseconds', clock_timestamp()) as received_at`

/** What the database decides of a file: its number within the year, its id and the time of its receipt. */
export interface NewFile {
  readonly year: number
  /** A bigint, as text. */
  readonly number: string
  readonly id: string
  readonly receivedAt: Date
}

/** Takes the next number of the tenant's year (UTC). */
export async function takeNumber(tx: Tx): Promise<NewFile> {
  const [row] = await tx.query<{ year: number; number: string; id: string; received_at: Date }>({
    name: 'evidence_take_number',
    text: takeNumberText,
    values: [],
  })
  if (row === undefined) throw new Error('the counter gave no number')
  return { year: row.year, number: row.number, id: row.id, receivedAt: row.received_at }
}

// The file and its first custody event are one statement: there is never the one without the other.
const insertFileText = `
  with file as (
    insert into evidence.file (
      tenant_id, id, reference, file_name, content_type, detected_content_type, size_bytes, sha256, test_procedures,
      scan, received_at, receipt_jws, created_by_type, created_by_id, created_by_label
    )
    values (
      (select tenancy.tenant_id()), $1, $2, $3, $4, $5, $6, $7, $8,
      $9, $10, $11, $12, $13, $14
    )
  )
  insert into evidence.custody_event (
    tenant_id, file_id, kind, occurred_at, actor_type, actor_id, actor_label, request_id
  )
  values ((select tenancy.tenant_id()), $1, 'received', $10, $12, $13, $14, $15)`

/** Records a file as its receipt describes it, and that the actor has brought it. */
export async function insertFile(tx: Tx, receipt: Receipt, actor: Actor, requestId: string): Promise<void> {
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
      requestId,
    ],
  })
}

// Served by file_sha256.
const blobIsRecordedText = `
  select exists (
    select from evidence.file
    where tenant_id = (select tenancy.tenant_id())
      and sha256 = $1
  ) as recorded`

/** Whether any file of the tenant has these bytes. Under the lock of the blob the answer stays true. */
export async function isBlobRecorded(tx: Tx, sha256: string): Promise<boolean> {
  const [row] = await tx.query<{ recorded: boolean }>({
    name: 'evidence_blob_is_recorded',
    text: blobIsRecordedText,
    values: [sha256],
  })
  return row?.recorded === true
}

/** What a failed transaction means to the uploader. */
export type RecordFailure = 'no_room' | 'assertion_refused' | 'unavailable' | 'unexpected'

// disk_full, and configuration_limit_exceeded, in which quota extensions report.
const noRoomStates: ReadonlySet<string> = new Set(['53100', '53400'])

/** Says what an error that ended a transaction means; `unexpected` is what only a bug of ours can cause. */
export function recordFailure(error: unknown): RecordFailure {
  const { kind, sqlState } = sqlError(error)
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
