import type { ApplyAnswer, ImportBatch } from '@postern/contracts/internal'
import { problem } from '@postern/service-kit'
import { type Tx, advanceImport } from './store.ts'

interface Push {
  readonly run_id: string
  readonly batch?: ImportBatch | undefined
}

/** Applies a push in its transaction, unless its batch was applied before. Throws a conflict if a later attempt has the run. */
export async function applyOnce<Answer extends ApplyAnswer>(
  tx: Tx,
  { run_id: runId, batch }: Push,
  rows: number,
  apply: () => Promise<Answer>,
): Promise<Answer | ApplyAnswer> {
  if (batch === undefined) return await apply()
  const before = await advanceImport(tx, runId, batch)
  if (before === undefined) throw laterAttempt()
  return before >= batch.sequence ? { created: 0, updated: 0, unchanged: rows } : await apply()
}

export function laterAttempt(): Error {
  return problem('conflict', { detail: 'A later attempt has taken over the run.' })
}
