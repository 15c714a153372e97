// The batches in which changes are sent to the universe. Until a batch is recorded, the next one has the same rows: a worker that
// resumes after a crash sends the same batch again, and the universe applies it once.
import { learnCreations, listOpenCreations } from '../creation/store.ts'
import { datasetRules } from '../dataset/rules.ts'
import { type OpenChange, listOpenChanges, noteApplied } from '../diff/open-store.ts'
import { isOfLastDepth, rowOf } from '../diff/seq.ts'
import type { Universe } from '../push/universe.ts'
import type { Hold } from './held-run.ts'
import { comparisonOf } from './plan.ts'
import { uncancelled } from './tell-sources.ts'

/**
 * Changes that the universe is asked to take in at once, well within the time that it gives a statement; of a hierarchy
 * all, since its shape changes as one.
 */
const rowLimits = { rows: 5000, bytes: 12 * 1024 * 1024 } as const
export const hierarchyLimits = { rows: 20_000, bytes: 22 * 1024 * 1024 } as const

/** Whether all changes of the run are one batch. */
export function isOneBatch({ connector }: Hold): boolean {
  return connector.dataset === 'org_structure'
}

/** Changes that are sent at once. */
export interface Batch {
  /** In their order; none where all are applied or refused. */
  readonly changes: readonly OpenChange[]
  /** Whether they are whole blocks of creations. */
  readonly isOfBlocks: boolean
}

/** The next changes to be sent, those behind `after`. */
export async function nextBatch(hold: Hold, after: number): Promise<Batch> {
  const { keyField } = datasetRules[hold.connector.dataset]
  const limits = isOneBatch(hold) ? hierarchyLimits : rowLimits
  const creations = await hold.read(async (tx) => await listOpenCreations(tx, hold.run.id, keyField, after, limits))
  if (creations.length > 0) return { changes: creations, isOfBlocks: true }
  const changes = await hold.read(async (tx) => await listOpenChanges(tx, hold.run.id, after, limits))
  const gone = changes.findIndex(({ seq }) => isOfLastDepth(seq))
  // Rows that are gone are sent by themselves, so that a fault of another row does not touch them. People are the exception: a
  // newcomer can have the address of a leaver only with the leaver or after them.
  const isMixed = !isOneBatch(hold) && hold.connector.dataset !== 'people' && gone > 0
  return { changes: isMixed ? changes.slice(0, gone) : changes, isOfBlocks: false }
}

/**
 * Notes that the universe has taken a batch in; what was made of blocks is remembered with it, while the universe has the next one. Throws
 * as a step does.
 */
export async function noteBatch(hold: Hold, { changes, isOfBlocks }: Batch): Promise<void> {
  const [first, last] = [changes[0], changes.at(-1)]
  if (first === undefined || last === undefined) return
  await hold.step(async (tx) => {
    await noteApplied(tx, hold.run.id, last.seq)
    const rows = { after: (rowOf(first.seq) ?? 0) - 1, last: rowOf(last.seq) ?? 0 }
    if (isOfBlocks) await learnCreations(tx, comparisonOf(hold), rows)
    return { counts: { applied: hold.counts.applied + changes.length } }
  })
}

/**
 * Records the batches that the universe has applied without this service knowing: a worker died, or received no answer. Call it before a
 * run ends early, so that its rollback undoes them too. The universe rejects what this attempt has sent and was not applied yet. Throws
 * ServiceUnavailableError.
 */
export async function settleDoubt(hold: Hold, universe: Universe): Promise<void> {
  if (hold.status !== 'applying') return
  const applied = await universe.stopImport(await hold.asker(), hold.run.attempt)
  for (;;) {
    const batch = await nextBatch(hold, 0)
    const last = batch.changes.at(-1)
    if (last === undefined || last.seq > applied) return
    await uncancelled(noteBatch(hold, batch))
  }
}
