import { setTimeout as sleep } from 'node:timers/promises'
import type { InputError, Run } from '@postern/contracts'
import { handled } from '@postern/service-kit'
import { doubtCreations } from '../creation/store.ts'
import {
  type OpenChange,
  countRefused,
  doubtKnownRows,
  listOpenChangeKeys,
  listRefusedKeys,
  markChangesRefused,
} from '../diff/open-store.ts'
import {
  type Comparison,
  type Tx,
  doubtOverlapped,
  lastStagedRow,
  learnRows,
  missRows,
  takeRowsBack,
} from '../diff/store.ts'
import type { ApplicationOutcome, RowsApplication, Universe } from '../push/universe.ts'
import { type StagedError, countErrorRoom, errorsARun, insertErrors } from '../staging/error-store.ts'
import { isAnythingShared } from '../diff/also-brought.ts'
import { rowOf } from '../diff/seq.ts'
import { isStale } from '../diff/stale.ts'
import { excerptOf } from '../mapping/excerpt.ts'
import { memberAt } from '../mapping/map-row.ts'
import { hierarchyLimits, isOneBatch, nextBatch, noteBatch } from './batch.ts'
import { type Hold, RunCancelled, RunRefused } from './held-run.ts'
import { type Found, askCurrent, comparisonOf, unpackCreations } from './plan.ts'
import { type Outcome, type Progress, noteOutcome } from './store.ts'
import { tellSources, uncancelled } from './tell-sources.ts'

/** The universe cannot take changes in now. The run can go on later where it stopped. */
export class ApplyInterrupted extends Error {
  override readonly name = 'ApplyInterrupted'
}

/** Throws RunRefused unless every change that is left would still be the one that was reviewed. */
export async function assertNotStale(hold: Hold, universe: Universe): Promise<void> {
  const isOver = await isStale(hold.run.id, {
    read: async (work) => await hold.read(work),
    ask: (keys) => askCurrent(hold, universe, keys),
  })
  if (isOver) {
    const message =
      hold.run.rollbackOf === null
        ? 'What the run would change has changed meanwhile. Run the connector again.'
        : 'What the run would undo has been changed since, and nothing was undone. Look at its changes, and mend by hand what is to be as it was.'
    throw new RunRefused('diff_stale', message)
  }
}

/** How a worker goes about sending changes. */
export interface Sending {
  /** Ends what waits. */
  readonly signal: AbortSignal
  /** How long is waited, in milliseconds, before a batch that the universe could not take just then is sent again, each time. */
  readonly pausesMs?: readonly number[] | undefined
}

/** Longer than a push holds up others; what takes longer costs the run an attempt. */
export const usualPausesMs = [1000, 2000, 4000]

/**
 * Has the universe take the changes in, parents before children. A batch that was taken in and not yet noted is sent
 * again after a crash, and changes nothing then.
 */
export async function applyChanges(
  hold: Hold,
  universe: Universe,
  { signal, pausesMs = usualPausesMs }: Sending,
): Promise<void> {
  const isWhole = isOneBatch(hold)
  await hold.step(async (tx) => {
    await doubtKnownRows(tx, comparisonOf(hold))
    await doubtCreations(tx, comparisonOf(hold))
    return {}
  })
  // What was taken in is noted while the universe has the next batch. One that is not noted yet is sent again after a crash.
  let noting = Promise.resolve()
  let isCancelled = false
  // A run that is to be cancelled still notes what the universe has taken in by now, and is told so again then.
  const noted = async (): Promise<void> => {
    await noting.catch((error: unknown) => {
      if (!(error instanceof RunCancelled)) throw error
      isCancelled = true
    })
  }
  let underWay: Promise<ApplicationOutcome> | undefined
  // Steps are one at a time: the one that hears who has cancelled the run waits for that of the batch before.
  const send = async (batch: readonly OpenChange[]): Promise<ApplicationOutcome> => {
    const attempt = async (): Promise<ApplicationOutcome> => {
      await hold.assertNotSuspended()
      return await universe.applyRows(await applicationOf(hold, batch))
    }
    for (const pauseMs of pausesMs) {
      const outcome = await attempt()
      if (!mayPass(outcome)) return outcome
      await sleep(pauseMs, undefined, { signal })
      await Promise.allSettled([noting])
      await hold.step(async () => ({}))
    }
    return await attempt()
  }
  try {
    let batch = await nextBatch(hold, 0)
    if (isWhole) await assertWhole(hold, batch.changes)
    for (;;) {
      const { changes } = batch
      const [first, last] = [changes[0], changes.at(-1)]
      if (first === undefined || last === undefined) break
      // INVARIANT: one batch at a time. A batch that is sent before the previous one was answered could be applied
      // without being recorded if the previous one ends the run.
      underWay = handled(send(changes))
      const [following] = await Promise.all([nextBatch(hold, last.seq), noted()])
      const outcome = await underWay
      if (outcome.kind === 'applied') {
        noting = handled(noteBatch(hold, batch))
        if (following.changes.length === 0 || isCancelled) break
        batch = following
        continue
      }
      const faults = refusalsOf(outcome, changes)
      await unpackCreations(hold, { rows: true, changes: true })
      await hold.step(async (tx) => {
        const kept = faults.slice(0, await countErrorRoom(tx, hold.run.id))
        await insertErrors(
          tx,
          hold.run.id,
          kept.map((fault) => toError(hold, fault)),
        )
        await markChangesRefused(tx, hold.run.id, oneEach(faults))
        return {}
      })
      if (isWhole && !(await areOfRows(hold, faults))) {
        throw new RunRefused('refused', 'The hierarchy cannot take this shape: see the errors. Nothing was changed.')
      }
      // What was not refused goes again, without what was.
      batch = await nextBatch(hold, first.seq - 1)
    }
    await noting
  } finally {
    await Promise.allSettled([noting, underWay])
  }
}

