import { type Tx, getRow, statement } from '@postern/tenant-db'

export type { Tx } from '@postern/tenant-db'

export interface Import {
  readonly runId: string
  readonly connectorId: string
  readonly scope: string
  readonly readAt: Date
  readonly rollbackOf: string | null
  readonly isWhole: boolean
  readonly diffHash: string | null
  /** Whether the plan counts people who lose access; null for a rollback. */
  readonly isAuthoritative: boolean | null
  readonly appliedSequence: number
  readonly applied: number
}

const columns = `
  i.run_id as "runId", i.connector_id as "connectorId", i.scope, i.read_at as "readAt", i.rollback_of as "rollbackOf",
  i.is_whole as "isWhole", i.diff_hash as "diffHash", i.is_authoritative as "isAuthoritative",
  i.applied_sequence as "appliedSequence", i.applied_count as applied`

export interface Attempt {
  readonly run_id: string
  readonly attempt: number
}

/** Allows long statements, and compares sets by hashing. */
export async function allowLongStatements(tx: Tx): Promise<void> {
  await tx.execute(allowLong([]))
}

const allowLong = statement(
  'universe_allow_long_statements',
  `select set_config('statement_timeout', '50000', true), set_config('enable_nestloop', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('work_mem', '32MB', true)`,
)

/** Opens an import. Returns undefined if a later attempt has it. */
export async function openImport(
  tx: Tx,
  { run_id: runId, attempt }: Attempt,
  about: Pick<Import, 'connectorId' | 'scope' | 'rollbackOf'> & { readonly readAt: string },
): Promise<Import | undefined> {
  const { connectorId, scope, readAt, rollbackOf } = about
  const [row] = await tx.query<Import>(open([runId, attempt, connectorId, scope, readAt, rollbackOf]))
  return row
}

const open = statement(
  'universe_open_import',
  `insert into universe.import as i
    (tenant_id, run_id, attempt, applied_sequence, connector_id, scope, read_at, rollback_of)
  values ((select tenancy.tenant_id()), $1::uuid, $2::integer, 0, $3::text, $4::text, $5::timestamptz, $6::uuid)
  on conflict (tenant_id, run_id) do update
  set attempt = excluded.attempt, connector_id = excluded.connector_id, scope = excluded.scope, read_at = excluded.read_at,
    rollback_of = excluded.rollback_of, diff_hash = null, is_whole = false, is_authoritative = null
  where i.attempt <= excluded.attempt and i.applied_sequence = 0
  returning ${columns}`,
)

/** Locks an import until the transaction ends. Undefined if a later attempt has it or none opened it. */
export async function lockImport(tx: Tx, { run_id: runId, attempt }: Attempt): Promise<Import | undefined> {
  const [row] = await tx.query<Import>(lock([runId, attempt]))
  return row
}

const lock = statement(
  'universe_lock_import',
  `update universe.import i
  set attempt = $2::integer
  where i.run_id = $1::uuid and i.attempt <= $2::integer
  returning ${columns}`,
)

export async function findImport(tx: Tx, runId: string): Promise<Import | undefined> {
  const [row] = await tx.query<Import>(find([runId]))
  return row
}

const find = statement('universe_find_import', `select ${columns} from universe.import i where i.run_id = $1::uuid`)

/**
 * Waits for a batch in progress, then rejects later requests. Returns the number of applied changes; undefined if a later
 * attempt has the run.
 */
export async function stopImport(tx: Tx, { run_id: runId, attempt }: Attempt): Promise<number | undefined> {
  const [row] = await tx.query<{ applied: number }>(stop([runId, attempt]))
  return row?.applied
}

// A run without an import cannot open one later.
const stop = statement(
  'universe_stop_import',
  `insert into universe.import as i (tenant_id, run_id, attempt, applied_sequence)
  values ((select tenancy.tenant_id()), $1::uuid, $2::integer + 1, 0)
  on conflict (tenant_id, run_id) do update
  set attempt = excluded.attempt
  where i.attempt <= excluded.attempt
  returning i.applied_count as applied`,
)

export async function recordPlan(
  tx: Tx,
  runId: string,
  { diffHash, isWhole, isAuthoritative }: Pick<Import, 'isWhole' | 'isAuthoritative'> & { readonly diffHash: string },
): Promise<void> {
  await tx.execute(plan([runId, diffHash, isWhole, isAuthoritative]))
}

const plan = statement(
  'universe_record_plan',
  `update universe.import i
  set diff_hash = $2::text, is_whole = $3::boolean, is_authoritative = $4::boolean
  where i.run_id = $1::uuid`,
)

/** Records that rows up to `sequence` are applied. Returns the number of all applied changes. */
export async function recordBatch(
  tx: Tx,
  runId: string,
  { sequence, changes }: { readonly sequence: number; readonly changes: number },
): Promise<number> {
  const [rows] = await Promise.all([
    tx.query<{ applied: number }>(advance([runId, sequence, changes])),
    tx.execute(insertBatch([runId, sequence])),
  ])
  return getRow(rows).applied
}

const advance = statement(
  'universe_advance_import',
  `update universe.import i
  set applied_sequence = $2::integer, applied_count = i.applied_count + $3::integer
  where i.run_id = $1::uuid
  returning i.applied_count as applied`,
)
const insertBatch = statement(
  'universe_insert_import_batch',
  `insert into universe.import_batch (tenant_id, run_id, last_seq)
  values ((select tenancy.tenant_id()), $1::uuid, $2::integer)`,
)

/** Lists ended imports, of this connector and retired ones, that still have rows besides changes. */
export async function listUnclearedImports(tx: Tx, connectorId: string, exceptRunId: string): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(uncleared([connectorId, exceptRunId]))
  return rows.map(({ id }) => id)
}

// Served by import_by_connector, once for each connector.
const uncleared = statement(
  'universe_list_uncleared_imports',
  `select i.run_id as id
  from universe.import i
  where not i.is_cleared and i.run_id <> $2::uuid and i.connector_id = any (array(
      select $1::text
      union all
      select s.connector_id from universe.source_connector s where s.retired_at is not null
    ))
  order by i.run_id
  limit 50`,
)

const maxCleared = 50_000

/** Deletes rows of ended imports, with `withChanges` also changes. Returns whether there may be more. */
export async function clearImports(tx: Tx, runIds: readonly string[], withChanges: boolean): Promise<boolean> {
  const removed = await tx.execute(clear([runIds, withChanges, maxCleared]))
  if (removed >= maxCleared) return true
  await tx.execute(markCleared([runIds]))
  return false
}

const clear = statement(
  'universe_clear_import_rows',
  `delete from universe.import_row r
  where r.ctid = any (array(
    select old.ctid
    from universe.import_row old
    join universe.import i on i.tenant_id = old.tenant_id and i.run_id = old.run_id
    where old.run_id = any ($1::uuid[])
      and ($2::boolean or i.diff_hash is null or old.op in ('keep', 'miss', 'leave', 'gone', 'invalid'))
    limit $3::integer
  ))`,
)
const markCleared = statement(
  'universe_mark_imports_cleared',
  'update universe.import i set is_cleared = true where i.run_id = any ($1::uuid[]) and not i.is_cleared',
)
