import { describeMachine } from '../bench/report.ts'
import { readCommit } from '../../test/support/commit.ts'
import { writeResults } from '../../test/support/results.ts'

export interface Fuzzed {
  readonly minutes: number
  readonly seed: number
  readonly rounds: number
  readonly requests: number
  readonly operations: number
  readonly carriedOut: number
  readonly answers: Readonly<Record<string, number>>
  /** A line for each fault with the seed of its round. */
  readonly faults: readonly string[]
}

export function sumUp(tally: ReadonlyMap<string, ReadonlyMap<number, number>>) {
  const answers: Record<string, number> = {}
  for (const counts of tally.values()) {
    for (const [status, count] of counts) answers[status] = (answers[status] ?? 0) + count
  }
  return {
    requests: Object.values(answers).reduce((sum, count) => sum + count, 0),
    operations: tally.size,
    carriedOut: [...tally.values()].filter((counts) => [...counts.keys()].some((status) => status < 400)).length,
    answers,
  }
}

export async function keepFuzzed(fuzzed: Fuzzed): Promise<void> {
  const kept = {
    measured_at: new Date().toISOString(),
    commit: await readCommit(),
    machine: describeMachine(),
    ...fuzzed,
  }
  await writeResults('fuzz', kept)
}
