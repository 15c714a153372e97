import { setTimeout as sleep } from 'node:timers/promises'
import { queueNames, queueSchema } from '@postern/contracts/internal'
import { type Logger, type Tracing, problem } from '@postern/service-kit'
import type { Servers } from '@postern/tenant-db'
import { type JobWithMetadata, PgBoss, type SendOptions } from 'pg-boss'

/** A job exists only after the commit. */
export interface JobTransaction {
  query(statement: {
    readonly text: string
    readonly values: readonly unknown[]
  }): Promise<{ [column: string]: unknown }[]>
}

export interface Attempt {
  /** Aborted when the queue assigns the job to another worker, or when this process stops. */
  readonly signal: AbortSignal
  readonly isLast: boolean
}

/** If a handler rejects, the queue retries the job with a growing delay. */
export interface JobHandlers {
  run(runId: string, attempt: Attempt): Promise<void>
  schedule(connectorId: string, due: Date): Promise<void>
  /** All attempts at the run were interrupted. */
  lost(runId: string): Promise<void>
  scimCorrection(workId: string): Promise<void>
}

export interface WebhookHandlers {
  feed(workId: string): Promise<void>
  send(endpointId: string, signal: AbortSignal): Promise<void>
}

export class QueueNotStartedError extends Error {
  override readonly name = 'QueueNotStartedError'
}

export interface Queue {
  isStarted(): boolean
  /** Rejects with a 503 problem if the queue does not start in time. */
  sendRun(tx: JobTransaction, tenantId: string, runId: string): Promise<void>
  sendSchedule(tx: JobTransaction, connectorId: string, due: Date): Promise<void>
  /** Nothing happens if such a job already waits. */
  sendWebhookFeed(tx: JobTransaction, workId: string, delaySeconds: number): Promise<void>
  sendWebhookDeliveries(tx: JobTransaction, tenantId: string, endpointId: string): Promise<void>
  /** Nothing happens if such a job already waits. */
  sendScimCorrection(tx: JobTransaction, workId: string, delaySeconds: number): Promise<void>
  /** Makes the workers of this process poll now; others poll soon. */
  wake(work?: Work): void
  /** Starts the workers. No tenant can occupy all of them if there are at least two. */
  work(workers: number, handlers: JobHandlers): Promise<void>
  /** `workers`: endpoints that this process serves at a time, half of them of one tenant. Each occupies one worker at most. */
  workWebhooks(workers: number, handlers: WebhookHandlers): Promise<void>
  /** Running jobs continue, and jobs can still be enqueued. */
  stopPolling(): Promise<void>
  close(): Promise<void>
}

export interface QueueOptions {
  readonly servers: Servers
  readonly pollMs: number
  readonly logger: Logger
  readonly tracing?: Tracing | undefined
}

type Work = keyof typeof queueNames

interface JobData {
  readonly id: string
  /** Of a schedule. */
  readonly due?: string
}

/** Names of spans. */
const spans: Readonly<Record<Work, string>> = {
  run: 'sync run',
  schedule: 'sync schedule',
  lost: 'sync lost run',
  webhookFeed: 'sync webhook feed',
  webhookSend: 'sync webhook deliveries',
  scimCorrection: 'sync SCIM correction',
}

const dayInSeconds = 86_400
/** Each job of a schedule enqueues the next one, so it is retried for more than a year. */
const scheduleRetries = 60_000
const scheduleKeptDays = 400
const startAgainMs = 1_000
/** How long a request waits for the queue. Shorter than idle_in_transaction_session_timeout. */
const startTimeoutMs = 5_000
const connectTimeoutMs = 2_000
/** Longer than the role's statement_timeout (5 s), whose error is more useful. */
const queryTimeoutMs = 10_000
/** How long running jobs may go on after the stop of polling. The queue retries interrupted jobs. */
const stopTimeoutMs = 20_000
const minStopTimeoutMs = 1_000

