import type { Statement, Tx } from '@postern/tenant-db'

const [atMostRows, atMostBlocks] = [50_000, 200]

function statement(name: string, text: string): (values: readonly unknown[]) => Statement {
  return (values) => ({ name, text, values })
}

// Served by run_with_details. Who finds a run held is not needed: another worker of the tenant clears it now.
const selectOld = statement(
  'sync_select_old_runs',
  `select r.id
  from sync.run r
  where r.source = 'connector' and r.finished_at is not null and r.details_cleared_at is null
    and r.finished_at < now() - make_interval(days => $1)
  order by r.finished_at
  limit 50
  for update skip locked`,
)

// Served by the primary keys.
const deleteErrors = statement(
  'sync_delete_old_errors',
  `delete from sync.run_error e
  where (e.tenant_id, e.run_id, e.seq) in (
    select old.tenant_id, old.run_id, old.seq from sync.run_error old where old.run_id = any ($1) limit $2
  )`,
)

// What was to be applied stays, whatever came of it: a rollback goes by it, and a batch in doubt is counted nowhere.
const lookedAt = `select r.id from sync.run r
    where r.id = any ($1) and r.applied_count = 0 and (
      r.mode = 'dry_run' or r.breaches <> '[]' and not r.approved and not r.override_safety
    )`
const deleteChanges = statement(
  'sync_delete_old_changes',
  `delete from sync.run_change c
  where (c.tenant_id, c.run_id, c.seq) in (
    select old.tenant_id, old.run_id, old.seq from sync.run_change old where old.run_id in (${lookedAt}) limit $2
  )`,
)
const deleteCreations = statement(
  'sync_delete_old_creations',
  `delete from sync.run_creation c
  where (c.tenant_id, c.run_id, c.first_row) in (
    select old.tenant_id, old.run_id, old.first_row from sync.run_creation old where old.run_id in (${lookedAt}) limit $2
  )`,
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
  const old = await tx.query<{ id: string }>(selectOld([days]))
  if (old.length === 0) return false
  const ids = old.map(({ id }) => id)
  const isDone = [
    (await tx.execute(deleteErrors([ids, atMostRows]))) < atMostRows,
    (await tx.execute(deleteChanges([ids, atMostRows]))) < atMostRows,
    (await tx.execute(deleteCreations([ids, atMostBlocks]))) < atMostBlocks,
  ].every(Boolean)
  if (isDone) await tx.execute(noteCleared([ids]))
  return true
}
