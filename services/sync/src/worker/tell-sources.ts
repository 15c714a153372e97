import { maxCurrentRows } from '@postern/contracts/internal'
import type { Universe } from '../push/universe.ts'
import { beginTelling, hasKeylessRows, listUntold, noteTold } from '../tell/store.ts'
import { type Hold, RunCancelled } from './held-run.ts'
import { comparisonOf } from './plan.ts'

/**
 * Tells the universe which entities the connector brings now and which its source has lost, as far as it has not been told, and
 * that the source was read to its end. To be called when the run has learned what it has brought; begun anew after a crash, it
 * changes nothing twice. Throws UniverseUnavailable.
 */
export async function tellSources(hold: Hold, universe: Universe): Promise<void> {
  const { run, connector } = hold
  if (connector.dataset !== 'auditable_entities') return
  const comparison = comparisonOf(hold)
  // Of rows that cannot be told from each other nobody knows which are there; a rollback reads nothing.
  const isWhole = run.mode === 'apply' && !(await hold.read(async (tx) => await hasKeylessRows(tx, run.id)))
  const telling = await begin(hold)
  for (;;) {
    const rows = await hold.read(async (tx) => await listUntold(tx, comparison, maxCurrentRows))
    const isLast = rows.length < maxCurrentRows
    try {
      const asker = await hold.asker()
      await universe.tellSources(asker, { run_id: run.id, telling, rows, complete: isLast && isWhole })
    } catch (error) {
      // Whoever comes too late has lost the run, and says so.
      await uncancelled(hold.step(async () => ({})))
      throw error
    }
    if (rows.length > 0) {
      await uncancelled(
        hold.step(async (tx) => {
          await noteTold(tx, comparison, rows)
          return {}
        }),
      )
    }
    if (isLast) return
  }
}

async function begin(hold: Hold): Promise<number> {
  let telling = 0
  await uncancelled(
    hold.step(async (tx) => {
      telling = await beginTelling(tx, hold.connector.id)
      return {}
    }),
  )
  return telling
}

/** Everything is applied by now: there is nothing left to cancel. */
async function uncancelled(step: Promise<void>): Promise<void> {
  await step.catch((error: unknown) => {
    if (!(error instanceof RunCancelled)) throw error
  })
}
