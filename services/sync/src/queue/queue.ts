import { setTimeout as sleep } from 'node:timers/promises'
import { queueNames, queueSchema } from '@postern/contracts/internal'
import { type Logger, problem } from '@postern/service-kit'
import type { Servers } from '@postern/tenant-db'
import { PgBoss } from 'pg-boss'

/** A transaction that a job can be put into: it is there once the transaction is committed, or never. */
export interface JobTransaction {
  query(statement: {
    readonly text: string
    readonly values: readonly unknown[]
  }): Promise<{ [column: string]: unknown }[]>
}

/** One attempt at a job. */
export interface Attempt {
  /** Ends when the queue gives the job to somebody else, or this process stops. */
  readonly signal: AbortSignal
  /** Whether the queue gives the job out again when this attempt fails. */
  readonly isLast: boolean
}

/** What is to be done for each kind of job. A rejection has the job given out again, later and later. */
export interface JobHandlers {
  run(runId: string, attempt: Attempt): Promise<void>
  schedule(connectorId: string, due: Date): Promise<void>
  /** No attempt at the run has come to its end. */
  lost(runId: string): Promise<void>
}

/** Jobs can be neither put in nor taken out yet. */
export class QueueNotStarted extends Error {
  override readonly name = 'QueueNotStarted'
}

/** The queue of background work, in PostgreSQL. */
export interface Queue {
  /** Whether it takes jobs. */
  isStarted(): boolean
  /** Has a run of a tenant carried out. Rejects with a 503 problem where the queue does not start in time. */
  sendRun(tx: JobTransaction, tenantId: string, runId: string): Promise<void>
  /** Has a schedule looked at when it is due. */
  sendSchedule(tx: JobTransaction, connectorId: string, due: Date): Promise<void>
  /** Has the workers of this process look for jobs now; those of others look soon. */
  wake(): void
  /** Starts so many workers; no tenant has all of them, where there are two or more. */
  work(workers: number, handlers: JobHandlers): Promise<void>
  /** Looks for no more jobs; those under way go on, with what a look under way still brings, and others can be put in. */
  takeNoMore(): Promise<void>
  /** Looks for no more jobs, and waits for those under way. */
  close(): Promise<void>
}

export interface QueueOptions {
  /** Of the database. */
  readonly servers: Servers
  /** How often a worker looks for jobs, and for workers that have died. Milliseconds. */
  readonly pollMs: number
  readonly logger: Logger
}

const dayInSeconds = 86_400
/**
 * Each time of a schedule is made by the one before: a job that is given up ends the schedule, and nobody would see it. It is tried every ten
 * minutes in the end, for more than a year, and waits as long for a worker.
 */
const scheduleRetries = 60_000
const scheduleKeptDays = 400
const startAgainMs = 1_000
/** How long a request waits for the queue to start. Less than PostgreSQL lets its transaction stand idle. */
const startWithinMs = 5_000
const connectTimeoutMs = 2_000
/** More than the statement_timeout of the role (5 s): PostgreSQL's own answer is the better one. */
const queryTimeoutMs = 10_000
/**
 * How long jobs may go on when the process is to stop, in milliseconds; the queue gives out again what is cut off. Counted from when no more
 * are looked for: requests that are under way, for which the process waits in between, must not take the time in which the queue is told.
 */
const stopWithinMs = 20_000
const leastStopMs = 1_000

