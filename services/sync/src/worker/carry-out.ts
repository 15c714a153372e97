import { setTimeout as sleep } from 'node:timers/promises'
import type { Run } from '@postern/contracts'
import { ServiceUnavailableError } from '@postern/service-client'
import type { Logger } from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'
import { findConnector, findWithSecrets } from '../connector/store.ts'
import { datasetRules } from '../dataset/rules.ts'
import { ImportConflictError } from '../import/imports.ts'
import { excerptOf } from '../mapping/excerpt.ts'
import type { Outbound } from '../outbound/outbound.ts'
import type { Universe } from '../push/universe.ts'
import type { Attempt } from '../queue/queue.ts'
import { type RowError, insertErrors } from '../run/error-store.ts'
import { clearOldErrors, listOldRuns, recordCleared } from '../run/old-details.ts'
import { isFinal } from '../run/rules.ts'
import { openSecrets } from '../secret/open-secrets.ts'
import { SourceReadError, wordsOf } from '../source/source-read-error.ts'
import type { SourceLimits, SourceType } from '../source/types.ts'
import { clearEndedUploads, deleteAbandonedUploads, deleteUpload } from '../upload/store.ts'
import { applyChanges, assertNotStale, endApplied, endRun, stopApplying, usualPausesMs } from './apply.ts'
import {
  AssertionSource,
  RunLease,
  RunCancelledError,
  RunLostError,
  RunRefusedError,
  TenantSuspendedError,
} from './run-lease.ts'
import { compare, decidePlan, planRollback } from './plan.ts'
import { beginStaging, listHashes, sendUnseenHashes, stageSource } from './read-source.ts'
import { type TenantDb, advanceRun, acquireWork, releaseWork, takeOverRun } from './store.ts'
import { runWhileWanted } from './while-wanted.ts'

export interface WorkerParts {
  readonly workerDb: TenantDb
  readonly universe: Universe
  readonly sources: ReadonlyMap<string, SourceType>
  readonly outbound: Outbound
  readonly limits: SourceLimits
  readonly secretRing: KeyRing
  readonly logger: Logger
  readonly pausesMs?: readonly number[]
  readonly keepDetailsDays?: number | undefined
  /** How long to remove old details after a run. Default 20 s; the tenant's next run removes the rest. */
  readonly clearWithinMs?: number
  ended(status: Run['status']): void
}

/** Executes a run from where the previous attempt stopped. Rejects if the queue must retry. */
export async function carryOut(parts: WorkerParts, runId: string, attempt: Attempt): Promise<void> {
  const lease = await acquireRunLease(parts, runId)
  if (lease === undefined) return
  const { logger } = parts
  try {
    await continueRun(parts, lease, attempt)
  } catch (error) {
    if (error instanceof RunLostError || (error instanceof ImportConflictError && (await isLost(lease)))) {
      logger.warn({ event: 'sync_run_lost', run_id: runId })
      return
    }
    const end = endOf(error, attempt) ?? (await endOfCancelled(lease))
    if (end === undefined) {
      logger.warn({ event: 'sync_run_interrupted', run_id: runId, err: error })
      // If this fails too, the run is like that of a crashed worker.
      await lease
        .release(
          async (tx) => await insertErrors(tx, runId, error instanceof SourceReadError ? [toWarning(error)] : []),
        )
        .catch(() => undefined)
      throw error
    }
    await settle(parts, lease, attempt.isLast, attempt.signal)
    if (end.status === 'failed')
      logger.warn({ event: 'sync_run_failed', run_id: runId, code: end.failure.code, err: error })
    const isStopped = end.status === 'cancelled' || error instanceof TenantSuspendedError
    await endRun(lease, isStopped ? 'unknown' : 'fails', async (tx) => {
      if (error instanceof SourceReadError) await insertErrors(tx, runId, [toError(error)])
      return end
    })
    parts.ended(end.status)
    await cleanUp(parts, lease, attempt.signal)
    return
  }
  parts.ended(lease.status)
  logger.info({ event: 'sync_run_ended', run_id: runId, connector: lease.connector.key, counts: lease.counts })
  await cleanUp(parts, lease, attempt.signal)
}

export async function endLostRun(parts: WorkerParts, runId: string): Promise<void> {
  const lease = await acquireRunLease(parts, runId)
  if (lease === undefined) return
  const message = 'Every worker that began the run has died. What was applied stays; run the connector again.'
  await settle(parts, lease, true)
  await endRun(lease, 'fails', async () => ({ status: 'failed', failure: { code: 'worker_lost', message } }))
  parts.ended('failed')
  await cleanUp(parts, lease)
}

