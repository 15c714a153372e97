import { listInverseRanges, recordInverse } from '../diff/inverse-store.ts'
import { type Comparison, summarizeChanges } from '../diff/store.ts'
import { type StagedError, insertErrors } from '../staging/error-store.ts'
import { clearPlan } from '../staging/store.ts'
import type { Hold } from './held-run.ts'
import { comparisonOf } from './plan.ts'

/** Changes that are turned around by one statement: well within the life of an assertion. */
const changesAStep = 200_000

/** What another run has applied, turned around: of a hierarchy no more than it had in one push. `step`: how many changes at a time. */
export async function findInverse(hold: Hold, rollbackOf: string, step = changesAStep): Promise<void> {
  const comparison = comparisonOf(hold)
  const { id } = hold.run
  await hold.step(async (tx) => {
    await clearPlan(tx, id)
    return {}
  })
  let [changes, stay] = [0, 0]
  for (const range of await hold.read(async (tx) => await listInverseRanges(tx, rollbackOf, step))) {
    await hold.step(async (tx) => {
      const found = await recordInverse(tx, comparison, rollbackOf, range, changes)
      changes += found.recorded
      stay += found.stay
      return {}
    })
  }
  const { hash, ...counts } = await hold.read(async (tx) => await summarizeChanges(tx, id))
  await hold.step(async (tx) => {
    if (stay > 0) await insertErrors(tx, id, [notUndone(stay, comparison)])
    return { status: 'applying', diffHash: hash, counts }
  })
}

/** What a rollback cannot undo is told, as what the universe refuses of it would be. */
function notUndone(rows: number, { statusField: field, draft }: Comparison): StagedError {
  const what =
    draft === null
      ? 'were made by the run, and cannot become inactive'
      : 'were made as drafts by the run, or are drafts no longer since: no draft becomes inactive, and nothing becomes a draft again'
  return { row: null, key: null, field, code: 'not_undone', message: `${rows} rows ${what}. They stay`, excerpt: null }
}
