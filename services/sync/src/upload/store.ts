import { type Tx, sqlError, statement } from '@postern/tenant-db'

export type { Tx } from '@postern/tenant-db'

const insertChunk = statement(
  'sync_insert_chunk',
  `insert into sync.upload_chunk (tenant_id, upload_id, index, content)
  values ((select tenancy.tenant_id()), $1, $2, $3)`,
)

export const chunksAtOnce = 16

// As text, because the hexadecimal form of bytes is twice as long. Fails with SQLSTATE 22021 if a chunk is not UTF-8.
const selectText = statement(
  'sync_select_chunk_text',
  `select convert_from(u.content, 'UTF8') as text, null as bytes
  from sync.upload_chunk u
  where u.upload_id = $1 and u.index >= $2::integer and u.index < $2::integer + ${chunksAtOnce}
  order by u.index`,
)
// NUL cannot be part of a text. `offset 0` makes PostgreSQL read each stored value once.
const selectChunk = statement(
  'sync_select_chunk',
  `select
    case when part.has_nul then null else convert_from(part.content, 'LATIN1') end as text,
    case when part.has_nul then part.content end as bytes
  from (
    select whole.index, whole.content, position('\\x00'::bytea in whole.content) > 0 as has_nul
    from (
      select u.index, u.content || ''::bytea as content
      from sync.upload_chunk u
      where u.upload_id = $1 and u.index >= $2::integer and u.index < $2::integer + ${chunksAtOnce}
      offset 0
    ) as whole
    offset 0
  ) as part
  order by part.index`,
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

/** Returns no chunks after the end. A chunk that is not UTF-8 needs the `encoding` latin1. */
export async function findChunks(
  tx: Tx,
  uploadId: string,
  first: number,
  encoding: 'utf8' | 'latin1',
): Promise<Buffer[]> {
  const select = encoding === 'utf8' ? selectText : selectChunk
  const rows = await tx.query<{ text: string | null; bytes: Buffer | null }>(select([uploadId, first]))
  return rows.map(({ text, bytes }) => (text === null ? (bytes ?? Buffer.alloc(0)) : Buffer.from(text, encoding)))
}

/** SQLSTATE 22021, character_not_in_repertoire. */
export function isNotUtf8(error: unknown): boolean {
  return sqlError(error).sqlState === '22021'
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
