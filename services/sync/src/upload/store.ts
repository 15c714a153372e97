import { type Tx, sqlError, statement } from '@postern/tenant-db'

export type { Tx } from '@postern/tenant-db'

const insertChunk = statement(
  'sync_insert_chunk',
  `insert into sync.upload_chunk (tenant_id, upload_id, index, content)
  values ((select tenancy.tenant_id()), $1, $2, $3)`,
)
/** Chunks of a file that are written together, and read together. */
export const chunksAtOnce = 16

// Bytes come as hexadecimal, twice as long as they are, and take as long to be read back as all else that is done with them. Text comes
// as it is: in UTF-8 it is only looked through, and fails with 22021 where it is none. Fetched once: each use would fetch it anew.
const selectText = statement(
  'sync_select_chunk_text',
  `select convert_from(u.content, 'UTF8') as text, null as bytes
  from sync.upload_chunk u
  where u.upload_id = $1 and u.index >= $2::integer and u.index < $2::integer + ${chunksAtOnce}
  order by u.index`,
)
// What is no UTF-8 comes as text of one byte a character, of which each is converted, but for NUL, which no text may hold.
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

/** Stores chunks of a file that follow each other; `first` is the number of the first of them. */
export async function putChunks(tx: Tx, uploadId: string, first: number, contents: readonly Buffer[]): Promise<void> {
  await Promise.all(contents.map(async (content, at) => await tx.execute(insertChunk([uploadId, first + at, content]))))
}

/**
 * The next chunks of an uploaded file, from that with the number `first` on; none behind its end. Where one of them is no UTF-8 only `encoding`
 * latin1 reads them: the other fails as `isNoText` says.
 */
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

/** Whether a part could not be read because it is no text in UTF-8 (SQLSTATE 22021, character_not_in_repertoire). */
export function isNoText(error: unknown): boolean {
  return sqlError(error).sqlState === '22021'
}

export async function deleteUpload(tx: Tx, uploadId: string): Promise<void> {
  await tx.execute(deleteChunks([uploadId]))
}

export async function deleteAbandonedUploads(tx: Tx): Promise<void> {
  await tx.execute(deleteAbandoned([]))
}
