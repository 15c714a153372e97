import type { RollbackPlan } from '@postern/contracts/internal'
import { getRow, statement } from '../sql/store.ts'
import { changeOps, importRules, parseScope } from './rules.ts'
import type { Import, Tx } from './store.ts'

const undoneAtOnce = 50_000

const isApplied = (change: string, owner: string): string => `(
      ${change}.op in ${changeOps} and ${change}.errors is null
      and ${change}.seq <= ${owner}.applied_sequence
    )`

// Inverts applied changes of run `$1`. Created rows become inactive and give up a unique value (`given_back`). Drafts stay.
// `latest`: the result of later runs. import_row_pk, import_row_changed and import_pk
const undoingSql = (changes: string): string => `
  mine as materialized (
    select i.tenant_id, i.run_id, i.connector_id, i.applied_sequence from universe.import i where i.run_id = $1::uuid
  ),
  applied as materialized (
    select c.seq, c.op, c.source_key, c.before, c.content as after,
      c.op = 'create' and ($2::text is null or coalesce(c.content -> $2::text = $4::jsonb, false)) as is_kept,
      coalesce(c.before -> $2::text = $4::jsonb and c.content -> $2::text <> $4::jsonb, false) as was_draft
    from mine
    join (${changes}) as c on ${isApplied('c', 'mine')}
  ),
  given_back as materialized (
    select c.before ->> $5::text as value
    from mine
    join universe.import_row c on c.run_id = mine.run_id and ${isApplied('c', 'mine')}
    where $5::text is not null and c.before ->> $5::text is distinct from c.content ->> $5::text
    intersect
    select c.content ->> $5::text
    from universe.import_row c
    where $5::text is not null and c.run_id = $1::uuid and c.op = 'create'
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
      select true as found, theirs.content as after
      from universe.import_row theirs
      where theirs.tenant_id = mine.tenant_id and theirs.source_key = inverse.source_key and theirs.run_id > mine.run_id
        and theirs.before is not null
        and (
          select later.connector_id = mine.connector_id and later.applied_count > 0 and ${isApplied('theirs', 'later')}
          from universe.import later
          where later.tenant_id = mine.tenant_id and later.run_id = theirs.run_id
        )
      order by theirs.run_id desc
      limit 1
    ) as latest on true
    where inverse.before is distinct from inverse.after
  )`

const checkedAtOnce = 20_000

const selectUndoable = statement(
  'universe_can_import_be_undone',
  `with looked as materialized (
    select c.*
    from universe.import_row c
    where c.run_id = $1::uuid and c.op in ${changeOps}
    order by c.seq
    limit $6::integer
  ),
  ${undoingSql('select looked.* from looked')}
  select
    exists (select from standing where standing.is_changed) as changed,
    exists (select from standing where not standing.is_undone) or not exists (select from standing)
      or (select count(*) from looked) >= $6::integer as left`,
)

/** Whether a run can be undone, judged by its first changes. */
export async function findUndoable(
  tx: Tx,
  runId: string,
  dataset: keyof typeof importRules,
  most = checkedAtOnce,
): Promise<{ readonly changed: boolean; readonly left: boolean }> {
  return getRow(
    await tx.query<{ changed: boolean; left: boolean }>(selectUndoable([runId, ...valuesOf(dataset), most])),
  )
}

function valuesOf(dataset: keyof typeof importRules): readonly unknown[] {
  const { statusField, inactive, draft, uniqueField } = importRules[dataset]
  return [statusField, JSON.stringify(inactive), draft === null ? null : JSON.stringify(draft), uniqueField]
}

const next = statement(
  'universe_next_undone_changes',
  `select min(c.seq) as "from", count(*)::integer as count
  from (
    select r.seq
    from universe.import_row r
    where r.run_id = $1::uuid and r.seq < $2::integer and r.op in ${changeOps}
    order by r.seq desc
    limit $3::integer
  ) as c`,
)

// In reverse order, so that each intermediate tree existed before.
const insertInverse = statement(
  'universe_insert_inverse',
  `with ${undoingSql(`
      select c.*
      from universe.import_row c
      where c.run_id = $1::uuid and c.seq >= $6::integer and c.seq < $7::integer`)},
  recorded as (
    insert into universe.import_row (tenant_id, run_id, seq, op, source_key, before, content)
    select
      (select tenancy.tenant_id()), $8::uuid,
      coalesce((select max(r.seq) from universe.import_row r where r.run_id = $8::uuid), 0)
        + row_number() over (order by standing.seq desc),
      standing.op, standing.source_key, standing.before, standing.after
    from standing
    where not standing.is_undone
  )
  select (select count(*)::integer from applied where applied.is_kept or applied.was_draft) as stay`,
)

/**
 * Plans the inverse of the last changes below `below`. Returns where to continue, and how many rows cannot be undone
 * completely.
 */
export async function planInverse(
  tx: Tx,
  { runId, scope, rollbackOf }: Import,
  below: number,
): Promise<{ readonly below: number | undefined; readonly stay: number }> {
  const { from, count } = getRow(
    await tx.query<{ from: number | null; count: number }>(next([rollbackOf, below, undoneAtOnce])),
  )
  if (from === null) return { below: undefined, stay: 0 }
  const values = [rollbackOf, ...valuesOf(parseScope(scope).dataset), from, below, runId]
  const { stay } = getRow(await tx.query<Pick<RollbackPlan, 'stay'>>(insertInverse(values)))
  return { below: count < undoneAtOnce ? undefined : from, stay }
}
