import { createHash } from 'node:crypto'
import { type ImportPlan, datasetRows } from '@postern/contracts/internal'
import { getRow, statement } from '../sql/store.ts'
import { changeOps, firstMissingSeq, parseScope } from './rules.ts'
import type { Import, Tx } from './store.ts'

type Summary = Pick<
  ImportPlan,
  'valid' | 'invalid' | 'created' | 'updated' | 'moved' | 'reactivated' | 'deactivated' | 'diff_hash'
>

/** Counts valid rows and changes of each kind, and hashes the changes for their review. */
export async function summarizeChanges(tx: Tx, runId: string): Promise<Summary> {
  return getRow(await tx.query<Summary>(summarize([runId, firstMissingSeq])))
}

// JSON contains no line feed, so only equal changes have equal texts. Served by import_row_pk.
const summarize = statement(
  'universe_summarize_import',
  `select
    count(*) filter (where r.op <> 'invalid' and r.seq < $2::integer)::integer as valid,
    count(*) filter (where r.op = 'invalid')::integer as invalid,
    count(*) filter (where r.op = 'create')::integer as created,
    count(*) filter (where r.op = 'update')::integer as updated,
    count(*) filter (where r.op = 'move')::integer as moved,
    count(*) filter (where r.op = 'deactivate')::integer as deactivated,
    count(*) filter (where r.op = 'reactivate')::integer as reactivated,
    encode(sha256(coalesce(string_agg(sha256(convert_to(
      concat_ws(E'\\n', r.op, coalesce(r.before::text, ''), coalesce(r.content::text, ''), r.source_key),
      'UTF8')), '' order by r.seq)
      filter (where r.op in ${changeOps}), '')
    ), 'hex') as diff_hash
  from universe.import_row r
  where r.run_id = $1::uuid`,
)

export async function countPresent(tx: Tx, { connectorId, scope }: Import): Promise<number> {
  return getRow(await tx.query<{ total: number }>(countPresentRows([connectorId, scope]))).total
}

const countPresentRows = statement(
  'universe_count_present_rows',
  `select count(*)::integer as total
  from universe.source_row s
  where s.connector_id = $1::text and s.scope = $2::text and s.missing_since is null`,
)

const maxFlagged = 1000

/** Returns the first keys of rows that will be listed as missing, and the hash of all. Undefined if there are none. */
export async function findFlagged(
  tx: Tx,
  runId: string,
): Promise<{ readonly keys: readonly string[]; readonly hash: string } | undefined> {
  const [hashes, keys] = await Promise.all([
    tx.query<{ hash: string | null }>(hashFlagged([runId])),
    tx.query<{ key: string }>(listFlagged([runId, maxFlagged])),
  ])
  const { hash } = getRow(hashes)
  return hash === null ? undefined : { keys: keys.map(({ key }) => key), hash }
}

const hashFlagged = statement(
  'universe_hash_flagged_rows',
  `select encode(sha256(string_agg(sha256(convert_to(r.source_key, 'UTF8')), '' order by r.seq)), 'hex') as hash
  from universe.import_row r
  where r.run_id = $1::uuid and r.op = 'miss'`,
)
const listFlagged = statement(
  'universe_list_flagged_rows',
  `select r.source_key as key
  from universe.import_row r
  where r.run_id = $1::uuid and r.op = 'miss'
  order by r.seq
  limit $2::integer`,
)

export function sha256Of(...parts: readonly string[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest('hex')
}

/** Lists fields that rows lose and no row of the source has. Call it only if all rows were sent. */
export async function listLostFields(tx: Tx, { runId, scope }: Import): Promise<ImportPlan['lost_fields']> {
  const fields = Object.keys(datasetRows[parseScope(scope).dataset].schema.shape)
  return await tx.query<{ field: string; rows: number }>(lostFields([runId, fields, firstMissingSeq]))
}

const lostFields = statement(
  'universe_list_lost_fields',
  `select changed.field, changed.rows
  from (
    select one.field, count(*)::integer as rows
    from universe.import_row r
    cross join unnest($2::text[]) as one (field)
    where r.run_id = $1::uuid and r.op in ('update', 'move', 'reactivate')
      and r.before ? one.field and not r.content ? one.field
    group by one.field
  ) as changed
  where not exists (
    select
    from universe.import_row s
    where s.run_id = $1::uuid and s.op <> 'invalid' and s.seq < $3::integer and s.content ? changed.field
  )
  order by changed.field`,
)
