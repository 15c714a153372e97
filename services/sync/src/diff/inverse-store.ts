// What undoes a run: the changes that it has applied, the other way round.
import { creationsBetween, seqOf } from '../creation/as-changes.ts'
import { appliedUpTo } from './applied.ts'
import { type Comparison, type Tx, statement } from './store.ts'

const bounds = statement(
  'sync_list_inverse_bounds',
  `select placed.seq
  from (
    select every.seq, row_number() over (order by every.seq desc) as place
    from (
      select c.seq from sync.run_change c where c.run_id = $1::uuid
      union all
      select ${seqOf('one.row')}
      from sync.run_creation b
      cross join lateral unnest(b.rows) as one (row)
      where b.run_id = $1::uuid
    ) as every
  ) as placed
  where placed.place % $2::integer = 0
  order by placed.seq desc`,
)

/** Changes from one `seq` on and below another. */
export interface SeqRange {
  readonly from: number
  readonly below: number
}

const lastSeq = 2_147_483_647

/** The changes of a run in parts of at most so many, the last ones first. */
export async function listInverseRanges(tx: Tx, runId: string, changes: number): Promise<SeqRange[]> {
  const rows = await tx.query<{ seq: number }>(bounds([runId, changes]))
  const starts = [...rows.map(({ seq }) => seq), 0]
  return starts.map((from, at) => ({ from, below: starts[at - 1] ?? lastSeq }))
}

// The last change first, so that no tree on the way back is one that was not there on the way forth. What the run had made
// becomes inactive, where that can be; what was a draft before is one no longer.
const insertInverse = statement(
  'sync_insert_inverse',
  `with applied as (
    select c.seq, c.op, c.source_key, c.depth, c.before, c.after,
      c.op = 'create' and ($3::text is null or coalesce(c.after -> $3::text = $8::jsonb, false)) as is_kept,
      coalesce(c.before -> $3::text = $8::jsonb and c.after -> $3::text <> $8::jsonb, false) as was_draft
    from (
      select c.tenant_id, c.run_id, c.seq, c.op, c.source_key, c.depth, c.before, c.after, c.applied_at, c.error
      from sync.run_change c
      where c.run_id = $2::uuid and c.seq >= $5::integer and c.seq < $6::integer
      union all
      ${creationsBetween('$2', '$5::integer', '$6::integer')}
    ) as c
    where c.applied_at is not null or c.error is null and c.seq <= ${appliedUpTo('$2')}
  ),
  inverse as (
    select
      c.seq, c.source_key, c.depth, c.after as before,
      case c.op when 'create' then 'deactivate' when 'deactivate' then 'reactivate' when 'reactivate' then 'deactivate'
        else c.op end as op,
      case when c.op = 'create' then jsonb_set(c.after, array[$3::text], $4::jsonb)
        when c.was_draft then jsonb_set(c.before, array[$3::text], c.after -> $3::text)
        else c.before end as after
    from applied c
    where not c.is_kept
  ),
  recorded as (
    insert into sync.run_change (tenant_id, run_id, seq, op, source_key, depth, before, after)
    select
      (select tenancy.tenant_id()), $1::uuid, $7::integer + row_number() over (order by inverse.seq desc),
      inverse.op, inverse.source_key, inverse.depth, inverse.before, inverse.after
    from inverse
    where inverse.before is distinct from inverse.after
    returning 1 as one
  )
  select
    (select count(*)::integer from recorded) as recorded,
    (select count(*)::integer from applied where applied.is_kept or applied.was_draft) as stay`,
)

/**
 * Records what undoes these changes of the other run, behind the `recorded` ones before; answers how many that are, and of how many
 * rows something stays that cannot be undone.
 */
export async function recordInverse(
  tx: Tx,
  { runId, statusField, inactive, draft }: Comparison,
  otherRunId: string,
  { from, below }: SeqRange,
  recorded: number,
): Promise<{ readonly recorded: number; readonly stay: number }> {
  const isDraft = draft === null ? null : JSON.stringify(draft)
  const [row] = await tx.query<{ recorded: number; stay: number }>(
    insertInverse([runId, otherRunId, statusField, JSON.stringify(inactive), from, below, recorded, isDraft]),
  )
  if (row === undefined) throw new Error('an aggregate always has a row')
  return row
}
