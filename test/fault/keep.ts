import { describeMachine } from '../../verification/bench/report.ts'
import { readCommit } from '../support/commit.ts'
import { readResults, writeResults } from '../support/results.ts'
import type { Outcome } from './outcome.ts'
import type { Trial } from './plan.ts'

/** Time and commit of a figure. */
interface Measured {
  /** ISO 8601. */
  readonly measured_at: string
  /** From `readCommit`. */
  readonly commit: string
}

/** The results of a whole or partial run. */
export interface Shown {
  readonly seed: string
  readonly load: Readonly<Record<string, number>>
  readonly outcomes: readonly Outcome[]
  /** Names of trials that this machine cannot run, with the reason. */
  readonly leftOut: readonly string[]
}

/** `.results/faults.json`: the last passing result of each trial. */
export interface Kept {
  readonly seed: string
  readonly load: Shown['load']
  readonly machine: ReturnType<typeof describeMachine>
  /** The number of trials in the long form. */
  readonly planned: number
  /** Trials that have not passed yet. */
  readonly missing: readonly string[]
  readonly left_out: readonly string[]
  readonly outcomes: readonly (Outcome & Measured)[]
}

/** Merges the results of a run with earlier ones. Results of another seed are dropped. */
export async function keepOutcomes(planned: readonly Pick<Trial, 'name'>[], shown: Shown): Promise<Kept> {
  const text = await readResults('faults')
  const before: Kept | undefined = text === undefined ? undefined : JSON.parse(text)
  const measured = { measured_at: new Date().toISOString(), commit: await readCommit() }
  const kept = merge(planned, before, { ...shown, measured })
  await writeResults('faults', kept)
  return kept
}

/** Returns the newest result of each planned trial, in order. */
export function merge(
  planned: readonly Pick<Trial, 'name'>[],
  before: Pick<Kept, 'seed' | 'outcomes' | 'left_out'> | undefined,
  { seed, load, outcomes, leftOut, measured }: Shown & { readonly measured: Measured },
): Kept {
  const isSame = before?.seed === seed
  const known = new Map([
    ...(isSame ? before.outcomes : []).map((one) => [one.name, one] as const),
    ...outcomes.map((one) => [one.name, { ...one, ...measured }] as const),
  ])
  const left_out = [...new Set([...(isSame ? before.left_out : []), ...leftOut])].filter(
    (line) => !outcomes.some(({ name }) => line.startsWith(`${name}: `)),
  )
  const names = planned.map(({ name }) => name)
  return {
    seed,
    load,
    machine: describeMachine(),
    planned: names.length,
    missing: names.filter((name) => !known.has(name) && !left_out.some((line) => line.startsWith(`${name}: `))),
    left_out,
    outcomes: names.flatMap((name) => known.get(name) ?? []),
  }
}
