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
import { AssertionSource, Hold, RunCancelled, RunLost, RunRefused, TenantSuspended } from './held-run.ts'
import { compare, conclude, planRollback } from './plan.ts'
import { beginStaging, listHashes, sendGone, stageSource } from './read-source.ts'
import { type TenantDb, advanceRun, holdWork, letWorkGo, takeOverRun } from './store.ts'
import { whileWanted } from './while-wanted.ts'

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
  /** Called when a run has ended or waits for approval. */
  ended(status: Run['status']): void
}

/** Executes a run from where the previous attempt stopped. Rejects if the queue must retry. */
export async function carryOut(parts: WorkerParts, runId: string, attempt: Attempt): Promise<void> {
  const hold = await takeHold(parts, runId)
  if (hold === undefined) return
  const { logger } = parts
  try {
    await goOn(parts, hold, attempt)
  } catch (error) {
    if (error instanceof RunLost || (error instanceof ImportConflictError && (await isLost(hold)))) {
      logger.warn({ event: 'sync_run_lost', run_id: runId })
      return
    }
    const end = endOf(error, attempt) ?? (await endOfCancelled(hold))
    if (end === undefined) {
      logger.warn({ event: 'sync_run_interrupted', run_id: runId, err: error })
      // If this fails too, the run is like that of a crashed worker.
      await hold
        .release(
          async (tx) => await insertErrors(tx, runId, error instanceof SourceReadError ? [toWarning(error)] : []),
        )
        .catch(() => undefined)
      throw error
    }
    await settle(parts, hold, attempt.isLast, attempt.signal)
    if (end.status === 'failed')
      logger.warn({ event: 'sync_run_failed', run_id: runId, code: end.failure.code, err: error })
    const isStopped = end.status === 'cancelled' || error instanceof TenantSuspended
    await endRun(hold, isStopped ? 'unknown' : 'fails', async (tx) => {
      if (error instanceof SourceReadError) await insertErrors(tx, runId, [toError(error)])
      return end
    })
    parts.ended(end.status)
    await tidyUp(parts, hold, attempt.signal)
    return
  }
  parts.ended(hold.status)
  logger.info({ event: 'sync_run_ended', run_id: runId, connector: hold.connector.key, counts: hold.counts })
  await tidyUp(parts, hold, attempt.signal)
}

/** Ends a run whose attempts have all died. */
export async function endLostRun(parts: WorkerParts, runId: string): Promise<void> {
  const hold = await takeHold(parts, runId)
  if (hold === undefined) return
  const message = 'Every worker that began the run has died. What was applied stays; run the connector again.'
  await settle(parts, hold, true)
  await endRun(hold, 'fails', async () => ({ status: 'failed', failure: { code: 'worker_lost', message } }))
  parts.ended('failed')
  await tidyUp(parts, hold)
}

/**
 * Ends the import. If the universe is unavailable, a later attempt retries; the last attempt retries here and then leaves it open.
 */
