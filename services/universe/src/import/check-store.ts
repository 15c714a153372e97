import { getRow } from '../sql/store.ts'
import { currentRowsSql } from '../current-rows/store.ts'
import { byDataset } from './by-dataset-store.ts'
import { changeOps } from './rules.ts'
import type { Import, Tx } from './store.ts'

const checkedAtOnce = 20_000

/**
 * Returns whether a change is outdated, because the stored row is neither the old nor the new one. `after` is the last checked seq,
 * or null at the end.
 */
export async function checkChanges(
  tx: Tx,
  { runId, scope, appliedSequence }: Import,
  after: number,
): Promise<{ readonly stale: boolean; readonly after: number | null }> {
  const from = Math.max(after, appliedSequence)
  const rows = await tx.query<{ stale: boolean; after: number | null; checked: number }>(
    check(scope, [runId, from, checkedAtOnce]),
  )
  const { stale, after: last, checked } = getRow(rows)
  return { stale, after: checked < checkedAtOnce ? null : last }
}

const check = byDataset(
  'universe_check_changes',
  (dataset) => `
  with wanted as materialized (
    select r.seq, r.source_key as key, r.before, r.content
    from universe.import_row r
    where r.run_id = $1::uuid and r.seq > $2::integer and r.errors is null
      and r.op in ${changeOps}
    order by r.seq
    limit $3::integer
  ),
  stored as materialized (${currentRowsSql(dataset, 'wanted', '$4::text')})
  select
    count(*) filter (
      where stored.row is distinct from wanted.before and stored.row is distinct from wanted.content
    ) > 0 as stale,
    max(wanted.seq) as after, count(*)::integer as checked
  from wanted
  left join stored on stored.key = wanted.key`,
)
