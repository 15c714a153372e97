import type { Tx } from '@postern/tenant-db'
import { statement } from '../sql/store.ts'

// So few that each statement is over long before the limit of those of requests.
const [atMostRows, atMostBlocks] = [5_000, 50]

// Served by run_with_details. Who finds a run held is not needed: another worker of the tenant clears it now.
// What was to be applied stays, whatever came of it: a rollback goes by it, and a batch in doubt is counted nowhere.
const selectOld = statement(
  'sync_select_old_runs',
  `select r.id,
    r.applied_count = 0 and (
      r.mode = 'dry_run' or r.breaches <> '[]' and not r.approved and not r.override_safety
    ) as "isLookedAt"
  from sync.run r
  where r.source = 'connector' and r.finished_at is not null and r.details_cleared_at is null
    and r.finished_at < now() - make_interval(days => $1)
  order by r.finished_at
  limit 50
  for update skip locked`,
)

// Statistics of before say that many rows are left, when many have just been removed: PostgreSQL would go through all there is, to find them soon.
const byIndex = statement(
  'sync_clear_by_index',
  `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`,
)

// Found by the primary keys, and removed where they lie: nothing is joined. Nobody else writes to what belongs to a run that has ended.
const deleteErrors = statement(
  'sync_delete_old_errors',
  `delete from sync.run_error e
  where e.ctid = any (array(select old.ctid from sync.run_error old where old.run_id = any ($1) limit $2))`,
)
const deleteChanges = statement(
  'sync_delete_old_changes',
  `delete from sync.run_change c
  where c.ctid = any (array(select old.ctid from sync.run_change old where old.run_id = any ($1) limit $2))`,
)
const deleteCreations = statement(
  'sync_delete_old_creations',
  `delete from sync.run_creation c
  where c.ctid = any (array(select old.ctid from sync.run_creation old where old.run_id = any ($1) limit $2))`,
)

const noteCleared = statement(
  'sync_note_cleared',
  'update sync.run r set details_cleared_at = now(), revision = r.revision + 1 where r.id = any ($1)',
)

/**
 * Removes the errors of the tenant's runs that ended more than so many days ago, and the changes of those among them that were only
 * looked at: dry runs, and what nobody has approved. Some of them a time; answers whether there may be more.
 */
export async function clearOldDetails(tx: Tx, days: number): Promise<boolean> {
  const old = await tx.query<{ id: string; isLookedAt: boolean }>(selectOld([days]))
  if (old.length === 0) return false
  const ids = old.map(({ id }) => id)
  const lookedAt = old.filter(({ isLookedAt }) => isLookedAt).map(({ id }) => id)
  await tx.execute(byIndex([]))
  const isDone = [
    (await tx.execute(deleteErrors([ids, atMostRows]))) < atMostRows,
    (await tx.execute(deleteChanges([lookedAt, atMostRows]))) < atMostRows,
    (await tx.execute(deleteCreations([lookedAt, atMostBlocks]))) < atMostBlocks,
  ].every(Boolean)
  if (isDone) await tx.execute(noteCleared([ids]))
  return true
}
