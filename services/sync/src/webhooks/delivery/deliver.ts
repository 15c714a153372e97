import { isSubscribed, webhookRetryDays } from '@postern/contracts'
import { type Logger, repeatEvery } from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'
import type { Outbound } from '../../outbound/outbound.ts'
import type { Universe } from '../../push/universe.ts'
import { SealError } from '../../secret/seal.ts'
import type { TenantDb } from '@postern/tenant-db'
import {
  type Outcome,
  type Target,
  findTarget,
  listDue,
  recordFailure,
  recordSuccess,
  pauseEndpoint,
  recordOutcomes,
} from './store.ts'
import { recordEndpointEvent } from '../endpoint/store.ts'
import { endUnreadFeed, insertDeliveries, insertEvents, listSubscribers } from '../feed/store.ts'
import type { WebhookMetrics } from '../metrics.ts'
import { type DueDelivery, bodyOf, endpointPauseSeconds, isGivenUp, recipientsOf, retryInSeconds } from '../rules.ts'
import { findKeyOwner } from './key-owner.ts'
import { type Mailer, createMailSender } from './mail.ts'
import { type SendResult, type Sender, createSender } from './send.ts'
import { openSigners } from '../sign.ts'
import { type WorkerSession, openWorkerSession } from '../../granted-work/session.ts'

export interface DeliveryParts {
  readonly db: TenantDb
  readonly outbound: Outbound
  readonly universe: Universe
  readonly secretRing: KeyRing
  readonly apiUrl: string | undefined
  readonly mailer: Mailer | undefined
  readonly logger: Logger
  readonly metrics: WebhookMetrics
  readonly timeoutMs?: number
}

const batch = 100
/** Requests to one endpoint at a time. */
const concurrency = 8
const sliceMs = 20_000
const suspensionCheckMs = 1000
const defaultTimeoutMs = 10_000

const system = { type: 'system', id: 'webhooks', label: 'Postern' } as const

/** Sends what is due to an endpoint. A crash before the outcome is stored sends it again with the same id. */
export async function deliver(parts: DeliveryParts, endpointId: string, signal: AbortSignal): Promise<void> {
  const session = await openWorkerSession(parts.db, endpointId)
  if (session === undefined || session.isSuspended) return
  const suspension = watchSuspension(session)
  try {
    await sendDue(parts, session, endpointId, AbortSignal.any([signal, suspension.signal]))
  } finally {
    await suspension.stop()
  }
}

async function sendDue(
  parts: DeliveryParts,
  session: WorkerSession,
  endpointId: string,
  signal: AbortSignal,
): Promise<void> {
  const { db, outbound, secretRing, timeoutMs = defaultTimeoutMs } = parts
  const { tenantId } = session
  const read = async <T>(work: Parameters<typeof db.write<T>>[1]): Promise<T> =>
    await db.write({ assertion: await session.assertion() }, work)
  const target = await read(async (tx) => await findTarget(tx, endpointId))
  if (target === undefined) return
  const endpoint = { endpointId, tenantId, failures: target.failures }
  const signers = findSigners(secretRing, endpoint, target)
  if (signers === undefined) {
    const failure = { error: 'The secret cannot be decrypted any more. Replace it.', status: null }
    await read(async (tx) => await recordEndpointFailure(parts, tx, endpoint, failure))
    return
  }
  const recipients = recipientsOf(target.url)
  const owners = { db, universe: parts.universe, session }
  const sender =
    recipients === undefined
      ? createSender(outbound, { url: target.url, ca: target.ca, signers, timeoutMs, signal })
      : createMailSender(parts.mailer, {
          recipientOf: async (delivery) =>
            recipients.kind === 'addresses' ? recipients : await findKeyOwner(owners, target.events, delivery),
          apiUrl: parts.apiUrl,
          signal,
        })
  const until = performance.now() + sliceMs
  try {
    let isWorking = true
    while (isWorking && !signal.aborted && performance.now() < until) {
      const due = await read(async (tx) => await listDue(tx, endpointId, batch))
      if (due.length === 0) return
      const sent = await sendBatch(parts, due, sender.send, until)
      isWorking = await read(async (tx) => {
        await recordOutcomes(
          tx,
          endpointId,
          sent.map(({ outcome }) => outcome),
        )
        return await recordEndpoint(parts, tx, endpoint, sent)
      })
    }
  } finally {
    await sender.close()
  }
}

/** Aborts `signal` within two seconds of a suspension. */
function watchSuspension({ checkSuspended }: WorkerSession): {
  readonly signal: AbortSignal
  stop(): Promise<void>
} {
  const suspended = new AbortController()
  const { stop } = repeatEvery(suspensionCheckMs, async () => {
    try {
      if (await checkSuspended()) suspended.abort()
    } catch {
      // PostgreSQL is away: the next check decides.
    }
  })
  return { signal: suspended.signal, stop }
}

