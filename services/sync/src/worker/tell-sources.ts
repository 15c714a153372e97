import { maxCurrentRows } from '@postern/contracts/internal'
import type { Comparison } from '../diff/store.ts'
import type { Universe } from '../push/universe.ts'
import { type Untold, beginTelling, hasKeylessRows, listUntold, noteTold, releaseShared } from '../tell/store.ts'
import { type Hold, RunCancelled } from './held-run.ts'
import { comparisonOf } from './plan.ts'

/**
 * Tells the universe which entities the connector brings now and which its source has lost, as far as it has not been told, and
 * when the source was read to its end. To be called when the run has learned what it has brought; begun anew after a crash, it
 * changes nothing twice. Rejects with a ServiceUnavailableError: what was not told then is told by the next run.
 */
export async function tellSources(hold: Hold, universe: Universe): Promise<void> {
  if (hold.connector.dataset !== 'auditable_entities') return
  const comparison = comparisonOf(hold)
  const { telling, isWhole, first } = await begin(hold, comparison)
  const read = { run_id: hold.run.id, at: hold.run.startedAt.toISOString() }
  for (let page = first; ; page = await hold.read(async (tx) => await listUntold(tx, comparison, maxCurrentRows))) {
    const { rows } = page
    const isLast = rows.length < maxCurrentRows
    try {
      const asker = await hold.asker()
      await universe.tellSources(asker, { telling, rows, read: isLast && isWhole ? read : null, retired: false })
    } catch (error) {
      // Whoever comes too late has lost the run, and says so.
      await uncancelled(hold.step(async () => ({})))
      throw error
    }
    if (rows.length > 0) {
      const told = page
      await uncancelled(
        hold.step(async (tx) => {
          await noteTold(tx, comparison, told)
          return {}
        }),
      )
    }
    if (isLast) return
  }
}

interface Telling {
  readonly telling: number
  /** Whether the run has read all of its source, and can tell its rows from each other. A rollback reads nothing. */
  readonly isWhole: boolean
  readonly first: Untold
}

async function begin(hold: Hold, comparison: Comparison): Promise<Telling> {
  const { run, connector } = hold
  let begun: Telling | undefined
  await uncancelled(
    hold.step(async (tx) => {
      const [telling, hasKeyless, first] = await Promise.all([
        beginTelling(tx, connector.id),
        hasKeylessRows(tx, run.id),
        listUntold(tx, comparison, maxCurrentRows),
        run.mode === 'apply' && releaseShared(tx, comparison),
      ])
      begun = { telling, isWhole: run.mode === 'apply' && !hasKeyless, first }
      return {}
    }),
  )
  if (begun === undefined) throw new Error('a step that is committed has been done')
  return begun
}

/** Everything is applied by now: there is nothing left to cancel. */
export async function uncancelled(step: Promise<void>): Promise<void> {
  await step.catch((error: unknown) => {
    if (!(error instanceof RunCancelled)) throw error
  })
}
