import type { Tx } from '@postern/tenant-db'
import { statement } from '../sql/store.ts'

// So few that the statement is over long before the limit of those of requests.
const atMostRows = 5_000

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
const setCleared = statement(
  'sync_note_cleared',
  'update sync.run r set details_cleared_at = now(), revision = r.revision + 1 where r.id = any ($1)',
)

/** An ended run. */
export interface OldRun {
  readonly id: string
  /** Whether its changes were only looked at: a dry run, or one that nobody has approved. */
  readonly isLookedAt: boolean
}

/** Lists runs of the tenant that ended more than so many days ago and have details. */
export async function listOldRuns(tx: Tx, days: number): Promise<OldRun[]> {
  return await tx.query<OldRun & { [column: string]: unknown }>(selectOld([days]))
}

/** Removes some errors of these runs. Returns whether none is left. */
export async function clearOldErrors(tx: Tx, ids: readonly string[]): Promise<boolean> {
  await tx.execute(byIndex([]))
  return (await tx.execute(deleteErrors([ids, atMostRows]))) < atMostRows
}

/** Records that the details of these runs are cleared. */
export async function recordCleared(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx.execute(setCleared([ids]))
}