/** Undefined if no secret can be decrypted. During an overlap, one is enough. */
function findSigners(
  ring: KeyRing,
  endpoint: Parameters<typeof openSigners>[1],
  { secrets }: Target,
): ReturnType<typeof openSigners> | undefined {
  const signers = secrets.flatMap((secret) => {
    try {
      return openSigners(ring, endpoint, [secret])
    } catch (error) {
      if (error instanceof SealError) return []
      throw error
    }
  })
  return signers.length === 0 ? undefined : signers
}

const faultOfPostern: SendResult = {
  status: null,
  durationMs: 0,
  error: 'Postern could not send the event. It tries again.',
  answer: null,
  ownState: 'pending',
}

interface Sent {
  readonly delivery: DueDelivery
  readonly outcome: Outcome
  readonly result: SendResult
}

/** Starts no more requests after a failure of the endpoint without a success, or when the time is over. */
async function sendBatch(
  { apiUrl, metrics, logger }: Pick<DeliveryParts, 'apiUrl' | 'metrics' | 'logger'>,
  due: readonly DueDelivery[],
  send: Sender['send'],
  until: number,
): Promise<readonly Sent[]> {
  const sent: Sent[] = []
  const waiting = due.values()
  const mayStart = (): boolean =>
    performance.now() < until &&
    (sent.every(({ result }) => result.ownState !== undefined) || sent.some(({ result }) => result.error === null))
  const work = async (): Promise<void> => {
    while (mayStart()) {
      const { value: delivery } = waiting.next()
      if (delivery === undefined) return
      const result = await send(delivery, bodyOf(delivery, apiUrl)).catch((error: unknown): SendResult => {
        // The outcomes of the others are recorded, so that they are not sent again.
        logger.error({ event: 'webhook_send_failed', event_id: delivery.eventId, err: error })
        return faultOfPostern
      })
      if (result === undefined) return
      const outcome = outcomeOf(delivery, result)
      metrics.attempted(outcome.state, delivery)
      sent.push({ delivery, outcome, result })
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, due.length) }, work))
  return sent
}

function outcomeOf(delivery: DueDelivery, { status, durationMs, error, answer, ownState }: SendResult): Outcome {
  const again = isGivenUp(delivery, new Date()) ? 'failed' : 'pending'
  const failed = ownState === undefined || ownState === 'pending' ? again : ownState
  return {
    eventId: delivery.eventId,
    state: error === null ? 'delivered' : failed,
    nextInSeconds: retryInSeconds(delivery.attempts + 1),
    status,
    durationMs,
    error,
    answer,
  }
}

const gone = 410

type Tx = Parameters<typeof recordSuccess>[0]

interface Endpoint {
  readonly endpointId: string
  readonly tenantId: string
  /** In a row, before this attempt. */
  readonly failures: number
}

/** Returns whether the endpoint works. */
async function recordEndpoint(
  parts: Pick<DeliveryParts, 'logger' | 'metrics'>,
  tx: Tx,
  endpoint: Endpoint,
  sent: readonly Sent[],
): Promise<boolean> {
  if (sent.some(({ result }) => result.error === null)) return await recordSuccess(tx, endpoint.endpointId)
  const last = sent.findLast(({ result }) => result.ownState === undefined)?.result
  if (last === undefined || last.error === null) return sent.length > 0
  await recordEndpointFailure(parts, tx, endpoint, { error: last.error, status: last.status })
  return false
}

/** Pauses the endpoint if it is gone, or has failed for days. */
async function recordEndpointFailure(
  { logger, metrics }: Pick<DeliveryParts, 'logger' | 'metrics'>,
  tx: Tx,
  { endpointId, tenantId, failures }: Endpoint,
  { error, status }: { readonly error: string; readonly status: number | null },
): Promise<void> {
  const isFinal = await recordFailure(tx, endpointId, {
    retryInSeconds: endpointPauseSeconds(failures),
    error,
    giveUpAfterDays: webhookRetryDays,
  })
  logger.info({ event: 'webhook_failed', endpoint_id: endpointId, tenant_id: tenantId, status })
  if (!isFinal && status !== gone) return
  if (!(await pauseEndpoint(tx, endpointId))) return
  await recordEndpointEvent(tx, endpointId, 'paused', system, { error })
  await notifyOthers(tx, endpointId)
  await endUnreadFeed(tx)
  metrics.paused()
  logger.warn({ event: 'webhook_paused', endpoint_id: endpointId, tenant_id: tenantId, status })
}

/** Tells administrators at the other endpoints that this one was paused. */
async function notifyOthers(tx: Tx, endpointId: string): Promise<void> {
  const type = 'webhook.paused'
  const others = (await listSubscribers(tx)).filter(({ id, events }) => id !== endpointId && isSubscribed(events, type))
  if (others.length === 0) return
  const [eventId = ''] = await insertEvents(tx, [
    { type, resourceId: endpointId, version: null, committedAt: new Date() },
  ])
  await insertDeliveries(
    tx,
    others.map(({ id }) => ({ endpointId: id, eventId, resourceId: endpointId })),
  )
}
