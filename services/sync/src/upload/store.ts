import type { Statement, Tx } from '@postern/tenant-db'

export type { Tx } from '@postern/tenant-db'

function statement(name: string, text: string): (values: readonly unknown[]) => Statement {
  return (values) => ({ name, text, values })
}

const insertChunk = statement(
  'sync_insert_chunk',
  `insert into sync.upload_chunk (tenant_id, upload_id, index, content)
  values ((select tenancy.tenant_id()), $1, $2, $3)`,
)
const selectChunk = statement(
  'sync_select_chunk',
  'select u.content from sync.upload_chunk u where u.upload_id = $1 and u.index = $2',
)
const deleteChunks = statement('sync_delete_chunks', 'delete from sync.upload_chunk u where u.upload_id = $1')

// What no run has come to, or none has read to its end: served by upload_chunk_by_stored_at.
const deleteAbandoned = statement(
  'sync_delete_abandoned_chunks',
  `delete from sync.upload_chunk u
  where u.stored_at < now() - interval '1 day'
    and not exists (
      select
      from sync.run r
      where r.upload_id = u.upload_id and r.status in ('queued', 'fetching', 'validating', 'diffing', 'applying')
    )`,
)

export async function putChunk(tx: Tx, uploadId: string, index: number, content: Buffer): Promise<void> {
  await tx.execute(insertChunk([uploadId, index, content]))
}

/** A part of an uploaded file; undefined behind its end. */
export async function findChunk(tx: Tx, uploadId: string, index: number): Promise<Buffer | undefined> {
  const [row] = await tx.query<{ content: Buffer }>(selectChunk([uploadId, index]))
  return row?.content
}

export async function deleteUpload(tx: Tx, uploadId: string): Promise<void> {
  await tx.execute(deleteChunks([uploadId]))
}

export async function deleteAbandonedUploads(tx: Tx): Promise<void> {
  await tx.execute(deleteAbandoned([]))
}
