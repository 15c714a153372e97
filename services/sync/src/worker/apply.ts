import { setTimeout as sleep } from 'node:timers/promises'
import type { Run } from '@postern/contracts'
import type { ApplyImportAnswer } from '@postern/contracts/internal'
import { ServiceUnavailableError } from '@postern/service-client'
import type { Tx } from '@postern/tenant-db'
import { ImportConflictError, type Imports } from '../import/imports.ts'
import { errorsARun, countErrorsLeft, insertErrors } from '../run/error-store.ts'
import { type RunLease, RunCancelledError, RunRefusedError } from './run-lease.ts'
import { listErrors } from './plan.ts'
import { type Outcome, type Progress, recordOutcome } from './store.ts'

/** Throws RunRefusedError if any remaining change differs from the reviewed one. */
export async function assertNotStale(lease: RunLease, imports: Imports): Promise<void> {
  for (let after: number | null = 0; after !== null;) {
    const checked = await imports.check(await lease.caller(), after)
    if (checked.stale) {
      const message =
        lease.run.rollbackOf === null
          ? 'The rows changed while the run was applied. Run the connector again.'
          : 'The rows have changed since the run, so nothing was undone. Read the changes of the run, and correct the rows by hand.'
      throw new RunRefusedError('diff_stale', message)
    }
    after = checked.after
  }
}

export interface ApplyOptions {
  readonly signal: AbortSignal
  /** Pauses before each retry of a request to the universe, in milliseconds. */
  readonly pausesMs?: readonly number[] | undefined
}

/** Together longer than a push blocks others. After the last one, the attempt has failed. */
export const defaultPausesMs = [1000, 2000, 4000]

/** Applies the planned changes in batches. After a crash, continues where it stopped. */
export async function applyChanges(
  lease: RunLease,
  imports: Imports,
  { signal, pausesMs = defaultPausesMs }: ApplyOptions,
): Promise<void> {
  const { connector } = lease
  const applyNext = async (): Promise<ApplyImportAnswer> => {
    await lease.assertNotSuspended()
    return await imports.apply(await lease.importAttempt(), lease.diffHash, connector)
  }
  const applyNextWithRetries = async (): Promise<ApplyImportAnswer> => {
    for (const pauseMs of pausesMs) {
      try {
        return await applyNext()
      } catch (error) {
        if (!(error instanceof ServiceUnavailableError || error instanceof ImportConflictError)) throw error
      }
      await sleep(pauseMs, undefined, { signal })
      await lease.commitStep(async () => ({}))
    }
    return await applyNext()
  }
  await lease.commitStep(async () => ({}))
  for (;;) {
    const { applied, done, refused } = await applyNextWithRetries()
    // A run whose changes are all applied can no longer be cancelled.
    const step = lease.commitStep(async () => ({ counts: { applied } }))
    await (done ? ignoreCancellation(step) : step)
    if (refused !== null) throw new RunRefusedError(refused.code, refused.message)
    if (done) return
  }
}

export async function endApplied(lease: RunLease, imports: Imports): Promise<void> {
  const { run, counts } = lease
  const planned = counts.created + counts.updated + counts.moved + counts.reactivated + counts.deactivated
  const rejected = counts.applied === planned ? [] : await listErrors(lease, imports, true)
  await endRun(lease, 'works', async (tx) => {
    await insertErrors(tx, run.id, rejected)
    // A rollback reads no source: its errors are what it could not undo.
    const isLeft = run.rollbackOf !== null && (await countErrorsLeft(tx, run.id)) < errorsARun
    return { status: rejected.length > 0 || counts.invalid > 0 || isLeft ? 'partial' : 'succeeded' }
  })
}

/** Ends the import of a run that ends early, and records what was applied and rejected. Throws ServiceUnavailableError. */
export async function stopApplying(lease: RunLease, imports: Imports): Promise<void> {
  if (lease.status !== 'applying') return
  const applied = await imports.stop(await lease.importAttempt())
  const rejected = await listErrors(lease, imports, true)
  await ignoreCancellation(
    lease.commitStep(async (tx) => {
      await insertErrors(tx, lease.run.id, rejected)
      return { counts: { applied } }
    }),
  )
}

/** Ends a run. `outcome`: what it says about the connector; ignored for rollbacks. */
export async function endRun(
  lease: RunLease,
  outcome: Outcome,
  end: (tx: Tx) => Promise<{ readonly status: Run['status']; readonly failure?: Progress['failure'] }>,
): Promise<void> {
  await lease.commitStep(async (tx) => {
    await recordOutcome(tx, lease.connector.id, lease.run.rollbackOf === null ? outcome : 'unknown')
    const { status, failure } = await end(tx)
    return failure === undefined ? { status } : { status, failure }
  })
}

/** Ignores a cancellation, because nothing is left to cancel. */
async function ignoreCancellation(step: Promise<void>): Promise<void> {
  await step.catch((error: unknown) => {
    if (!(error instanceof RunCancelledError)) throw error
  })
}
