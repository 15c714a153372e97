import type { Logger } from '@postern/service-kit'
import { parseAssertion } from '@postern/signed-context'
import { findConnector, moveSchedule } from '../connector/store.ts'
import type { Queue } from '../queue/queue.ts'
import { findOpenRun, insertRun } from '../run/store.ts'
import { AssertionSource } from '../worker/run-lease.ts'
import { type TenantDb, acquireWork, isSuspended } from '../worker/store.ts'
import { nextRun } from './next-run.ts'

interface Parts {
  readonly workerDb: TenantDb
  readonly queue: Queue
  readonly logger: Logger
  readonly now: () => Date
}

/**
 * Creates the run of a due schedule and plans the next one. Skips it if the tenant is suspended or another run has not
 * ended.
 */
export async function runSchedule(
  { workerDb, queue, logger, now }: Parts,
  connectorId: string,
  due: Date,
): Promise<void> {
  const worker = crypto.randomUUID()
  if (!(await workerDb.system(async (tx) => await acquireWork(tx, connectorId, worker)))) return
  const assertion = await new AssertionSource(workerDb, connectorId, worker).get()
  const isHeldBack = await workerDb.system(async (tx) => await isSuspended(tx, connectorId, worker))
  let leftOut: 'suspended' | 'under_way' | 'needs_approval' | undefined
  const runId = await workerDb.write({ assertion }, async (tx) => {
    const connector = await findConnector(tx, connectorId)
    if (connector?.schedule === undefined || connector.schedule === null) return undefined
    const at = now()
    // Missed times are made up for once.
    const next = nextRun(connector.schedule, at > due ? at : due)
    if (!(await moveSchedule(tx, connectorId, due, next))) return undefined
    if (next !== undefined) await queue.sendSchedule(tx, connectorId, next)
    leftOut = isHeldBack ? 'suspended' : await findOpenRun(tx, connectorId)
    if (leftOut !== undefined) return undefined
    const id = await insertRun(tx, {
      connectorId,
      mode: 'apply',
      trigger: 'schedule',
      uploadId: undefined,
      inputSha256: undefined,
      overrideSafety: false,
      reason: undefined,
      rollbackOf: undefined,
      actor: { type: 'connector', id: connectorId, label: connector.name },
      requestId: worker,
    })
    await queue.sendRun(tx, parseAssertion(assertion)?.tenantId ?? '', id)
    return id
  })
  logger.info({ event: 'sync_schedule_due', connector_id: connectorId, run_id: runId, left_out: leftOut })
}
