import type { ImportChange, ImportErrors, MissingSourceRow } from '@postern/contracts/internal'
import { getRow, statement } from '../sql/store.ts'
import { firstMissingSeq, seqsADepth } from './rules.ts'
import type { Tx } from './store.ts'

const maxBytes = 4 * 1024 * 1024

// Served by import_row_pk and import_batch_pk. Staged rows are changes only after all were compared.
const changesOf = `
  from universe.import i
  join universe.import_row r on r.tenant_id = i.tenant_id and r.run_id = i.run_id
  where i.run_id = $1::uuid and i.diff_hash is not null
    and r.op = any (coalesce($2::text[], array['create', 'update', 'move', 'deactivate', 'reactivate']))`
const selectChanges = statement(
  'universe_list_import_changes',
  `select r.seq, r.op, r.source_key, r.before, r.content as after,
    case when r.errors is null then (
      select b.applied_at
      from universe.import_batch b
      where b.tenant_id = r.tenant_id and b.run_id = r.run_id and b.last_seq >= r.seq
      order by b.last_seq
      limit 1
    ) end as applied_at,
    r.errors -> -1 ->> 'message' as error
  ${changesOf} and r.seq > $3::integer
  order by r.seq
  limit $4::integer`,
)
const countChanges = statement('universe_count_import_changes', `select count(*)::integer as total ${changesOf}`)

type ChangeRow = Omit<ImportChange, 'applied_at'> & { readonly applied_at: Date | null }

export async function listChanges(
  tx: Tx,
  runId: string,
  { ops, after, limit }: { readonly ops: readonly string[] | null; readonly after: number; readonly limit: number },
): Promise<ImportChange[]> {
  const rows = await tx.query<ChangeRow>({ ...selectChanges([runId, ops, after, limit]), maxBytes })
  return rows.map(({ seq, op, source_key, before, after: content, applied_at, error }) => ({
    seq,
    op,
    source_key,
    before,
    after: content,
    applied_at: applied_at?.toISOString() ?? null,
    error,
  }))
}

export async function countImportChanges(tx: Tx, runId: string, ops: readonly string[] | null): Promise<number> {
  return getRow(await tx.query<{ total: number }>(countChanges([runId, ops]))).total
}

// Served by import_row_pk. Rows of a rollback have no row number, because it reads no source.
const selectErrors = statement(
  'universe_list_import_errors',
  `select
    r.seq, case when i.rollback_of is null and r.seq < ${firstMissingSeq} then (r.seq - 1) % ${seqsADepth} + 1 end as row,
    left(r.source_key, 80) as key, one.error ->> 'field' as field, one.error ->> 'code' as code,
    one.error ->> 'message' as message, one.error ->> 'excerpt' as excerpt
  from (
    select r.tenant_id, r.run_id, r.seq, r.source_key, r.errors
    from universe.import_row r
    where r.run_id = $1::uuid and r.seq > $2::integer and r.errors is not null and ($3::boolean = (r.op <> 'invalid'))
    order by r.seq
    limit $4::integer
  ) as r
  join universe.import i on i.tenant_id = r.tenant_id and i.run_id = r.run_id
  cross join lateral jsonb_array_elements(r.errors) with ordinality as one (error, at)
  order by r.seq, one.at`,
)

/** Lists errors of rows after `after`: of planned changes if `applying`, else of staged rows. */
export async function listErrors(
  tx: Tx,
  runId: string,
  { after, applying, rows }: { readonly after: number; readonly applying: boolean; readonly rows: number },
): Promise<ImportErrors> {
  return await tx.query<ImportErrors[number]>(selectErrors([runId, after, applying, rows]))
}

interface Source {
  readonly connectorId: string
  readonly scope: string
}

// Served by source_row_missing.
const missingOf = `
  from universe.source_row s
  where s.connector_id = $1::text and s.scope = $2::text and s.missing_since is not null`
const selectMissing = statement(
  'universe_list_missing_rows',
  `select s.source_key, s.missing_since ${missingOf} and s.source_key > $3::text order by s.source_key limit $4::integer`,
)
const countMissing = statement('universe_count_missing_source_rows', `select count(*)::integer as total ${missingOf}`)

export async function listMissing(
  tx: Tx,
  { connectorId, scope }: Source,
  { after, limit }: { readonly after: string; readonly limit: number },
): Promise<MissingSourceRow[]> {
  const rows = await tx.query<{ source_key: string; missing_since: Date }>(
    selectMissing([connectorId, scope, after, limit]),
  )
  return rows.map(({ source_key, missing_since: since }) => ({ source_key, missing_since: since.toISOString() }))
}

export async function countMissingRows(tx: Tx, { connectorId, scope }: Source): Promise<number> {
  return getRow(await tx.query<{ total: number }>(countMissing([connectorId, scope]))).total
}
