import type { Tx } from '@postern/tenant-db'
import { statement } from '../sql/store.ts'

/** Most errors that a run keeps, warnings apart: more than anybody mends one by one. */
export const errorsARun = 100_000

/** Something that is wrong with a row, or doubtful, for the owner of the data. */
export interface StagedError {
  readonly row: number | null
  readonly key: string | null
  readonly field: string | null
  readonly code: string
  readonly message: string
  readonly excerpt: string | null
  /** Of a row that is taken in all the same. */
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

export async function insertErrors(tx: Tx, runId: string, errors: readonly StagedError[]): Promise<void> {
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

// One of the file as a whole is kept beyond them.
const room = `(
    select greatest(0, ${errorsARun} - count(*)) from sync.run_error e where e.run_id = $1::uuid and e.severity = 'error'
  )`
const countRoom = statement('sync_count_error_room', `select ${room}::integer as room`)

/** How many more errors the run keeps. */
export async function countErrorRoom(tx: Tx, runId: string): Promise<number> {
  const [row] = await tx.query<{ room: number }>(countRoom([runId]))
  return row?.room ?? 0
}

/**
 * SQL: keeps errors of the rows of `refused`, as far as the run `$1` keeps any, the first ones first. `rest` gives field, code, message
 * and excerpt.
 */
export const keepRefused = (rest: string): string => `
  insert into sync.run_error (tenant_id, run_id, seq, row, source_key, field, code, message, value_excerpt)
  select
    (select tenancy.tenant_id()), $1::uuid,
    coalesce((select max(e.seq) from sync.run_error e where e.run_id = $1::uuid), 0)
      + row_number() over (order by refused.row),
    refused.row, refused.source_key, ${rest}
  from (select * from refused order by refused.row limit ${room}) as refused`
