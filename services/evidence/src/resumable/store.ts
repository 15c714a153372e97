import type { EvidenceDetails } from '@postern/contracts'
import { type Tx, getRow, statement } from '@postern/tenant-db'
import type { Piece } from '../blob/partial-store.ts'
import type { Actor } from '../actor.ts'

export interface ResumableUpload {
  readonly id: string
  readonly length: number
  readonly fileName: string
  readonly contentType: string
  readonly details: EvidenceDetails
  readonly metadata: string | undefined
  readonly expiresAt: Date
  /** Present once the upload is recorded as a file. */
  readonly receiptJws: string | undefined
  readonly turn: number
  /** Counted bytes; an open turn may have more. */
  readonly arrived: number
}

// Served by upload_expires_at.
const expire = statement(
  'evidence_expire_uploads',
  `with expired as (
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
  where receipt_jws is null`,
)

export async function expireUploads(tx: Tx, requestId: string): Promise<void> {
  await tx.execute(expire([requestId]))
}

const insert = statement(
  'evidence_insert_upload',
  `insert into evidence.upload (
    tenant_id, length, file_name, content_type, details, created_by_type, created_by_id, expires_at, metadata
  )
  values ((select tenancy.tenant_id()), $1, $2, $3, $4, $5, $6, date_trunc('seconds', now()) + $7 * interval '1 millisecond', $8)
  returning id, expires_at`,
)

export async function insertUpload(
  tx: Tx,
  upload: Pick<ResumableUpload, 'length' | 'fileName' | 'contentType' | 'details' | 'metadata'>,
  actor: Actor,
  livesMs: number,
): Promise<{ readonly id: string; readonly expiresAt: Date }> {
  const row = getRow(
    await tx.query<{ id: string; expires_at: Date }>(
      insert([
        upload.length,
        upload.fileName,
        upload.contentType,
        JSON.stringify(upload.details),
        actor.type,
        actor.id,
        livesMs,
        upload.metadata,
      ]),
    ),
  )
  return { id: row.id, expiresAt: row.expires_at }
}

const lock = statement(
  'evidence_lock_upload',
  `select id, length, file_name, content_type, details, metadata, expires_at, receipt_jws, turn, arrived
  from evidence.upload
  where tenant_id = (select tenancy.tenant_id())
    and id = $1
    and created_by_type = $2
    and created_by_id = $3
    and expires_at > now()
  for update`,
)

/** Returns undefined if the caller has no such upload, or it has expired. */
export async function lockUpload(tx: Tx, id: string, actor: Actor): Promise<ResumableUpload | undefined> {
  const [row] = await tx.query<{
    id: string
    length: string
    file_name: string
    content_type: string
    details: EvidenceDetails
    metadata: string | null
    expires_at: Date
    receipt_jws: string | null
    turn: number
    arrived: string
  }>(lock([id, actor.type, actor.id]))
  if (row === undefined) return undefined
  return {
    id: row.id,
    length: Number(row.length),
    fileName: row.file_name,
    contentType: row.content_type,
    details: row.details,
    metadata: row.metadata ?? undefined,
    expiresAt: row.expires_at,
    receiptJws: row.receipt_jws ?? undefined,
    turn: row.turn,
    arrived: Number(row.arrived),
  }
}

// Served by upload_piece_one_open.
const selectOpenTurn = statement(
  'evidence_open_turn',
  `select turn, is_checked
  from evidence.upload_piece
  where tenant_id = (select tenancy.tenant_id())
    and upload_id = $1
    and length is null`,
)

/** A piece that a request is writing, or was writing when its process died. */
export interface OpenTurn {
  readonly turn: number
  /** Whether the bytes count only as a whole, because they have a checksum. */
  readonly isChecked: boolean
}

export async function findOpenTurn(tx: Tx, id: string): Promise<OpenTurn | undefined> {
  const [row] = await tx.query<{ turn: number; is_checked: boolean }>(selectOpenTurn([id]))
  return row === undefined ? undefined : { turn: row.turn, isChecked: row.is_checked }
}

const begin = statement(
  'evidence_begin_turn',
  `with taken as (
    update evidence.upload
    set turn = turn + 1
    where tenant_id = (select tenancy.tenant_id())
      and id = $1
    returning turn
  )
  insert into evidence.upload_piece (tenant_id, upload_id, turn, is_checked)
  select (select tenancy.tenant_id()), $1, turn, $2
  from taken
  returning turn`,
)

/** Call it under the lock, without another open turn. */
export async function beginTurn(tx: Tx, id: string, isChecked: boolean): Promise<number> {
  const row = getRow(await tx.query<{ turn: number }>(begin([id, isChecked])))
  return row.turn
}

// A turn ends once, so the later of two requests changes nothing.
const end = statement(
  'evidence_end_turn',
  `with upload as (
    update evidence.upload
    set arrived = arrived + $3
    where tenant_id = (select tenancy.tenant_id())
      and id = $1
      and turn = $2
      and exists (
        select from evidence.upload_piece as piece
        where piece.tenant_id = upload.tenant_id
          and piece.upload_id = upload.id
          and piece.turn = $2
          and piece.length is null
      )
    returning tenant_id, id, arrived
  ), piece as (
    update evidence.upload_piece
    set length = $3
    from upload
    where upload_piece.tenant_id = upload.tenant_id
      and upload_piece.upload_id = upload.id
      and upload_piece.turn = $2
  )
  select arrived from upload`,
)

/** Returns the upload's total, or undefined if the turn had ended. */
export async function endTurn(tx: Tx, id: string, turn: number, length: number): Promise<number | undefined> {
  const [row] = await tx.query<{ arrived: string }>(end([id, turn, length]))
  return row === undefined ? undefined : Number(row.arrived)
}

const selectPieces = statement(
  'evidence_pieces',
  `select turn, length
  from evidence.upload_piece
  where tenant_id = (select tenancy.tenant_id())
    and upload_id = $1
    and length > 0
  order by turn`,
)

export async function listPieces(tx: Tx, id: string): Promise<Piece[]> {
  const rows = await tx.query<{ turn: number; length: string }>(selectPieces([id]))
  return rows.map(({ turn, length }) => ({ turn, length: Number(length) }))
}

const selectReceipt = statement(
  'evidence_upload_receipt',
  `select receipt_jws
  from evidence.upload
  where tenant_id = (select tenancy.tenant_id())
    and id = $1`,
)

export async function findReceipt(tx: Tx, id: string): Promise<string | undefined> {
  const [row] = await tx.query<{ receipt_jws: string | null }>(selectReceipt([id]))
  return row?.receipt_jws ?? undefined
}

// The later of two requests records nothing.
const complete = statement(
  'evidence_complete_upload',
  `update evidence.upload
  set receipt_jws = $2
  where tenant_id = (select tenancy.tenant_id())
    and id = $1
    and receipt_jws is null`,
)

/** Returns false if it was recorded before. */
export async function completeUpload(tx: Tx, id: string, receiptJws: string): Promise<boolean> {
  const count = await tx.execute(complete([id, receiptJws]))
  return count === 1
}

const remove = statement(
  'evidence_delete_upload',
  `delete from evidence.upload
  where tenant_id = (select tenancy.tenant_id())
    and id = $1
    and receipt_jws is null`,
)

/** Returns false if it was recorded or deleted before. */
export async function deleteUpload(tx: Tx, id: string): Promise<boolean> {
  return (await tx.execute(remove([id]))) === 1
}