/** Whether the universe may take the same batch in a little later. To send it again changes nothing twice. */
function mayPass(outcome: ApplicationOutcome): boolean {
  const { kind } = outcome
  return (
    kind === 'conflict' || kind === 'unavailable' || kind === 'unreachable' || (kind === 'unknown' && !outcome.timedOut)
  )
}

/** Throws RunRefused where the changes of a hierarchy are more than one push: its shape would change in parts. */
async function assertWhole(hold: Hold, batch: readonly OpenChange[]): Promise<void> {
  const last = batch.at(-1)
  if (last === undefined) return
  const rest = await hold.read(async (tx) => await listOpenChangeKeys(tx, hold.run.id, last.seq, 1))
  if (rest.length === 0) return
  const message = `The run would change more of a hierarchy than can be changed at once: ${hierarchyLimits.bytes} bytes.`
  throw new RunRefused('too_large', message)
}

/** Rows that are remembered by one statement: well within the life of an assertion. */
const usualRowsAStep = 500_000

/**
 * Notes what the run has brought, as far as that is not done, and tells the universe of it. `found`: undefined where another worker has
 * planned it. Rejects with a ServiceUnavailableError.
 */
export async function finishApplied(
  hold: Hold,
  universe: Universe,
  found: Found | undefined,
  rowsAStep = usualRowsAStep,
): Promise<void> {
  const comparison: Comparison = comparisonOf(hold)
  const isApplied = hold.run.mode === 'apply'
  const [learns, misses] = [isApplied && found?.compared !== 0, isApplied && found?.missing !== 0]
  // What another connector brings is not missing, and passes to that one.
  const passes = isApplied && (await hold.read(async (tx) => await isAnythingShared(tx, comparison.scope)))
  if (learns) await learnStaged(hold, rowsAStep)
  if (misses || passes) await uncancelled(hold.step(async (tx) => await missRows(tx, comparison)))
  if (!isApplied) await uncancelled(hold.step(async (tx) => await takeRowsBack(tx, comparison)))
  await tellSources(hold, universe)
}

/**
 * Notes what a run has brought that ends amid its changes: else it is nobody's, and no later run finds it gone. What was made of blocks is
 * noted with its batch. What the source has no longer is not noted: nobody knows how far the run was wanted.
 */
export async function learnApplied(hold: Hold, rowsAStep = usualRowsAStep): Promise<void> {
  if (hold.status !== 'applying' || hold.counts.applied === 0) return
  if (hold.run.mode === 'apply') await learnStaged(hold, rowsAStep)
  else await uncancelled(hold.step(async (tx) => await takeRowsBack(tx, comparisonOf(hold))))
}

/** Remembers of the rows that were staged one by one those that the universe has as they are. */
async function learnStaged(hold: Hold, rowsAStep: number): Promise<void> {
  const comparison: Comparison = comparisonOf(hold)
  for (let after = 0, last = await hold.read(async (tx) => await lastStagedRow(tx, hold.run.id)); after < last;) {
    const range = { after, last: after + rowsAStep }
    await uncancelled(hold.step(async (tx) => await learnRows(tx, comparison, range)))
    after = range.last
  }
}