/** Opens the queue. Its tables are made by `postern migrate`: this process may not change a schema. */
export function openQueue({ servers, pollMs, logger }: QueueOptions): Queue {
  const seconds = Math.max(1, Math.round(pollMs / 1000))
  // Handed on to pg as they are, though the types of pg-boss name less.
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
    // Nobody reads the list of processes that the queue keeps.
    registerInstance: false,
  })
  boss.on('error', (error) => logger.warn({ event: 'queue_failed', err: error }))
  boss.on('warning', () => undefined)
  const stopping = new AbortController()
  let isStarted = false
  let takesNoMoreSince: number | undefined
  const started = startInTheEnd(boss, logger, stopping.signal).then(() => {
    isStarted = !stopping.signal.aborted
  })
  const startedInTime = async (): Promise<void> => {
    if (isStarted) return
    await Promise.race([started, sleep(startWithinMs, undefined, { ref: false })])
    if (isStarted) return
    throw problem('service_unavailable', {
      detail: 'Runs cannot be queued now. Try again in a moment.',
      retryAfterSeconds: 5,
      cause: new QueueNotStarted(),
    })
  }
  const stopTaking = async (): Promise<void> => {
    await Promise.all(Object.values(queueNames).map(async (name) => await boss.offWork(name, { wait: false })))
  }
  return {
    isStarted: () => isStarted,
    sendRun: async (tx, tenantId, runId) => {
      await startedInTime()
      await boss.send(queueNames.run, { id: runId }, { group: { id: tenantId }, db: within(tx) })
    },
    sendSchedule: async (tx, connectorId, due) => {
      const waits = Math.max(0, Math.ceil((due.getTime() - Date.now()) / 1000))
      const options = {
        startAfter: due,
        retryLimit: scheduleRetries,
        retentionSeconds: waits + scheduleKeptDays * dayInSeconds,
        db: within(tx),
      }
      await startedInTime()
      await boss.send(queueNames.schedule, { id: connectorId, due: due.toISOString() }, options)
    },
    wake: () => {
      for (const { id, name } of boss.getWipData()) if (name === queueNames.run) boss.notifyWorker(id)
    },
    work: async (workers, handlers) => {
      await started
      if (stopping.signal.aborted || takesNoMoreSince !== undefined) return
      const options = {
        pollingIntervalSeconds: Math.max(0.5, pollMs / 1000),
        includeMetadata: true,
        batchSize: 1,
      } as const
      if (workers === 0) return
      const shared = {
        ...options,
        localConcurrency: workers,
        // Of a tenant, in this process, because no process knows how many workers the others have.
        localGroupConcurrency: Math.max(1, workers - 1),
      } as const
      await boss.work<{ id: string }, undefined, typeof shared>(queueNames.run, shared, async ([job]) => {
        if (job === undefined) return undefined
        const isLast = job.retryCount >= job.retryLimit
        await orNameless(handlers.run(job.data.id, { signal: job.signal, isLast }))
        return undefined
      })
      await boss.work<{ id: string; due: string }, undefined, typeof options>(
        queueNames.schedule,
        options,
        async ([job]) => {
          if (job !== undefined) await orNameless(handlers.schedule(job.data.id, new Date(job.data.due)))
          return undefined
        },
      )
      await boss.work<{ id: string }, undefined, typeof options>(queueNames.lost, options, async ([job]) => {
        if (job !== undefined) await orNameless(handlers.lost(job.data.id))
        return undefined
      })
      // Who is asked to take no more amid this finds some of the workers alone.
      if (takesNoMoreSince !== undefined) await stopTaking()
    },
    takeNoMore: async () => {
      takesNoMoreSince ??= performance.now()
      await stopTaking()
    },
    close: async () => {
      stopping.abort()
      await started
      const goneMs = takesNoMoreSince === undefined ? 0 : performance.now() - takesNoMoreSince
      await boss.stop({ graceful: true, timeout: Math.max(leastStopMs, stopWithinMs - goneMs) })
    },
  }
}

/** Starts as soon as the database can be had: a service that starts before it waits, and answers what needs no queue. */
async function startInTheEnd(boss: PgBoss, logger: Logger, signal: AbortSignal): Promise<void> {
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

/**
 * The queue keeps what a job has failed with, where no row belongs to a tenant: what a source has said, and its rows with it, must
 * not be there. The log has said it.
 */
async function orNameless(work: Promise<void>): Promise<void> {
  let isDone = false
  try {
    await work
    isDone = true
  } catch {
    // What there is to say stands in the run, and in the log.
  }
  if (!isDone) throw new Error('the attempt has failed')
}

function within(tx: JobTransaction) {
  return {
    executeSql: async (text: string, values: unknown[] = []) => ({ rows: await tx.query({ text, values }) }),
  }
}
