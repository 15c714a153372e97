import type { RunError } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import { getRow, statement } from '../sql/store.ts'

/** The most errors that a run keeps, without warnings. */
export const errorsARun = 100_000

/** An error of a row, or a warning about it, for the owner of the data. */
export interface RowError {
  readonly row: number | null
  readonly key: string | null
  readonly field: string | null
  readonly code: string
  readonly message: string
  readonly excerpt: string | null
  /** Of a row that is applied nevertheless. */
  readonly severity?: 'warning'
}

const keepErrors = statement(
  'sync_keep_errors',
  `insert into sync.run_error (tenant_id, run_id, seq, row, source_key, field, code, message, value_excerpt, severity)
  select
    (select tenancy.tenant_id()), $1::uuid,
    coalesce((select max(e.seq) from sync.run_error e where e.run_id = $1::uuid), 0) + given.at,
    given.row, given.key, given.field, given.code, given.message, given.excerpt, given.severity
  from unnest($2::integer[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
    with ordinality as given (row, key, field, code, message, excerpt, severity, at)`,
)

export async function insertErrors(tx: Tx, runId: string, errors: readonly RowError[]): Promise<void> {
  if (errors.length === 0) return
  await tx.execute(
    keepErrors([
      runId,
      errors.map(({ row }) => row),
      errors.map(({ key }) => key),
      errors.map(({ field }) => field),
      errors.map(({ code }) => code),
      errors.map(({ message }) => message),
      errors.map(({ excerpt }) => excerpt),
      errors.map(({ severity }) => severity ?? 'error'),
    ]),
  )
}

const selectErrorsLeft = statement(
  'sync_count_errors_left',
  `select greatest(0, ${errorsARun} - count(*))::integer as total
  from sync.run_error e
  where e.run_id = $1::uuid and e.severity = 'error'`,
)

/** How many more errors the run keeps. An error of the whole source is kept beyond them. */
export async function countErrorsLeft(tx: Tx, runId: string): Promise<number> {
  return getRow(await tx.query<{ total: number }>(selectErrorsLeft([runId]))).total
}

const forgetErrors = statement('sync_forget_errors', 'delete from sync.run_error e where e.run_id = $1')

export async function deleteErrors(tx: Tx, runId: string): Promise<void> {
  await tx.execute(forgetErrors([runId]))
}

const selectErrors = statement(
  'sync_list_errors',
  `select e.seq, e.row, e.source_key, e.field, e.code, e.message, e.value_excerpt, e.severity
  from sync.run_error e
  where e.run_id = $1::uuid and e.seq > $2::integer
  order by e.seq
  limit $3`,
)
const countAllErrors = statement(
  'sync_count_errors',
  'select count(*)::integer as total from sync.run_error e where e.run_id = $1::uuid',
)

export async function listErrors(tx: Tx, runId: string, after: number | undefined, limit: number): Promise<RunError[]> {
  return await tx.query<RunError>(selectErrors([runId, after ?? 0, limit]))
}

export async function countErrors(tx: Tx, runId: string): Promise<number> {
  return getRow(await tx.query<{ total: number }>(countAllErrors([runId]))).total
}
