import { type Run, approveRun, cancelRun, rollbackRun } from '@postern/contracts'
import { type App, type RequestInfo, contractRoute, problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { recordAuditEvent } from '../audit/store.ts'
import { findConnector } from '../connector/store.ts'
import type { Deps } from '../deps.ts'
import { callUniverse } from '../import/call-universe.ts'
import { importCallerOf } from '../push/import-caller.ts'
import { deleteEndedRuns } from './delete-ended-runs.ts'
import { enqueueRun, refuseSecondRun } from './enqueue-run.ts'
import { actionsOf } from './rules.ts'
import { approveRun as approveStored, cancelRun as cancelStored, findRun, getRun } from './store.ts'

type Parts = Pick<Deps, 'db' | 'queue' | 'universe'>

export function runDecisionRoutes(app: App, deps: Parts): void {
  const { db, queue, universe } = deps
  contractRoute(app, approveRun, async ({ params, body, context, requestId, keep }) => {
    await assertNotStale(deps, { context, requestId }, params.id, body.diff_hash)
    const approved = await db
      .write(context, async (tx) => {
        const before = await requireRun(tx, params.id)
        if (before.status !== 'needs_approval')
          throw transitionProblem(before, 'Only a run that waits for approval can be approved.')
        if (!(await approveStored(tx, params.id, body.diff_hash, body.reason))) {
          throw problem('diff_stale', {
            detail: 'The run has other changes than those with this `diff_hash`. Read the run and review its changes.',
          })
        }
        await queue.sendRun(tx, context.tenantId, params.id)
        await recordAuditEvent(tx, { context, requestId }, await auditOfApproval(tx, before))
        return await keep(tx, await getRun(tx, params.id))
      })
      .catch(refuseSecondRun)
    queue.wake()
    return approved
  })

  contractRoute(app, cancelRun, async (input) => {
    const { params, context, keep } = input
    const { before, run } = await db.write(context, async (tx) => {
      const found = await requireRun(tx, params.id)
      if ((await cancelStored(tx, params.id)) === undefined) {
        throw transitionProblem(found, found.trigger === 'push' ? 'A push cannot be cancelled.' : 'The run has ended.')
      }
      return { before: found, run: await keep(tx, await getRun(tx, params.id)) }
    })
    if (run.status === 'cancelled' && before.connector_id !== null) {
      await deleteEndedRuns(deps, input, { connectorId: before.connector_id, runIds: [run.id] })
    }
    return run
  })

  contractRoute(app, rollbackRun, async (input) => {
    const { params, body, context, requestId } = input
    const found = async (tx: Tx) => {
      const before = await requireRun(tx, params.id)
      if (before.trigger === 'push')
        throw transitionProblem(before, 'A push cannot be undone. Push the rows with the values that they should have.')
      if (before.finished_at === null || before.counts.applied === 0 || before.connector_id === null) {
        throw transitionProblem(before, 'Only a run that has ended and applied changes can be undone.')
      }
      const connector = await findConnector(tx, before.connector_id)
      if (connector === undefined)
        throw problem('invalid_transition', { detail: 'The connector is retired.', allowed: [] })
      return { id: before.id, connector }
    }
    const { connector } = await db.write(context, found)
    const caller = importCallerOf({ context, requestId }, params.id)
    const { changed, left } = await callUniverse(async () => await universe.imports.undoable(caller, connector.dataset))
    if (changed) {
      throw problem('diff_stale', { detail: 'A later run changed the same rows. Undo that run first.' })
    }
    if (!left)
      throw problem('invalid_transition', { detail: 'The changes of the run were already undone.', allowed: [] })
    return await enqueueRun(deps, input, async (tx) => {
      const before = await found(tx)
      return {
        connectorId: before.connector.id,
        mode: 'rollback',
        trigger: 'api',
        overrideSafety: false,
        reason: body?.reason,
        rollbackOf: before.id,
      }
    })
  })
}

/** Throws `diff_stale` if one of the first changes of a run is outdated. The worker checks all of them. */
async function assertNotStale(
  { db, universe }: Parts,
  { context, requestId }: Pick<RequestInfo, 'context' | 'requestId'>,
  runId: string,
  diffHash: string,
): Promise<void> {
  const run = await db.write(context, async (tx) => await requireRun(tx, runId))
  // The approving transaction reports other obstacles.
  if (run.status !== 'needs_approval' || run.diff_hash !== diffHash) return
  const caller = importCallerOf({ context, requestId }, runId)
  if ((await callUniverse(async () => await universe.imports.check(caller, 0))).stale) {
    throw problem('diff_stale', {
      detail: 'The rows have changed since the run was reviewed. Run the connector again.',
    })
  }
}

async function auditOfApproval(tx: Tx, { id, connector_id: connectorId }: Pick<Run, 'id' | 'connector_id'>) {
  const connector = connectorId === null ? undefined : await findConnector(tx, connectorId)
  const resource = { type: 'sync_run', id, name: connector?.name ?? '' }
  return { category: 'connector', action: 'connector.run_approved', resource } as const
}

async function requireRun(tx: Tx, id: string): Promise<Run> {
  const found = await findRun(tx, id)
  if (found === undefined) throw problem('not_found')
  return found.run
}

function transitionProblem(run: Run, detail: string) {
  return problem('invalid_transition', { detail: `${detail} This one is ${run.status}.`, allowed: actionsOf(run) })
}
