import type { Logger } from '@postern/service-kit'
import type { Queue } from '../../queue/queue.ts'
import type { TenantDb } from '@postern/tenant-db'
import {
  findBounds,
  insertDeliveries,
  insertEvents,
  listDueEndpoints,
  listSubscribers,
  lockFeed,
  moveFeed,
  assignChangePositions,
  pruneOldEvents,
  readFeed as readChanges,
} from './store.ts'
import { planDeliveries } from '../rules.ts'
import { openWorkerSession } from '../../granted-work/session.ts'

export interface FeedParts {
  readonly db: TenantDb
  readonly queue: Queue
  readonly logger: Logger
}

const feedEverySeconds = 1
const suspendedEverySeconds = 60
const eventsAtOnce = 500
const maxRounds = 20

/**
 * Turns new changes into deliveries and queues the next call, in one transaction: a crash neither loses nor repeats an
 * event.
 */
export async function readFeed(parts: FeedParts, workId: string): Promise<void> {
  const { db, queue } = parts
  const session = await openWorkerSession(db, workId)
  if (session === undefined) return
  if (session.isSuspended) {
    const tenant = { assertion: await session.assertion() }
    await db.write(tenant, async (tx) => await queue.sendWebhookFeed(tx, workId, suspendedEverySeconds))
    return
  }
  for (let round = 0; round < maxRounds; round++) {
    const outcome = await readRound(parts, workId, {
      tenantId: session.tenantId,
      assertion: await session.assertion(),
    })
    if (outcome === 'end') return
  }
}

async function readRound(
  { db, queue, logger }: FeedParts,
  workId: string,
  { tenantId, assertion }: { readonly tenantId: string; readonly assertion: string },
): Promise<'end' | 'more'> {
  const { hasUnplaced } = await db.write({ assertion }, findBounds)
  if (hasUnplaced) await db.write({ assertion }, assignChangePositions)
  let isDue = false
  const outcome = await db.write({ assertion }, async (tx) => {
    const feed = await lockFeed(tx)
    const subscribers = await listSubscribers(tx)
    // The next endpoint that is enabled starts the feed again.
    if (feed === undefined || subscribers.length === 0) return 'end'
    const { last, pruned } = await findBounds(tx)
    const isBehind = BigInt(feed.position) < BigInt(pruned)
    if (isBehind) logger.warn({ event: 'webhook_events_expired', work_id: workId, position: feed.position, pruned })
    const from = isBehind ? { position: pruned, ordinal: null } : feed
    const { changes, next, isCut } = await readChanges(tx, from, last, eventsAtOnce)
    const { events, deliveriesOf } = planDeliveries(changes, subscribers)
    await insertDeliveries(tx, deliveriesOf(await insertEvents(tx, events)))
    if (next.position !== feed.position || next.ordinal !== feed.ordinal) await moveFeed(tx, next)
    const due = await listDueEndpoints(tx)
    for (const endpointId of due) await queue.sendWebhookDeliveries(tx, tenantId, endpointId)
    isDue = due.length > 0
    const isMoreLeft = feed.isPruneDue && (await pruneOldEvents(tx))
    await queue.sendWebhookFeed(tx, workId, feedEverySeconds)
    return isCut || isMoreLeft ? 'more' : 'end'
  })
  if (isDue) queue.wake('webhookSend')
  return outcome
}
