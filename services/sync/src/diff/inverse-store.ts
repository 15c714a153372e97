// What undoes a run: the changes that it has applied, the other way round.
import type { Statement } from '@postern/tenant-db'
import { getRow, statement } from '../sql/store.ts'
import { creationsBetween, firstCreationsAsChanges, seqOf } from '../creation/as-changes.ts'
import { appliedUpTo, isApplied } from './applied.ts'
import type { Comparison, Tx } from './store.ts'

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

// What the run has applied of `changes`, and what undoes it. What it had made becomes inactive, where that can be, without what it alone may have and another
// gets back by the rollback (`given_back`; of people, who are never made in blocks): who is inactive keeps an address from all others. What was a draft before is one no longer.
// `latest`: what runs of the connector have made of the same rows since, which undoes it already where it is the same. Each row is looked up by itself: there
// may be hundreds of later runs, of which most have changed others. Served by run_change_key_unique and, a change, run_pk: neither is joined, as a plan
// without nested loops would go through all runs for each row.
const undoing = (changes: string): string => `applied as materialized (
    select c.seq, c.op, c.source_key, c.before, c.after,
      c.op = 'create' and ($2::text is null or coalesce(c.after -> $2::text = $4::jsonb, false)) as is_kept,
      coalesce(c.before -> $2::text = $4::jsonb and c.after -> $2::text <> $4::jsonb, false) as was_draft
    from (${changes}) as c
    where ${isApplied('c', appliedUpTo('$1'))}
  ),
  mine as materialized (
    select r.tenant_id, r.id, r.connector_id from sync.run r where r.id = $1::uuid
  ),
  given_back as materialized (
    select c.before ->> $5::text as value
    from sync.run_change c
    where $5::text is not null and c.run_id = $1::uuid and c.before ->> $5::text is distinct from c.after ->> $5::text
      and ${isApplied('c', appliedUpTo('$1'))}
    intersect
    select c.after ->> $5::text from sync.run_change c where $5::text is not null and c.run_id = $1::uuid and c.op = 'create'
  ),
  inverse as (
    select
      c.seq, c.source_key, c.after as before,
      case c.op when 'create' then 'deactivate' when 'deactivate' then 'reactivate' when 'reactivate' then 'deactivate'
        else c.op end as op,
      case
        when c.op = 'create' then jsonb_set(
          case when c.after ->> $5::text in (select given_back.value from given_back) then c.after - $5::text else c.after end,
          array[$2::text], $3::jsonb
        )
        when c.was_draft then jsonb_set(c.before, array[$2::text], c.after -> $2::text)
        else c.before end as after
    from applied c
    where not c.is_kept
  ),
  standing as (
    select inverse.*, latest.found is not null and latest.after is not distinct from inverse.after as is_undone,
      latest.found is not null and latest.after is distinct from inverse.after
        and latest.after is distinct from inverse.before as is_changed
    from mine
    cross join inverse
    left join lateral (
      select true as found, theirs.after
      from sync.run_change theirs
      where theirs.tenant_id = mine.tenant_id and theirs.source_key = inverse.source_key and theirs.run_id > mine.id
        and (
          select later.connector_id = mine.connector_id and later.applied_count > 0
          from sync.run later
          where later.tenant_id = mine.tenant_id and later.id = theirs.run_id
        )
        and ${isApplied('theirs', appliedUpTo('theirs.run_id'))}
      order by theirs.run_id desc
      limit 1
    ) as latest on true
    where inverse.before is distinct from inverse.after
  )`

/** Changes that are looked at while whoever wants to undo them waits: a second or two. */
const lookedAt = 20_000

const stands = statement(
  'sync_how_it_stands',
  `with looked as materialized (
    (
      select c.tenant_id, c.run_id, c.seq, c.op, c.source_key, c.before, c.after, c.error
      from sync.run_change c
      where c.run_id = $1::uuid
      order by c.seq
      limit $6::integer
    )
    union all
    select made.*
    from (${firstCreationsAsChanges('$1', '0', '$6::integer')}) as made
  ),
  ${undoing('select looked.* from looked')}
  select
    exists (select from standing where standing.is_changed) as changed,
    exists (select from standing where not standing.is_undone) or not exists (select from standing)
      or (select count(*) from looked) >= $6::integer as left
  from (select) as one`,
)

/** A plan that a connection has made while there were few changes would read all there are by now. For the rest of the transaction. */
const readByIndexes: Statement = { text: 'set local enable_seqscan = off', values: [] }

/** What there is to undo of a run. */
export interface Standing {
  /** Whether a later run of its connector has made something else of what this one had changed. */
  readonly changed: boolean
  /** Whether anything is not undone yet, or may be: nobody has looked at all of it. */
  readonly left: boolean
}

/**
 * Whether a run can be undone, as far as the connector's later runs say of the first of its changes: what there is of the others, and what
 * others have changed since, is seen when it is undone.
 */
export async function findStanding(tx: Tx, runId: string, fields: UndoneFields, most = lookedAt): Promise<Standing> {
  const [, rows] = await Promise.all([
    tx.execute(readByIndexes),
    tx.query<{ changed: boolean; left: boolean }>(stands([runId, ...valuesOf(fields), most])),
  ])
  return getRow(rows)
}

/** What of a dataset decides about how its rows are undone. */
export type UndoneFields = Pick<Comparison, 'statusField' | 'inactive' | 'draft' | 'uniqueField'>

function valuesOf({ statusField, inactive, draft, uniqueField }: UndoneFields): readonly unknown[] {
  return [statusField, JSON.stringify(inactive), draft === null ? null : JSON.stringify(draft), uniqueField]
}

const changesBetween = (from: string, below: string): string => `
      select c.tenant_id, c.run_id, c.seq, c.op, c.source_key, c.before, c.after, c.error
      from sync.run_change c
      where c.run_id = $1::uuid and c.seq >= ${from} and c.seq < ${below}
      union all
      ${creationsBetween('$1', from, below)}`

// The last change first, so that no tree on the way back is one that was not there on the way forth.
const insertInverse = statement(
  'sync_insert_inverse',
  `with ${undoing(changesBetween('$6::integer', '$7::integer'))},
  recorded as (
    insert into sync.run_change (tenant_id, run_id, seq, op, source_key, before, after)
    select
      (select tenancy.tenant_id()), $9::uuid, $8::integer + row_number() over (order by standing.seq desc),
      standing.op, standing.source_key, standing.before, standing.after
    from standing
    where not standing.is_undone
    returning 1 as one
  )
  select
    (select count(*)::integer from recorded) as recorded,
    (select count(*)::integer from applied where applied.is_kept or applied.was_draft) as stay`,
)

/**
 * Records what undoes these changes of the other run, as far as they are not undone, behind the `recorded` ones before; answers how many that
 * are, and of how many rows something stays that cannot be undone.
 */
export async function recordInverse(
  tx: Tx,
  comparison: Comparison,
  otherRunId: string,
  { from, below }: SeqRange,
  recorded: number,
): Promise<{ readonly recorded: number; readonly stay: number }> {
  const [, rows] = await Promise.all([
    tx.execute(readByIndexes),
    tx.query<{ recorded: number; stay: number }>(
      insertInverse([otherRunId, ...valuesOf(comparison), from, below, recorded, comparison.runId]),
    ),
  ])
  return getRow(rows)
}
