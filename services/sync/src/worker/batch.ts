// The batches in which changes are sent to the universe. Until one is noted, the same rows are the next one: whoever goes on after
// a crash sends, or looks up, just what was sent before.
import { isDeepStrictEqual } from 'node:util'
import { maxCurrentRows } from '@postern/contracts/internal'
import { learnCreations, listOpenCreations } from '../creation/store.ts'
import { datasetRules } from '../dataset/rules.ts'
import { type OpenChange, listOpenChanges, noteApplied } from '../diff/open-store.ts'
import { isOfLastDepth, rowOf } from '../diff/seq.ts'
import type { Universe } from '../push/universe.ts'
import type { Hold } from './held-run.ts'
import { askCurrent, comparisonOf } from './plan.ts'
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

/** One is noted while the universe has the next one. */
const inDoubtAtMost = 2

/**
 * Notes what the universe has taken in of the run without anybody having noted it: where a worker died, or heard no answer, after
 * the universe had committed. For a run that is about to end, so that its changes are not sent again, and its rollback finds all of
 * them. A batch is taken in as a whole: it was if each of its rows stands as it should. Throws UniverseUnavailable.
 */
export async function settleDoubt(hold: Hold, universe: Universe): Promise<void> {
  if (hold.status !== 'applying') return
  for (let settled = 0; settled < inDoubtAtMost; settled += 1) {
    const batch = await nextBatch(hold, 0)
    if (batch.changes.length === 0 || !(await isTakenIn(hold, universe, batch.changes))) return
    await uncancelled(noteBatch(hold, batch))
  }
}

async function isTakenIn(hold: Hold, universe: Universe, batch: readonly OpenChange[]): Promise<boolean> {
  for (let at = 0; at < batch.length; at += maxCurrentRows) {
    const some = batch.slice(at, at + maxCurrentRows)
    const keys = some.map((change) => change.source_key)
    // A push that nobody waits for any more may still be under way.
    for await (const { from, to, rows } of askCurrent(hold, universe, keys, true)) {
      const stored = new Map(rows.map(({ key, row }) => [key, row]))
      const isSo = some
        .slice(from, to)
        .every(({ source_key: key, after }) => isDeepStrictEqual(stored.get(key), JSON.parse(after)))
      if (!isSo) return false
    }
  }
  return true
}
