import type { Logger } from '@postern/service-kit'
import { findConnector, moveSchedule } from '../connector/store.ts'
import type { Queue } from '../queue/queue.ts'
import { findOpenRun, insertRun } from '../run/store.ts'
import type { TenantDb } from '@postern/tenant-db'
import { openWorkerSession } from '../granted-work/session.ts'
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
  const session = await openWorkerSession(workerDb, connectorId)
  if (session === undefined) return
  let skippedFor: 'suspended' | 'under_way' | 'needs_approval' | undefined
  const runId = await workerDb.write({ assertion: await session.assertion() }, async (tx) => {
    const connector = await findConnector(tx, connectorId)
    if (connector?.schedule === undefined || connector.schedule === null) return undefined
    const at = now()
    // Of several missed times, one run makes up for all.
    const next = nextRun(connector.schedule, at > due ? at : due)
    if (!(await moveSchedule(tx, connectorId, due, next))) return undefined
    if (next !== undefined) await queue.sendSchedule(tx, connectorId, next)
    skippedFor = session.isSuspended ? 'suspended' : await findOpenRun(tx, connectorId)
    if (skippedFor !== undefined) return undefined
    const id = await insertRun(tx, {
      connectorId,
      mode: 'apply',
      trigger: 'schedule',
      overrideSafety: false,
      actor: { type: 'connector', id: connectorId, label: connector.name },
      requestId: crypto.randomUUID(),
    })
    await queue.sendRun(tx, session.tenantId, id)
    return id
  })
  logger.info({ event: 'sync_schedule_due', connector_id: connectorId, run_id: runId, left_out: skippedFor })
}