export function openQueue({ servers, pollMs, logger, tracing }: QueueOptions): Queue {
  const seconds = Math.max(1, Math.round(pollMs / 1000))
  // pg-boss passes them to pg, although its types lack some.
  const connection = {
    Client: servers.Client,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: queryTimeoutMs,
    keepAlive: true,
  }
  const boss = new PgBoss({
    ...connection,
    application_name: 'postern-sync-queue',
    max: 3,
    schema: queueSchema,
    migrate: false,
    createSchema: false,
    schedule: false,
    superviseIntervalSeconds: seconds,
    monitorIntervalSeconds: seconds,
    reindex: false,
    monitorVacuum: false,
    // The queue's list of processes is not used.
    registerInstance: false,
  })
  boss.on('error', (error) => logger.warn({ event: 'queue_failed', err: error }))
  boss.on('warning', () => undefined)
  const stopping = new AbortController()
  let isStarted = false
  let stoppedPollingAt: number | undefined
  const started = startWithRetries(boss, logger, stopping.signal).then(() => {
    isStarted = !stopping.signal.aborted
  })
  const startedInTime = async (): Promise<void> => {
    if (isStarted) return
    await Promise.race([started, sleep(startTimeoutMs, undefined, { ref: false })])
    if (isStarted) return
    throw problem('service_unavailable', {
      detail: 'Work cannot be queued now. Try again in a moment.',
      retryAfterSeconds: 5,
      cause: new QueueNotStartedError(),
    })
  }
  const stopWorkers = async (): Promise<void> => {
    await Promise.all(Object.values(queueNames).map(async (name) => await boss.offWork(name, { wait: false })))
  }
  const send = async (tx: JobTransaction, work: Work, data: JobData, options: SendOptions): Promise<void> => {
    await startedInTime()
    await boss.send(queueNames[work], data, { ...options, db: asExecutor(tx) })
  }
  const listen = async (
    work: Work,
    handle: (job: JobWithMetadata<JobData>) => Promise<void>,
    concurrency: { readonly localConcurrency?: number; readonly localGroupConcurrency?: number } = {},
  ): Promise<void> => {
    const pollingIntervalSeconds = Math.max(0.5, pollMs / 1000)
    const options = { pollingIntervalSeconds, includeMetadata: true, batchSize: 1, ...concurrency } as const
    await boss.work<JobData, undefined, typeof options>(queueNames[work], options, async ([job]) => {
      if (job === undefined) return undefined
      const handling = async (): Promise<void> => await handle(job)
      const attempt = tracing?.trace(spans[work], { 'postern.job_id': job.data.id }, handling) ?? handling()
      // The queue would store the error in a row without a tenant; the log has it.
      await attempt.catch(() => Promise.reject(new Error('the attempt has failed')))
      return undefined
    })
  }
  const startWorkers = async (workers: number, start: () => Promise<void>): Promise<void> => {
    await started
    if (workers === 0 || stopping.signal.aborted || stoppedPollingAt !== undefined) return
    await start()
    // Some workers may have started after `stopPolling` was called.
    if (stoppedPollingAt !== undefined) await stopWorkers()
  }
  return {
    isStarted: () => isStarted,
    sendRun: async (tx, tenantId, runId) => await send(tx, 'run', { id: runId }, { group: { id: tenantId } }),
    sendSchedule: async (tx, connectorId, due) => {
      const waits = Math.max(0, Math.ceil((due.getTime() - Date.now()) / 1000))
      await send(
        tx,
        'schedule',
        { id: connectorId, due: due.toISOString() },
        {
          startAfter: due,
          retryLimit: scheduleRetries,
          retentionSeconds: waits + scheduleKeptDays * dayInSeconds,
        },
      )
    },
    sendWebhookFeed: async (tx, id, startAfter) =>
      await send(tx, 'webhookFeed', { id }, { singletonKey: id, startAfter }),
    sendWebhookDeliveries: async (tx, tenantId, id) =>
      await send(tx, 'webhookSend', { id }, { singletonKey: id, group: { id: tenantId } }),
    sendScimCorrection: async (tx, id, startAfter) =>
      await send(tx, 'scimCorrection', { id }, { singletonKey: id, startAfter }),
    wake: (work = 'run') => {
      for (const { id, name } of boss.getWipData()) if (name === queueNames[work]) boss.notifyWorker(id)
    },
    work: async (workers, handlers) =>
      await startWorkers(workers, async () => {
        await listen(
          'run',
          async ({ data, signal, retryCount, retryLimit }) =>
            await handlers.run(data.id, { signal, isLast: retryCount >= retryLimit }),
          // The limit for one tenant in this process, because processes do not know each other's workers.
          { localConcurrency: workers, localGroupConcurrency: Math.max(1, workers - 1) },
        )
        await listen('schedule', async ({ data }) => await handlers.schedule(data.id, new Date(data.due ?? '')))
        await listen('lost', async ({ data }) => await handlers.lost(data.id))
        await listen('scimCorrection', async ({ data }) => await handlers.scimCorrection(data.id))
      }),
    workWebhooks: async (workers, handlers) =>
      await startWorkers(workers, async () => {
        await listen('webhookFeed', async ({ data }) => await handlers.feed(data.id), { localConcurrency: 2 })
        await listen('webhookSend', async ({ data, signal }) => await handlers.send(data.id, signal), {
          localConcurrency: workers,
          // Receivers that answer slowly would delay the events of other tenants.
          localGroupConcurrency: Math.max(1, Math.floor(workers / 2)),
        })
      }),
    stopPolling: async () => {
      stoppedPollingAt ??= performance.now()
      await stopWorkers()
    },
    close: async () => {
      stopping.abort()
      await started
      const elapsedMs = stoppedPollingAt === undefined ? 0 : performance.now() - stoppedPollingAt
      await boss.stop({ graceful: true, timeout: Math.max(minStopTimeoutMs, stopTimeoutMs - elapsedMs) })
    },
  }
}

async function startWithRetries(boss: PgBoss, logger: Logger, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await boss.start()
      return
    } catch (error) {
      logger.warn({ event: 'queue_not_started', err: error })
      await sleep(startAgainMs, undefined, { signal }).catch(() => undefined)
    }
  }
}

function asExecutor(tx: JobTransaction) {
  return {
    executeSql: async (text: string, values: unknown[] = []) => ({ rows: await tx.query({ text, values }) }),
  }
}
