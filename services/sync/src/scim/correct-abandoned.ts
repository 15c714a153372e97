import { ServiceUnavailableError } from '@postern/service-client'
import { type Logger, ProblemError } from '@postern/service-kit'
import type { Universe } from '../push/universe.ts'
import type { Queue } from '../queue/queue.ts'
import { interruptedAfterSeconds } from '../run/rules.ts'
import type { TenantDb } from '@postern/tenant-db'
import { openWorkerSession } from '../granted-work/session.ts'
import { correctUniverse } from './correct-universe.ts'
import { deletePendingPushes, insertPendingPush, listPendingPushes } from './pending-store.ts'
import type { Sender } from './push-to-universe.ts'

interface CorrectionParts {
  readonly db: TenantDb
  readonly universe: Universe
  readonly queue: Queue
  readonly logger: Logger
}

/** Pushes that one call corrects, so that other tenants are served in between. */
const maxPushes = 100
const unavailableEverySeconds = 30

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
    await db.write(
      (await senderOf()).context,
      async (tx) => await listPendingPushes(tx, { abandonedAfterSeconds: interruptedAfterSeconds, limit: maxPushes }),
    )
  const queueNext = async (delaySeconds: number) =>
    await db.write((await senderOf()).context, async (tx) => await queue.sendScimCorrection(tx, workId, delaySeconds))

  const abandoned = session.isSuspended ? [] : (await list()).filter(({ isAbandoned }) => isAbandoned)
  for (const { id, isAbandoned: _isAbandoned, ...push } of abandoned) {
    const sender = await senderOf()
    let isCorrected = true
    try {
      await correctUniverse(parts, sender, { ...push, pushed: push.pushed === null ? [] : [push.pushed] })
    } catch (error) {
      logger.warn({ event: 'scim_correction_failed', request_id: workId, err: error })
      if (isUnavailable(error)) {
        await queueNext(unavailableEverySeconds)
        return
      }
      isCorrected = false
    }
    await db.write(sender.context, async (tx) => {
      await deletePendingPushes(tx, [id])
      // Behind the others, which it must not block.
      if (!isCorrected) await insertPendingPush(tx, push)
    })
  }
  if (abandoned.length === maxPushes) await queueNext(0)
  else if ((await list()).length > 0) await queueNext(interruptedAfterSeconds)
}

function isUnavailable(error: unknown): boolean {
  if (error instanceof ServiceUnavailableError) return true
  return error instanceof ProblemError && error.code === 'service_unavailable'
}
