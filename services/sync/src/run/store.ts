import type { Tx } from '@postern/tenant-db'
import type { Actor, RunOutcome } from './rules.ts'

// Served by run_running.
const failInterruptedText = `
  update sync.run
  set status = 'failed',
    failure = 'interrupted',
    finished_at = now()
  where tenant_id = (select tenancy.tenant_id())
    and status = 'running'
    and started_at < now() - make_interval(secs => $1)`

/** Ends the tenant's runs that began more than `olderThanSeconds` ago and never came to an end; answers how many. */
export async function failInterruptedRuns(tx: Tx, olderThanSeconds: number): Promise<number> {
  return await tx.execute({ name: 'sync_fail_interrupted', text: failInterruptedText, values: [olderThanSeconds] })
}

const startRunText = `
  insert into sync.run (
    tenant_id, connector_id, source, fetched_count, created_by_type, created_by_id, created_by_label, request_id
  )
  values ((select tenancy.tenant_id()), $1, 'inline', $2, $3, $4, $5, $6)
  returning id`

/** Records that a push of `fetched` rows begins; answers the run's id. */
export async function startInlineRun(
  tx: Tx,
  run: { readonly connectorId: string; readonly fetched: number; readonly actor: Actor; readonly requestId: string },
): Promise<string> {
  const { connectorId, fetched, actor, requestId } = run
  const [row] = await tx.query<{ id: string }>({
    name: 'sync_start_run',
    text: startRunText,
    values: [connectorId, fetched, actor.type, actor.id, actor.label, requestId],
  })
  if (row === undefined) throw new Error('the run was not recorded')
  return row.id
}

// A run ends once: one that was taken for interrupted stays so. Served by the primary key.
const finishRunText = `
  update sync.run
  set status = $2,
    failure = $3,
    created_count = $4,
    updated_count = $5,
    unchanged_count = $6,
    deactivated_count = $7,
    finished_at = now()
  where tenant_id = (select tenancy.tenant_id())
    and id = $1
    and status = 'running'`

const nothing: Extract<RunOutcome, { status: 'succeeded' }>['counts'] = { created: 0, updated: 0, unchanged: 0 }

/** Records how a run has ended. Does nothing where it has ended already. */
export async function finishRun(tx: Tx, runId: string, outcome: RunOutcome): Promise<void> {
  const { created, updated, unchanged, deactivated = 0 } = outcome.status === 'succeeded' ? outcome.counts : nothing
  const failure = outcome.status === 'failed' ? outcome.failure : null
  await tx.execute({
    name: 'sync_finish_run',
    text: finishRunText,
    values: [runId, outcome.status, failure, created, updated, unchanged, deactivated],
  })
}
