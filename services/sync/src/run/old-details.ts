import type { Tx } from '@postern/tenant-db'
import { statement } from '../sql/store.ts'

const maxRows = 5_000

// Served by run_with_details. Changes that were to be applied stay, because rollbacks need them.
const selectOld = statement(
  'sync_select_old_runs',
  `select r.id,
    r.applied_count = 0 and (
      r.mode = 'dry_run' or r.breaches <> '[]' and not r.approved and not r.override_safety
    ) as "isOnlyReviewed"
  from sync.run r
  where r.source = 'connector' and r.finished_at is not null and r.details_cleared_at is null
    and r.finished_at < now() - make_interval(days => $1)
  order by r.finished_at
  limit 50`,
)

// After many deletions, outdated statistics would make PostgreSQL scan all rows.
const byIndex = statement(
  'sync_clear_by_index',
  `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`,
)

// Found by the primary keys and deleted by ctid, without a join. Nobody else writes rows of ended runs.
const deleteErrors = statement(
  'sync_delete_old_errors',
  `delete from sync.run_error e
  where e.ctid = any (array(select old.ctid from sync.run_error old where old.run_id = any ($1) limit $2))`,
)
const setCleared = statement(
  'sync_note_cleared',
  'update sync.run r set details_cleared_at = now(), revision = r.revision + 1 where r.id = any ($1)',
)

export interface OldRun {
  readonly id: string
  /** A dry run, or one that was not approved. */
  readonly isOnlyReviewed: boolean
}

/** Lists runs with details that ended more than `days` days ago. */
export async function listOldRuns(tx: Tx, days: number): Promise<OldRun[]> {
  return await tx.query<OldRun>(selectOld([days]))
}

/** Deletes some errors of these runs. Returns whether none is left. */
export async function clearOldErrors(tx: Tx, ids: readonly string[]): Promise<boolean> {
  await tx.execute(byIndex([]))
  return (await tx.execute(deleteErrors([ids, maxRows]))) < maxRows
}

export async function recordCleared(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx.execute(setCleared([ids]))
}
