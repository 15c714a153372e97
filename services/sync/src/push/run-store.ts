import type { Tx } from '@postern/tenant-db'
import type { Actor, RunOutcome } from '../run/rules.ts'
import { getRow, statement } from '../sql/store.ts'

const failInterrupted = statement(
  'sync_fail_interrupted',
  `update sync.run
  set status = 'failed', failure = 'interrupted', finished_at = now(), revision = revision + 1
  where tenant_id = (select tenancy.tenant_id())
    and status = 'running'
    and started_at < now() - make_interval(secs => $1)`,
)

/** Fails the tenant's pushes that are still running after `olderThanSeconds`. Returns how many. */
export async function failInterruptedRuns(tx: Tx, olderThanSeconds: number): Promise<number> {
  return await tx.execute(failInterrupted([olderThanSeconds]))
}

const startInline = statement(
  'sync_start_run',
  `insert into sync.run (
    tenant_id, connector_id, source, status, trigger, fetched_count, created_by_type, created_by_id, created_by_label,
    request_id
  )
  values ((select tenancy.tenant_id()), $1, 'inline', 'running', 'push', $2, $3, $4, $5, $6)
  returning id`,
)

export async function startInlineRun(
  tx: Tx,
  run: { readonly connectorId: string; readonly fetched: number; readonly actor: Actor; readonly requestId: string },
): Promise<string> {
  const { connectorId, fetched, actor, requestId } = run
  const values = [connectorId, fetched, actor.type, actor.id, actor.label, requestId]
  return getRow(await tx.query<{ id: string }>(startInline(values))).id
}

// A push ends once: an interrupted one stays interrupted.
const finishInline = statement(
  'sync_finish_run',
  `update sync.run
  set status = $2, failure = $3, valid_count = $4, invalid_count = $5, created_count = $6::integer, updated_count = $7::integer,
    unchanged_count = $8, deactivated_count = $9::integer, applied_count = $6::integer + $7::integer + $9::integer, finished_at = now(),
    revision = revision + 1
  where tenant_id = (select tenancy.tenant_id())
    and id = $1
    and status = 'running'`,
)

/** Records how a push ended. Does nothing if it has ended already. */
export async function finishRun(tx: Tx, runId: string, outcome: RunOutcome): Promise<void> {
  const { valid, invalid, created, updated, unchanged, deactivated } = outcome.counts
  const failure = outcome.status === 'failed' ? outcome.failure : null
  await tx.execute(
    finishInline([runId, outcome.status, failure, valid, invalid, created, updated, unchanged, deactivated]),
  )
}
