import { type Tx, getRow, statement } from '@postern/tenant-db'

// Work that the tenant requested; tenancy.issue_for_run checks it.
const grantWork = statement(
  'sync_grant_work',
  `insert into tenancy.granted_work (tenant_id, work_id)
  values ((select tenancy.tenant_id()), $1)
  on conflict do nothing`,
)
const endWork = statement('sync_end_work', 'delete from tenancy.granted_work g where g.work_id = $1')

/** Allows workers to act for the tenant on a run, or a connector with a schedule. */
export async function allowWork(tx: Tx, id: string): Promise<void> {
  await tx.execute(grantWork([id]))
}

export async function disallowWork(tx: Tx, id: string): Promise<void> {
  await tx.execute(endWork([id]))
}

const acquire = statement('sync_acquire_work', 'select tenancy.hold_work($1::uuid, $2::uuid) as held')
const issue = statement('sync_issue_for_run', 'select tenancy.issue_for_run($1::uuid, $2::uuid) as assertion')

/** Assigns the work to the worker. Returns false if it no longer exists. */
export async function acquireWork(tx: Tx, workId: string, worker: string): Promise<boolean> {
  return getRow(await tx.query<{ held: boolean }>(acquire([workId, worker]))).held
}

/** Issues an assertion of the work's tenant for a minute. Fails with 28000 for another worker. */
export async function issueAssertion(tx: Tx, workId: string, worker: string): Promise<string> {
  return getRow(await tx.query<{ assertion: string }>(issue([workId, worker]))).assertion
}

// By its holder, because an approval may have granted it to another worker.
const releaseGrant = statement(
  'sync_release_work',
  'delete from tenancy.granted_work g where g.work_id = $1 and g.holder = $2',
)

/** Releases the work if the worker still has it. */
export async function releaseWork(tx: Tx, workId: string, worker: string): Promise<void> {
  await tx.execute(releaseGrant([workId, worker]))
}

const suspended = statement('sync_is_suspended', 'select tenancy.is_work_suspended($1::uuid, $2::uuid) as suspended')

export async function isSuspended(tx: Tx, workId: string, worker: string): Promise<boolean> {
  return getRow(await tx.query<{ suspended: boolean }>(suspended([workId, worker]))).suspended
}
