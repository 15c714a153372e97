import type { Logger } from '@postern/service-kit'
import type { Universe } from '../push/universe.ts'
import type { Queue } from '../queue/queue.ts'
import { interruptedAfterSeconds } from '../run/rules.ts'
import type { TenantDb } from '../worker/store.ts'
import { openWorkerSession } from '../worker/worker-session.ts'
import { correctUniverse } from './correct-universe.ts'
import { deletePendingPushes, listPendingPushes } from './pending-store.ts'
import type { Sender } from './push-to-universe.ts'

interface CorrectionParts {
  readonly db: TenantDb
  readonly universe: Universe
  readonly queue: Queue
  readonly logger: Logger
}

/** Corrects the universe for pushes whose process died. Queues the next call while pushes are pending. */
export async function correctAbandonedPushes(parts: CorrectionParts, workId: string): Promise<void> {
  const { db, queue, logger } = parts
  const session = await openWorkerSession(db, workId)
  if (session === undefined) return
  const { tenantId } = session
  const label = 'Identity provider (SCIM)'
  const senderOf = async (): Promise<Sender> => ({
    context: { tenantId, assertion: await session.assertion(), label },
    requestId: workId,
    actor: { type: 'connector', id: workId, label },
  })
  const list = async () =>
    await db.write((await senderOf()).context, async (tx) => await listPendingPushes(tx, interruptedAfterSeconds))
  const abandoned = session.isSuspended ? [] : (await list()).filter(({ isAbandoned }) => isAbandoned)
  for (const { id, pushed, ...push } of abandoned) {
    const sender = await senderOf()
    try {
      await correctUniverse(parts, sender, { ...push, pushed: pushed === null ? [] : [pushed] })
    } catch (error) {
      logger.warn({ event: 'scim_correction_failed', request_id: workId, err: error })
      throw error
    }
    await db.write(sender.context, async (tx) => await deletePendingPushes(tx, [id]))
  }
  if ((await list()).length === 0) return
  await db.write(
    (await senderOf()).context,
    async (tx) => await queue.sendScimCorrection(tx, workId, interruptedAfterSeconds),
  )
}
