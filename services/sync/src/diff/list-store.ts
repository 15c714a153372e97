import { statement } from '../sql/store.ts'
import type { RunChange, RunError } from '@postern/contracts'
import { firstCreationsAsChanges, isPlanned } from '../creation/as-changes.ts'
import { appliedAt } from './applied.ts'
import type { Tx } from './store.ts'

const selectChanges = statement(
  'sync_list_changes',
  `select c.seq, c.op, c.source_key, c.before, c.after, ${appliedAt('c')} as applied_at, c.error
  from (
    (
      select c.tenant_id, c.run_id, c.seq, c.op, c.source_key, c.before, c.after, c.error
      from sync.run_change c
      where c.run_id = $1::uuid and c.seq > $2::integer and ($3::text[] is null or c.op = any ($3))
      order by c.seq
      limit $4
    )
    union all
    select made.*
    from (${firstCreationsAsChanges('$1', '$2::integer', '$4')}) as made
    where $3::text[] is null or 'create' = any ($3)
  ) as c
  order by c.seq
  limit $4`,
)
const countAllChanges = statement(
  'sync_count_changes',
  `select (
      select count(*)::integer
      from sync.run_change c
      where c.run_id = $1::uuid and ($2::text[] is null or c.op = any ($2))
    ) + (
      select coalesce(sum(cardinality(b.rows)), 0)::integer
      from sync.run_creation b
      where b.run_id = $1::uuid and ${isPlanned('$1')} and ($2::text[] is null or 'create' = any ($2))
    ) as total`,
)

/** Bytes that the rows of a page may have: both sides of a change are as long as sources write them. A page of more is shorter. */
const mostBytes = 4 * 1024 * 1024

interface ChangeRow extends Omit<RunChange, 'applied_at'> {
  readonly applied_at: Date | null
}

export async function listChanges(
  tx: Tx,
  runId: string,
  ops: readonly string[] | undefined,
  after: number | undefined,
  limit: number,
): Promise<RunChange[]> {
  const rows = await tx.query<ChangeRow & { [column: string]: unknown }>({
    ...selectChanges([runId, after ?? 0, ops ?? null, limit]),
    maxBytes: mostBytes,
  })
  return rows.map((row) => ({
    seq: row.seq,
    op: row.op,
    source_key: row.source_key,
    before: row.before,
    after: row.after,
    applied_at: row.applied_at?.toISOString() ?? null,
    error: row.error,
  }))
}

export async function countChanges(tx: Tx, runId: string, ops: readonly string[] | undefined): Promise<number> {
  const [row] = await tx.query<{ total: number }>(countAllChanges([runId, ops ?? null]))
  return row?.total ?? 0
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
  return await tx.query<RunError & { [column: string]: unknown }>(selectErrors([runId, after ?? 0, limit]))
}

export async function countErrors(tx: Tx, runId: string): Promise<number> {
  const [row] = await tx.query<{ total: number }>(countAllErrors([runId]))
  return row?.total ?? 0
}
