import { type Tx, statement } from '@postern/tenant-db'

const insertChunk = statement(
  'sync_insert_chunk',
  `insert into sync.upload_chunk (tenant_id, upload_id, index, content)
  values ((select tenancy.tenant_id()), $1, $2, $3)`,
)

export const chunksAtOnce = 16

const selectChunks = statement(
  'sync_select_chunks',
  `select u.content
  from sync.upload_chunk u
  where u.upload_id = $1 and u.index >= $2::integer and u.index < $2::integer + ${chunksAtOnce}
  order by u.index`,
)
const deleteChunks = statement('sync_delete_chunks', 'delete from sync.upload_chunk u where u.upload_id = $1')

// Files that no unfinished run uses. Served by upload_chunk_by_stored_at.
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

export async function putChunks(tx: Tx, uploadId: string, first: number, contents: readonly Buffer[]): Promise<void> {
  await Promise.all(contents.map(async (content, at) => await tx.execute(insertChunk([uploadId, first + at, content]))))
}

/** Returns no chunks after the end. */
export async function findChunks(tx: Tx, uploadId: string, first: number): Promise<Buffer[]> {
  const rows = await tx.query<{ content: Buffer }>(selectChunks([uploadId, first]))
  return rows.map(({ content }) => content)
}

const clearUploads = statement(
  'sync_clear_uploads',
  `delete from sync.upload_chunk u
  where (u.tenant_id, u.upload_id, u.index) in (
    select old.tenant_id, old.upload_id, old.index
    from sync.upload_chunk old
    where old.upload_id in (
      select r.upload_id from sync.run r
      where r.connector_id = $1 and r.status in ('succeeded', 'partial', 'failed', 'cancelled')
      union all
      select r.upload_id from sync.run r
      join sync.connector c on c.tenant_id = r.tenant_id and c.id = r.connector_id
      where r.status = 'cancelled' and c.retired_at is not null
    )
    limit 1000
  )`,
)

/** Deletes at most 1000 chunks of ended runs. Returns how many. */
export async function clearEndedUploads(tx: Tx, connectorId: string): Promise<number> {
  return await tx.execute(clearUploads([connectorId]))
}

export async function deleteUpload(tx: Tx, uploadId: string): Promise<void> {
  await tx.execute(deleteChunks([uploadId]))
}

export async function deleteAbandonedUploads(tx: Tx): Promise<void> {
  await tx.execute(deleteAbandoned([]))
}