/** Notes that a run whose changes are applied has come to its end. */
export async function endApplied(hold: Hold): Promise<void> {
  await endRun(hold, 'works', async (tx) => {
    const { run, counts } = hold
    const refused = await countRefused(tx, run.id)
    // A rollback reads nothing: its errors are what it could not undo.
    const isLeft = run.rollbackOf !== null && (await countErrorRoom(tx, run.id)) < errorsARun
    return { status: refused > 0 || counts.invalid > 0 || isLeft ? 'partial' : 'succeeded' }
  })
}

/**
 * Ends a run; `outcome`: what that says of the connector, of a rollback nothing. However it ends: what it has learned, or noted, may be
 * what somebody has pushed over meanwhile.
 */
export async function endRun(
  hold: Hold,
  outcome: Outcome,
  end: (tx: Tx) => Promise<{ readonly status: Run['status']; readonly failure?: Progress['failure'] }>,
): Promise<void> {
  await hold.step(async (tx) => {
    await doubtOverlapped(tx, comparisonOf(hold))
    await noteOutcome(tx, hold.connector.id, hold.run.rollbackOf === null ? outcome : 'unknown')
    const { status, failure } = await end(tx)
    return failure === undefined ? { status } : { status, failure }
  })
}

async function applicationOf(hold: Hold, batch: readonly OpenChange[]): Promise<RowsApplication> {
  const asker = await hold.asker()
  const { dataset, hierarchy } = hold.connector
  const rows = batch.map(({ after }) => after)
  const sequence = batch.at(-1)?.seq ?? 0
  const more = dataset === 'org_structure' ? { ...hierarchy, mode: 'partial' } : {}
  return { ...asker, dataset, batch: { attempt: hold.run.attempt, sequence }, more, rows }
}

/**
 * Whether what is wrong with changes of a hierarchy is of single nodes: that they name an entity that is not there, or stand below a node
 * that was refused for that. What is wrong with the shape is of all of them.
 */
async function areOfRows(hold: Hold, faults: readonly Refusal[]): Promise<boolean> {
  const unknown = faults.filter(({ code }) => code === 'unknown')
  const below = unknown.filter(({ field }) => field === 'parent_key').map(({ change }) => parentOf(change))
  const others = unknown.filter(({ field }) => field?.startsWith('entities.'))
  if (below.length + others.length < faults.length) return false
  const refused = await hold.read(async (tx) => await listRefusedKeys(tx, hold.run.id, below))
  return below.every((key) => refused.has(key))
}

function parentOf({ after }: OpenChange): string {
  return String(memberAt(JSON.parse(after), 'parent_key'))
}

interface Refusal {
  readonly change: OpenChange
  readonly field: string | null
  readonly code: string
  readonly message: string
}

/** Which changes the universe has refused and why. Throws where it has not taken them in for another reason. */
function refusalsOf(
  outcome: Exclude<ApplicationOutcome, { readonly kind: 'applied' }>,
  batch: readonly OpenChange[],
): Refusal[] {
  switch (outcome.kind) {
    case 'refused': {
      const found = outcome.errors.flatMap((error) => refusalOf(error, batch))
      if (found.length > 0) return found
      throw new RunRefused('refused', outcome.detail ?? 'The universe refuses the changes.')
    }
    case 'conflict':
      throw new ApplyInterrupted('the universe is being changed by somebody else')
    case 'unreachable':
    case 'unknown':
      throw new ApplyInterrupted('the universe gave no answer', { cause: outcome.cause })
    case 'unavailable':
      throw new ApplyInterrupted('the universe cannot take changes in now')
    case 'too_large':
      throw new RunRefused('too_large', 'A row is larger than the universe takes.')
    case 'unexpected':
      throw new ApplyInterrupted(`the universe answered ${outcome.status}`)
    default:
      return outcome satisfies never
  }
}

function refusalOf({ pointer = '', code, detail }: InputError, batch: readonly OpenChange[]): Refusal[] {
  const [, index = '', field = ''] = /^(?:\/[a-z_]+)?\/([0-9]+)(?:\/(.*))?$/.exec(pointer) ?? []
  const change = index === '' ? undefined : batch[Number(index)]
  return change === undefined
    ? []
    : [{ change, field: field === '' ? null : field.replaceAll('/', '.'), code, message: detail }]
}

/** A rollback reads no source: its changes have no rows. */
function toError({ run }: Hold, { change, field, code, message }: Refusal): StagedError {
  const { seq, source_key: key, after } = change
  const excerpt = field === null ? null : excerptOf(memberAt(JSON.parse(after), field))
  return { row: run.rollbackOf === null ? rowOf(seq) : null, key, field, code, message, excerpt }
}

function oneEach(faults: readonly Refusal[]): { readonly seq: number; readonly message: string }[] {
  return [...new Map(faults.map(({ change, message }) => [change.seq, { seq: change.seq, message }])).values()]
}
