import { setTimeout as sleep } from 'node:timers/promises'
import type { Run } from '@postern/contracts'
import type { ApplyImportAnswer } from '@postern/contracts/internal'
import { ServiceUnavailableError } from '@postern/service-client'
import { ImportConflictError, type Imports } from '../import/imports.ts'
import { errorsARun, countErrorRoom, insertErrors } from '../run/error-store.ts'
import { type Hold, RunCancelled, RunRefused } from './held-run.ts'
import { copyErrors } from './plan.ts'
import { type Outcome, type Progress, type Tx, noteOutcome } from './store.ts'

/** Throws RunRefused if any remaining change differs from the reviewed one. */
export async function assertNotStale(hold: Hold, imports: Imports): Promise<void> {
  for (let after: number | null = 0; after !== null;) {
    const checked = await imports.check(await hold.asker(), after)
    if (checked.stale) {
      const message =
        hold.run.rollbackOf === null
          ? 'The rows changed while the run was applied. Run the connector again.'
          : 'The rows have changed since the run, so nothing was undone. Read the changes of the run, and correct the rows by hand.'
      throw new RunRefused('diff_stale', message)
    }
    after = checked.after
  }
}

export interface Applying {
  /** Ends what waits. */
  readonly signal: AbortSignal
  /** Pauses before each retry of a request to the universe, in milliseconds. */
  readonly pausesMs?: readonly number[] | undefined
}

/** Longer than a push blocks others. After that, the attempt has failed. */
export const usualPausesMs = [1000, 2000, 4000]

/** Applies the planned changes in batches. After a crash, continues where it stopped. */
export async function applyChanges(
  hold: Hold,
  imports: Imports,
  { signal, pausesMs = usualPausesMs }: Applying,
): Promise<void> {
  const { connector } = hold
  const next = async (): Promise<ApplyImportAnswer> => {
    await hold.assertNotSuspended()
    return await imports.apply(await hold.importAttempt(), hold.diffHash, connector.hierarchy)
  }
  const patiently = async (): Promise<ApplyImportAnswer> => {
    for (const pauseMs of pausesMs) {
      try {
        return await next()
      } catch (error) {
        if (!(error instanceof ServiceUnavailableError || error instanceof ImportConflictError)) throw error
      }
      await sleep(pauseMs, undefined, { signal })
      await hold.step(async () => ({}))
    }
    return await next()
  }
  await hold.step(async () => ({}))
  for (;;) {
    const { applied, done, refused } = await patiently()
    // A run whose changes are all applied can no longer be cancelled.
    const step = hold.step(async () => ({ counts: { applied } }))
    await (done ? uncancelled(step) : step)
    if (refused !== null) throw new RunRefused(refused.code, refused.message)
    if (done) return
  }
}

/** Ends a run whose changes are applied. */
export async function endApplied(hold: Hold, imports: Imports): Promise<void> {
  const { run, counts } = hold
  const planned = counts.created + counts.updated + counts.moved + counts.reactivated + counts.deactivated
  const rejected = counts.applied === planned ? [] : await copyErrors(hold, imports, true)
  await endRun(hold, 'works', async (tx) => {
    await insertErrors(tx, run.id, rejected)
    // A rollback reads no source: its errors are what it could not undo.
    const isLeft = run.rollbackOf !== null && (await countErrorRoom(tx, run.id)) < errorsARun
    return { status: rejected.length > 0 || counts.invalid > 0 || isLeft ? 'partial' : 'succeeded' }
  })
}

/** Ends the import of a run that ends early, and records what was applied and rejected. Throws ServiceUnavailableError. */
export async function stopApplying(hold: Hold, imports: Imports): Promise<void> {
  if (hold.status !== 'applying') return
  const applied = await imports.stop(await hold.importAttempt())
  const rejected = await copyErrors(hold, imports, true)
  await uncancelled(
    hold.step(async (tx) => {
      await insertErrors(tx, hold.run.id, rejected)
      return { counts: { applied } }
    }),
  )
}

/** Ends a run. `outcome`: what it says about the connector; ignored for rollbacks. */
export async function endRun(
  hold: Hold,
  outcome: Outcome,
  end: (tx: Tx) => Promise<{ readonly status: Run['status']; readonly failure?: Progress['failure'] }>,
): Promise<void> {
  await hold.step(async (tx) => {
    await noteOutcome(tx, hold.connector.id, hold.run.rollbackOf === null ? outcome : 'unknown')
    const { status, failure } = await end(tx)
    return failure === undefined ? { status } : { status, failure }
  })
}

/** Ignores a cancellation, because nothing is left to cancel. */
async function uncancelled(step: Promise<void>): Promise<void> {
  await step.catch((error: unknown) => {
    if (!(error instanceof RunCancelled)) throw error
  })
}