async function settle(parts: WorkerParts, hold: Hold, isLast: boolean, signal?: AbortSignal): Promise<void> {
  const { universe, logger, pausesMs = usualPausesMs } = parts
  for (const pauseMs of isLast ? [...pausesMs, undefined] : [undefined]) {
    try {
      return await stopApplying(hold, universe.imports)
    } catch (error) {
      const mayPass = error instanceof ServiceUnavailableError && pauseMs !== undefined
      if (!mayPass) {
        const isLeft = isLast && !(error instanceof RunLost)
        logger.warn({
          event: isLeft ? 'sync_batch_in_doubt' : 'sync_run_interrupted',
          run_id: hold.run.id,
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
async function isLost(hold: Hold): Promise<boolean> {
  try {
    await hold.assertWanted()
  } catch (error) {
    return error instanceof RunLost
  }
  return false
}

const retired = { code: 'connector_retired', message: 'The connector was retired before the run had begun.' }

async function takeHold({ workerDb }: WorkerParts, runId: string): Promise<Hold | undefined> {
  const worker = crypto.randomUUID()
  if (!(await workerDb.system(async (tx) => await holdWork(tx, runId, worker)))) return undefined
  const assertions = new AssertionSource(workerDb, runId, worker)
  const found = await workerDb.write({ assertion: await assertions.get() }, async (tx) => {
    const run = await takeOverRun(tx, runId, worker)
    const connector = run === undefined ? undefined : await findConnector(tx, run.connectorId)
    if (run !== undefined && connector !== undefined) return { run, connector }
    if (run !== undefined)
      await advanceRun(tx, runId, worker, { status: 'failed', counts: run.counts, failure: retired })
    // It has ended, or waits for approval, which grants it again.
    await letWorkGo(tx, runId, worker)
    return undefined
  })
  return found === undefined ? undefined : new Hold(workerDb, assertions, worker, found.run, found.connector)
}

async function goOn(parts: WorkerParts, hold: Hold, { signal }: Attempt): Promise<void> {
  const { pausesMs } = parts
  const { imports } = parts.universe
  const { run } = hold
  await hold.assertNotSuspended()
  if (hold.status !== 'applying') {
    if (run.rollbackOf === null) await plan(parts, hold, signal)
    else await planRollback(hold, imports, run.rollbackOf)
  }
  if (hold.status === 'applying') {
    if (run.approved || run.rollbackOf !== null) await assertNotStale(hold, imports)
    await applyChanges(hold, imports, { signal, pausesMs })
    await endApplied(hold, imports)
  }
}

async function plan(parts: WorkerParts, hold: Hold, signal: AbortSignal): Promise<void> {
  const { sources, outbound, limits, secretRing, logger } = parts
  const { imports } = parts.universe
  const { connector } = hold
  const source = sources.get(connector.type)
  if (source === undefined) throw new RunRefused('no_such_source', 'Connectors of this type cannot be run here.')
  const openable = await hold.read(async (tx) => await findWithSecrets(tx, connector.id))
  // The next attempt reads the connector and its secrets again.
  if (openable?.connector.version !== connector.version) throw new Error('the connector was changed at this moment')
  const { tenantId } = await hold.asker()
  const secrets = openSecrets(secretRing, { tenantId, connectorId: connector.id }, openable.sealed)
  const context = { config: connector.config, secrets, outbound, limits }
  const rules = datasetRules[connector.dataset]
  for (let isAgain = false; ; isAgain = true) {
    const before = await beginStaging(hold, imports)
    const known = isAgain ? new Set<string>() : await listHashes(hold, imports)
    const hashes = known.size === 0 ? null : known.size
    // A slow source writes nothing for long.
    const staged = await whileWanted(
      hold,
      signal,
      async (wanted) =>
        await stageSource(
          hold,
          imports,
          source,
          { ...context, signal: wanted },
          { rules, known, isFirst: before === 0 },
        ),
    )
    await sendGone(hold, imports, known)
    const planned = await compare(hold, imports, hashes)
    if (planned !== undefined) {
      await conclude(hold, imports, planned, staged)
      return
    }
    if (isAgain) throw new Error('a source of which all rows were sent is not read again')
    logger.info({ event: 'sync_run_read_again', run_id: hold.run.id })
  }
}

type End =
  | { readonly status: 'cancelled' }
  | { readonly status: 'failed'; readonly failure: { readonly code: string; readonly message: string } }

/** A cancelled run ends now instead of waiting for the next attempt. */
async function endOfCancelled(hold: Hold): Promise<End | undefined> {
  try {
    await hold.assertWanted()
  } catch (error) {
    if (error instanceof RunCancelled) return { status: 'cancelled' }
  }
  return undefined
}

/** Returns how a run ends after an error, or undefined if it is retried. */
function endOf(error: unknown, { isLast, signal }: Attempt): End | undefined {
  if (error instanceof RunCancelled) return { status: 'cancelled' }
  if (error instanceof RunRefused) return { status: 'failed', failure: { code: error.code, message: error.message } }
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
async function tidyUp(parts: WorkerParts, hold: Hold, signal?: AbortSignal): Promise<void> {
  const { workerDb, logger } = parts
  const { run, connector } = hold
  try {
    for (let removed = 1; removed > 0;) {
      const { assertion } = await hold.asker()
      removed = await workerDb.write({ assertion }, async (tx) => await clearEndedUploads(tx, connector.id))
    }
    if (isFinal(hold.status)) await clearImport(parts, hold)
    await clearDetails(parts, hold, signal)
    const { assertion } = await hold.asker()
    await workerDb.write({ assertion }, async (tx) => {
      // Approval applies the planned changes, so the file is not read again.
      if (run.uploadId !== null) await deleteUpload(tx, run.uploadId)
      await deleteAbandonedUploads(tx)
      await letWorkGo(tx, run.id, hold.worker)
    })
  } catch (error) {
    logger.warn({ event: 'sync_run_not_tidied', run_id: run.id, err: error })
  }
}

async function clearImport({ universe }: WorkerParts, hold: Hold): Promise<void> {
  while (await universe.imports.clear(await hold.asker(), [hold.run.id], false));
}

/** A failure is logged and stops nothing else. */
async function clearDetails(
  { workerDb, logger, universe, keepDetailsDays, clearWithinMs = defaultClearWithinMs }: WorkerParts,
  hold: Hold,
  signal?: AbortSignal,
): Promise<void> {
  if (keepDetailsDays === undefined) return
  const limit = AbortSignal.timeout(clearWithinMs)
  try {
    while (!limit.aborted && signal?.aborted !== true) {
      const asker = await hold.asker()
      const old = await workerDb.write(asker, async (tx) => await listOldRuns(tx, keepDetailsDays))
      if (old.length === 0) return
      const ids = old.map(({ id }) => id)
      const isClear = await workerDb.write(asker, async (tx) => await clearOldErrors(tx, ids))
      const looked = old.filter(({ isLookedAt }) => isLookedAt).map(({ id }) => id)
      const hasChanges = looked.length > 0 && (await universe.imports.clear(asker, looked, true))
      if (isClear && !hasChanges) await workerDb.write(asker, async (tx) => await recordCleared(tx, ids))
    }
  } catch (error) {
    logger.warn({ event: 'sync_details_not_cleared', run_id: hold.run.id, err: error })
  }
}