/**
 * Ends the import. If the universe is unavailable, a later attempt retries; the last attempt retries here and then leaves it open.
 */
async function settle(parts: WorkerParts, lease: RunLease, isLast: boolean, signal?: AbortSignal): Promise<void> {
  const { universe, logger, pausesMs = usualPausesMs } = parts
  for (const pauseMs of isLast ? [...pausesMs, undefined] : [undefined]) {
    try {
      return await stopApplying(lease, universe.imports)
    } catch (error) {
      const mayPass = error instanceof ServiceUnavailableError && pauseMs !== undefined
      if (!mayPass) {
        const isLeft = isLast && !(error instanceof RunLostError)
        logger.warn({
          event: isLeft ? 'sync_batch_in_doubt' : 'sync_run_interrupted',
          run_id: lease.run.id,
          err: error,
        })
        if (isLeft) return
        throw error
      }
      await sleep(pauseMs, undefined, signal === undefined ? {} : { signal })
    }
  }
}

/** Whether another worker has the run. */
async function isLost(lease: RunLease): Promise<boolean> {
  try {
    await lease.assertWanted()
  } catch (error) {
    return error instanceof RunLostError
  }
  return false
}

const retired = { code: 'connector_retired', message: 'The connector was retired before the run had begun.' }

async function acquireRunLease({ workerDb }: WorkerParts, runId: string): Promise<RunLease | undefined> {
  const worker = crypto.randomUUID()
  if (!(await workerDb.system(async (tx) => await acquireWork(tx, runId, worker)))) return undefined
  const assertions = new AssertionSource(workerDb, runId, worker)
  const found = await workerDb.write({ assertion: await assertions.get() }, async (tx) => {
    const run = await takeOverRun(tx, runId, worker)
    const connector = run === undefined ? undefined : await findConnector(tx, run.connectorId)
    if (run !== undefined && connector !== undefined) return { run, connector }
    if (run !== undefined)
      await advanceRun(tx, runId, worker, { status: 'failed', counts: run.counts, failure: retired })
    // It has ended, or waits for approval, which grants it again.
    await releaseWork(tx, runId, worker)
    return undefined
  })
  return found === undefined ? undefined : new RunLease(workerDb, assertions, worker, found.run, found.connector)
}

async function continueRun(parts: WorkerParts, lease: RunLease, { signal }: Attempt): Promise<void> {
  const { pausesMs } = parts
  const { imports } = parts.universe
  const { run } = lease
  await lease.assertNotSuspended()
  if (lease.status !== 'applying') {
    if (run.rollbackOf === null) await plan(parts, lease, signal)
    else await planRollback(lease, imports, run.rollbackOf)
  }
  if (lease.status === 'applying') {
    if (run.approved || run.rollbackOf !== null) await assertNotStale(lease, imports)
    await applyChanges(lease, imports, { signal, pausesMs })
    await endApplied(lease, imports)
  }
}

async function plan(parts: WorkerParts, lease: RunLease, signal: AbortSignal): Promise<void> {
  const { sources, outbound, limits, secretRing, logger } = parts
  const { imports } = parts.universe
  const { connector } = lease
  const source = sources.get(connector.type)
  if (source === undefined) throw new RunRefusedError('no_such_source', 'Connectors of this type cannot be run here.')
  const openable = await lease.read(async (tx) => await findWithSecrets(tx, connector.id))
  // The next attempt reads the connector and its secrets again.
  if (openable?.connector.version !== connector.version) throw new Error('the connector was changed at this moment')
  const { tenantId } = await lease.caller()
  const secrets = openSecrets(secretRing, { tenantId, connectorId: connector.id }, openable.sealed)
  const context = { config: connector.config, secrets, outbound, limits }
  const rules = datasetRules[connector.dataset]
  for (let isAgain = false; ; isAgain = true) {
    const before = await beginStaging(lease, imports)
    const known = isAgain ? new Set<string>() : await listHashes(lease, imports)
    const hashes = known.size === 0 ? null : known.size
    // A slow source writes nothing for long.
    const staged = await runWhileWanted(
      lease,
      signal,
      async (wanted) =>
        await stageSource(
          lease,
          imports,
          source,
          { ...context, signal: wanted },
          { rules, known, isFirst: before === 0 },
        ),
    )
    await sendUnseenHashes(lease, imports, known)
    const planned = await compare(lease, imports, hashes)
    if (planned !== undefined) {
      await decidePlan(lease, imports, planned, staged)
      return
    }
    if (isAgain) throw new Error('a source of which all rows were sent is not read again')
    logger.info({ event: 'sync_run_read_again', run_id: lease.run.id })
  }
}

