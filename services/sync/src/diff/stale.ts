import { maxCurrentRows } from '@postern/contracts/internal'
import { countStale, listOpenChangeKeys } from './open-store.ts'
import type { CurrentPart } from '../push/current-parts.ts'
import type { Tx } from './store.ts'

/** How the changes are read, and how the universe is asked. */
export interface Asking {
  readonly read: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>
  readonly ask: (keys: readonly string[]) => AsyncIterable<CurrentPart>
}

/**
 * Whether any change of the run that is neither applied nor refused would be another by now than the one that was reviewed; of the
 * first `pages` of 5,000.
 */
export async function isStale(runId: string, { read, ask }: Asking, pages = Infinity): Promise<boolean> {
  for (let [after, page] = [0, 1]; page <= pages; page += 1) {
    const changes = await read(async (tx) => await listOpenChangeKeys(tx, runId, after, maxCurrentRows))
    const last = changes.at(-1)
    if (last === undefined) return false
    for await (const { from, to, rows } of ask(changes.map((change) => change.source_key))) {
      const range = { first: changes[from]?.seq ?? last.seq, last: changes[to - 1]?.seq ?? last.seq }
      if ((await read(async (tx) => await countStale(tx, runId, range, rows))) > 0) return true
    }
    if (changes.length < maxCurrentRows) return false
    after = last.seq
  }
  return false
}
