import { type Tx, statement } from '@postern/tenant-db'
import type { PendingBlob } from '../blob/blob-store.ts'
import type { PartialUpload } from '../blob/partial-store.ts'

// The tenant comes from the name in the store, because the sweep has no assertion.
const lock = statement(
  'evidence_lock_abandoned',
  `select pg_advisory_xact_lock(hashtextextended('evidence.blob:' || $1::uuid || ':' || $2::text, 0))`,
)

export async function lockAbandoned(tx: Tx, { tenantId, sha256 }: PendingBlob): Promise<void> {
  await tx.query(lock([tenantId, sha256]))
}

const isRecorded = statement('evidence_abandoned_is_recorded', 'select evidence.blob_is_recorded($1, $2) as yes')

/** Call it under the lock. */
export async function isAbandonedRecorded(tx: Tx, { tenantId, sha256 }: PendingBlob): Promise<boolean> {
  return await answer(tx, isRecorded([tenantId, sha256]))
}

const isOpen = statement('evidence_upload_is_open', 'select evidence.upload_is_open($1, $2) as yes')

export async function isUploadOpen(tx: Tx, { tenantId, id }: PartialUpload): Promise<boolean> {
  return await answer(tx, isOpen([tenantId, id]))
}

async function answer(tx: Tx, question: Parameters<Tx['query']>[0]): Promise<boolean> {
  const [row] = await tx.query<{ yes: boolean }>(question)
  // Bytes are deleted after `false`, so any other answer is an error.
  if (typeof row?.yes !== 'boolean') throw new Error('the database gave no answer about the bytes')
  return row.yes
}
