import type { EvidenceDetails } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import type { Actor } from '../upload/record.ts'

/** An upload as its sender began it. */
export interface ResumableUpload {
  readonly id: string
  /** Bytes that the whole file has. */
  readonly length: number
  readonly fileName: string
  readonly contentType: string
  readonly details: EvidenceDetails
  readonly expiresAt: Date
  /** The receipt, once the upload is recorded as a file. */
  readonly receiptJws: string | undefined
}

// What has expired goes with the next upload of its tenant, as its bytes went with a sweep. Nobody gave it up: the event
// is the service's own. Served by upload_expires_at.
const expireText = `
  with expired as (
    delete from evidence.upload
    where tenant_id = (select tenancy.tenant_id())
      and expires_at < now()
    returning id, receipt_jws
  )
  insert into evidence.custody_event (
    tenant_id, upload_id, kind, detail, actor_type, actor_id, actor_label, request_id
  )
  select
    (select tenancy.tenant_id()), id, 'upload_given_up', '{"reason":"expired"}', 'connector', 'evidence', 'Evidence service', $1
  from expired
  where receipt_jws is null`

/** Lets go of the uploads of the tenant that have expired. */
export async function expireUploads(tx: Tx, requestId: string): Promise<void> {
  await tx.execute({ name: 'evidence_expire_uploads', text: expireText, values: [requestId] })
}

const insertText = `
  insert into evidence.upload (
    tenant_id, length, file_name, content_type, details, created_by_type, created_by_id, expires_at
  )
  values ((select tenancy.tenant_id()), $1, $2, $3, $4, $5, $6, date_trunc('seconds', now()) + $7 * interval '1 millisecond')
  returning id, expires_at`

/** Begins an upload that expires after so many milliseconds. */
export async function insertUpload(
  tx: Tx,
  upload: Pick<ResumableUpload, 'length' | 'fileName' | 'contentType' | 'details'>,
  actor: Actor,
  livesMs: number,
): Promise<{ readonly id: string; readonly expiresAt: Date }> {
  const [row] = await tx.query<{ id: string; expires_at: Date }>({
    name: 'evidence_insert_upload',
    text: insertText,
    values: [
      upload.length,
      upload.fileName,
      upload.contentType,
      JSON.stringify(upload.details),
      actor.type,
      actor.id,
      livesMs,
    ],
  })
  if (row === undefined) throw new Error('the upload was not begun')
  return { id: row.id, expiresAt: row.expires_at }
}

// Served by the primary key.
const findText = `
  select id, length, file_name, content_type, details, expires_at, receipt_jws
  from evidence.upload
  where tenant_id = (select tenancy.tenant_id())
    and id = $1
    and created_by_type = $2
    and created_by_id = $3
    and expires_at > now()`

/** The upload of that id, where the actor has begun it and it has not expired. */
export async function findUpload(tx: Tx, id: string, actor: Actor): Promise<ResumableUpload | undefined> {
  const [row] = await tx.query<{
    id: string
    length: string
    file_name: string
    content_type: string
    details: EvidenceDetails
    expires_at: Date
    receipt_jws: string | null
  }>({ name: 'evidence_find_upload', text: findText, values: [id, actor.type, actor.id] })
  if (row === undefined) return undefined
  return {
    id: row.id,
    length: Number(row.length),
    fileName: row.file_name,
    contentType: row.content_type,
    details: row.details,
    expiresAt: row.expires_at,
    receiptJws: row.receipt_jws ?? undefined,
  }
}

// Only once: of two that complete an upload, the later one records nothing. Served by the primary key.
const completeText = `
  update evidence.upload
  set receipt_jws = $2
  where tenant_id = (select tenancy.tenant_id())
    and id = $1
    and receipt_jws is null`

/** Notes that the upload is recorded, in the transaction that records it; false where it was before. */
export async function completeUpload(tx: Tx, id: string, receiptJws: string): Promise<boolean> {
  const count = await tx.execute({ name: 'evidence_complete_upload', text: completeText, values: [id, receiptJws] })
  return count === 1
}

// Served by the primary key.
const deleteText = `
  delete from evidence.upload
  where tenant_id = (select tenancy.tenant_id())
    and id = $1
    and receipt_jws is null`

/** Gives an upload up that is not recorded; false where it is, or was given up before. */
export async function deleteUpload(tx: Tx, id: string): Promise<boolean> {
  return (await tx.execute({ name: 'evidence_delete_upload', text: deleteText, values: [id] })) === 1
}