type End =
  | { readonly status: 'cancelled' }
  | { readonly status: 'failed'; readonly failure: { readonly code: string; readonly message: string } }

/** A cancelled run ends now instead of waiting for the next attempt. */
async function endOfCancelled(lease: RunLease): Promise<End | undefined> {
  try {
    await lease.assertWanted()
  } catch (error) {
    if (error instanceof RunCancelledError) return { status: 'cancelled' }
  }
  return undefined
}

/** Returns how a run ends after an error, or undefined if it is retried. */
function endOf(error: unknown, { isLast, signal }: Attempt): End | undefined {
  if (error instanceof RunCancelledError) return { status: 'cancelled' }
  if (error instanceof RunRefusedError)
    return { status: 'failed', failure: { code: error.code, message: error.message } }
  if (error instanceof SourceReadError && (!error.retryable || isLast)) {
    return { status: 'failed', failure: { code: error.code, message: wordsOf(error) } }
  }
  if (!isLast || signal.aborted) return undefined
  const message = 'The run could not be carried out. What was applied stays; run the connector again later.'
  return { status: 'failed', failure: { code: 'interrupted', message } }
}

/** Errors of the whole source are listed among the errors of rows. */
function toError({ row, field, code, message }: SourceReadError): RowError {
  return { row: row ?? null, key: null, field: excerptOf(field), code, message, excerpt: null }
}

/** The next attempt deletes it. */
function toWarning(failure: SourceReadError): RowError {
  const error = toError(failure)
  return { ...error, message: `${error.message}. It is tried again`, severity: 'warning' }
}

const defaultClearWithinMs = 20_000

/** Deletes what an ended run no longer needs. Each transaction gets its own assertion. */
async function cleanUp(parts: WorkerParts, lease: RunLease, signal?: AbortSignal): Promise<void> {
  const { workerDb, logger } = parts
  const { run, connector } = lease
  try {
    for (let removed = 1; removed > 0;) {
      const { assertion } = await lease.caller()
      removed = await workerDb.write({ assertion }, async (tx) => await clearEndedUploads(tx, connector.id))
    }
    if (isFinal(lease.status)) await clearImport(parts, lease)
    await clearDetails(parts, lease, signal)
    const { assertion } = await lease.caller()
    await workerDb.write({ assertion }, async (tx) => {
      // Approval applies the planned changes, so the file is not read again.
      if (run.uploadId !== null) await deleteUpload(tx, run.uploadId)
      await deleteAbandonedUploads(tx)
      await releaseWork(tx, run.id, lease.worker)
    })
  } catch (error) {
    logger.warn({ event: 'sync_run_not_tidied', run_id: run.id, err: error })
  }
}

async function clearImport({ universe }: WorkerParts, lease: RunLease): Promise<void> {
  while (await universe.imports.clear(await lease.caller(), [lease.run.id], false));
}

/** A failure is logged and stops nothing else. */
async function clearDetails(
  { workerDb, logger, universe, keepDetailsDays, clearWithinMs = defaultClearWithinMs }: WorkerParts,
  lease: RunLease,
  signal?: AbortSignal,
): Promise<void> {
  if (keepDetailsDays === undefined) return
  const limit = AbortSignal.timeout(clearWithinMs)
  try {
    while (!limit.aborted && signal?.aborted !== true) {
      const caller = await lease.caller()
      const old = await workerDb.write(caller, async (tx) => await listOldRuns(tx, keepDetailsDays))
      if (old.length === 0) return
      const ids = old.map(({ id }) => id)
      const isClear = await workerDb.write(caller, async (tx) => await clearOldErrors(tx, ids))
      const looked = old.filter(({ isLookedAt }) => isLookedAt).map(({ id }) => id)
      const hasChanges = looked.length > 0 && (await universe.imports.clear(caller, looked, true))
      if (isClear && !hasChanges) await workerDb.write(caller, async (tx) => await recordCleared(tx, ids))
    }
  } catch (error) {
    logger.warn({ event: 'sync_details_not_cleared', run_id: lease.run.id, err: error })
  }
}
