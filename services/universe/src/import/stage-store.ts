import type { ImportRow } from '@postern/contracts/internal'
import { maxImportHashes, rowHashBytes } from '@postern/contracts/internal'
import { arrayLiteral, getRow, statement } from '../sql/store.ts'
import { seqsADepth } from './rules.ts'
import type { Import, Tx } from './store.ts'

type Source = Pick<Import, 'connectorId' | 'scope'>

export async function deleteStaged(tx: Tx, runId: string): Promise<void> {
  await tx.execute(removeAll([runId]))
}

const removeAll = statement('universe_unstage_import', 'delete from universe.import_row r where r.run_id = $1::uuid')

export async function countSourceRows(tx: Tx, { connectorId, scope }: Source): Promise<number> {
  return getRow(await tx.query<{ known: number }>(countRows([connectorId, scope]))).known
}

const countRows = statement(
  'universe_count_source_rows',
  `select count(*)::integer as known
  from universe.source_row s
  where s.connector_id = $1::text and s.scope = $2::text`,
)

/** Returns a page of hashes of rows that are stored as delivered. `last` is undefined on the last page. */
export async function listHashes(
  tx: Tx,
  { connectorId, scope }: Source,
  after: string,
): Promise<{ readonly hashes: Buffer; readonly last: string | undefined }> {
  const rows = await tx.query<{ hashes: Buffer | null; last: string | null }>(
    hashesOf([connectorId, scope, after, maxImportHashes]),
  )
  const { hashes, last } = getRow(rows)
  const isLast = hashes === null || hashes.length < maxImportHashes * rowHashBytes
  return { hashes: hashes ?? Buffer.alloc(0), last: isLast ? undefined : (last ?? undefined) }
}

// Served by source_row_by_connector.
const hashesOf = statement(
  'universe_list_source_hashes',
  `select string_agg(one.hash, ''::bytea) as hashes, max(one.source_key) as last
  from (
    select s.source_key, s.hash
    from universe.source_row s
    where s.connector_id = $1::text and s.scope = $2::text and s.hash is not null and s.source_key > $3::text
    order by s.source_key
    limit $4::integer
  ) as one`,
)

/** Stages rows as creations, unless the same request has staged them before. */
export async function stageRows(tx: Tx, runId: string, rows: readonly ImportRow[]): Promise<void> {
  if (rows.length === 0) return
  await tx.execute(
    stage([
      runId,
      arrayLiteral(rows.map(({ row }) => row + seqsADepth)),
      arrayLiteral(rows.map(({ content }) => (content === undefined ? 'invalid' : 'create'))),
      arrayLiteral(rows.map(({ key }) => key)),
      arrayLiteral(rows.map(({ parent }) => parent)),
      arrayLiteral(rows.map(({ hash }) => (hash === undefined ? undefined : Buffer.from(hash, 'base64')))),
      rows.map(({ content = '' }) => content).join('\n'),
    ]),
  )
}

const stage = statement(
  'universe_stage_import_rows',
  `insert into universe.import_row (tenant_id, run_id, seq, op, source_key, parent_key, hash, content)
  select (select tenancy.tenant_id()), $1::uuid, given.seq, given.op, given.key, given.parent, given.hash, given.content::jsonb
  from unnest($2::integer[], $3::text[], $4::text[], $5::text[], $6::bytea[], string_to_array($7::text, E'\\n', ''))
    as given (seq, op, key, parent, hash, content)
  where not exists (select from universe.import_row r where r.run_id = $1::uuid and r.seq = ($2::integer[])[1])`,
)

export async function stageGone(tx: Tx, { runId, connectorId, scope }: Import, hashes: Buffer): Promise<void> {
  const list = Array.from({ length: hashes.length / rowHashBytes }, (_none, at) =>
    hashes.subarray(at * rowHashBytes, (at + 1) * rowHashBytes),
  )
  await tx.execute(gone([runId, connectorId, scope, arrayLiteral(list)]))
}

// Their seq is negative until the final one is known. Served by source_row_by_connector.
const gone = statement(
  'universe_stage_gone_rows',
  `insert into universe.import_row (tenant_id, run_id, seq, op, source_key)
  select
    (select tenancy.tenant_id()), $1::uuid,
    coalesce((select min(r.seq) from universe.import_row r where r.run_id = $1::uuid and r.seq < 0), 0)
      - row_number() over (order by s.source_key),
    'gone', s.source_key
  from universe.source_row s
  where s.connector_id = $2::text and s.scope = $3::text and s.hash = any ($4::bytea[])
    and not exists (
      select
      from universe.import_row r
      where r.run_id = $1::uuid and r.op = 'gone' and r.seq < 0 and r.source_key = s.source_key
    )`,
)

export async function countGone(tx: Tx, runId: string): Promise<number> {
  return getRow(await tx.query<{ total: number }>(countGoneRows([runId]))).total
}

const countGoneRows = statement(
  'universe_count_gone_rows',
  'select count(*)::integer as total from universe.import_row r where r.run_id = $1::uuid and r.seq < 0',
)
