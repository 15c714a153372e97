import { setTimeout as sleep } from 'node:timers/promises'
import type { Run } from '@postern/contracts'
import { ServiceUnavailableError } from '@postern/service-client'
import type { KeyRing } from '@postern/signed-context'
import { findConnector, findWithSecrets } from '../connector/store.ts'
import { datasetRules } from '../dataset/rules.ts'
import { ImportConflictError } from '../import/imports.ts'
import { excerptOf } from '../mapping/excerpt.ts'
import type { Outbound } from '../outbound/outbound.ts'
import type { Attempt } from '../queue/queue.ts'
import { type RowError, insertErrors } from '../run/error-store.ts'
import { openSecrets } from '../secret/open-secrets.ts'
import { SourceReadError, describeFailure } from '../source/source-read-error.ts'
import type { SourceLimits, SourceType } from '../source/types.ts'
import { type CleanUpParts, cleanUp } from './clean-up.ts'
import { applyChanges, assertNotStale, endApplied, endRun, stopApplying, defaultPausesMs } from './apply.ts'
import { RunLease, RunCancelledError, RunLostError, RunRefusedError, TenantSuspendedError } from './run-lease.ts'
import { compare, decidePlan, planRollback } from './plan.ts'
import { beginStaging, listHashes, sendUnseenHashes, stageSource } from './read-source.ts'
import { advanceRun, takeOverRun } from './store.ts'
import { runWhileWanted } from './while-wanted.ts'
import { AssertionSource } from '../granted-work/session.ts'
import { acquireWork, releaseWork } from '../granted-work/store.ts'

export interface WorkerParts extends CleanUpParts {
  readonly sources: ReadonlyMap<string, SourceType>
  readonly outbound: Outbound
  readonly limits: SourceLimits
  readonly secretRing: KeyRing
  readonly pausesMs?: readonly number[]
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
    const end = endAfter(error, attempt) ?? (await endIfCancelled(lease))
    if (end === undefined) {
      logger.warn({ event: 'sync_run_interrupted', run_id: runId, err: error })
      // If this fails too, another worker takes the run over as after a crash.
      await lease
        .release(
          async (tx) => await insertErrors(tx, runId, error instanceof SourceReadError ? [toWarning(error)] : []),
        )
        .catch(() => undefined)
      throw error
    }
    await stopImport(parts, lease, attempt.isLast, attempt.signal)
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
  const message = 'Every worker that carried out the run has died. Applied changes stay. Run the connector again.'
  await stopImport(parts, lease, true)
  await endRun(lease, 'fails', async () => ({ status: 'failed', failure: { code: 'worker_lost', message } }))
  parts.ended('failed')
  await cleanUp(parts, lease)
}

/**
 * Stops the import at the universe. If the universe is unavailable, a later attempt retries. The last attempt retries here, and then
 * leaves the import as it is.
 */
async function stopImport(parts: WorkerParts, lease: RunLease, isLast: boolean, signal?: AbortSignal): Promise<void> {
  const { universe, logger, pausesMs = defaultPausesMs } = parts
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

async function isLost(lease: RunLease): Promise<boolean> {
  try {
    await lease.assertWanted()
  } catch (error) {
    return error instanceof RunLostError
  }
  return false
}

const retired = { code: 'connector_retired', message: 'The connector was retired before the run began.' }

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
  if (openable?.connector.version !== connector.version) throw new Error('the connector was changed when the run began')
  const { tenantId } = await lease.caller()
  const secrets = openSecrets(secretRing, { tenantId, connectorId: connector.id }, openable.sealed)
  const context = { config: connector.config, secrets, outbound, limits }
  const rules = datasetRules[connector.dataset]
  for (let isAgain = false; ; isAgain = true) {
    const before = await beginStaging(lease, imports)
    const known = isAgain ? new Set<string>() : await listHashes(lease, imports)
    const hashes = known.size === 0 ? null : known.size
    // While a slow source sends nothing, no step would notice that the run is lost or cancelled.
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
    if (isAgain) throw new Error('the universe asked again for rows that it was sent')
    logger.info({ event: 'sync_run_read_again', run_id: lease.run.id })
  }
}

type End =
  | { readonly status: 'cancelled' }
  | { readonly status: 'failed'; readonly failure: { readonly code: string; readonly message: string } }

/** A cancelled run ends now instead of waiting for the next attempt. */
async function endIfCancelled(lease: RunLease): Promise<End | undefined> {
  try {
    await lease.assertWanted()
  } catch (error) {
    if (error instanceof RunCancelledError) return { status: 'cancelled' }
  }
  return undefined
}

/** Returns how a run ends after an error, or undefined if it is retried. */
function endAfter(error: unknown, { isLast, signal }: Attempt): End | undefined {
  if (error instanceof RunCancelledError) return { status: 'cancelled' }
  if (error instanceof RunRefusedError)
    return { status: 'failed', failure: { code: error.code, message: error.message } }
  if (error instanceof SourceReadError && (!error.retryable || isLast)) {
    return { status: 'failed', failure: { code: error.code, message: describeFailure(error) } }
  }
  if (!isLast || signal.aborted) return undefined
  const message = 'The run could not be carried out. Applied changes stay. Run the connector again later.'
  return { status: 'failed', failure: { code: 'interrupted', message } }
}

/** Errors of the whole source are listed among the errors of rows. */
function toError({ row, field, code, message }: SourceReadError): RowError {
  return { row: row ?? null, key: null, field: excerptOf(field), code, message, excerpt: null }
}

/** The next attempt deletes it. */
function toWarning(failure: SourceReadError): RowError {
  const error = toError(failure)
  return { ...error, message: `${error.message}. The run will be retried`, severity: 'warning' }
}
