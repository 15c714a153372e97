import { maxCurrentRows } from '@postern/contracts/internal'
import { type CurrentRow, type Tx, countStale, listOpenChanges } from './store.ts'

/** How the changes are read, and how the universe is asked. */
export interface Asking {
  readonly read: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>
  readonly ask: (keys: readonly string[]) => Promise<readonly CurrentRow[]>
}

/** Whether any change of the run that is neither applied nor refused would be another by now than the one that was reviewed. */
export async function isStale(runId: string, { read, ask }: Asking): Promise<boolean> {
  for (let after = 0; ;) {
    const limits = { rows: maxCurrentRows, bytes: 2 ** 30 }
    const changes = await read(async (tx) => await listOpenChanges(tx, runId, after, limits))
    const current = changes.length === 0 ? [] : await ask(changes.map((change) => change.source_key))
    const seqs = changes.map(({ seq }) => seq)
    const stale = await read(async (tx) => await countStale(tx, runId, seqs, current))
    if (stale > 0) return true
    const last = changes.at(-1)
    if (last === undefined || changes.length < maxCurrentRows) return false
    after = last.seq
  }
}
