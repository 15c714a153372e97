import { type LoadResult, runLoad } from './load.ts'
import type { KeySet } from './key-set.ts'
import { type Peer, cpuOf, machineTime } from './processes.ts'
import { median, round } from './stats.ts'

/** One proxy under full load, medians over the rounds. */
export interface Measured {
  readonly name: string
  readonly requestsPerSecond: number
  /** Undefined where the system does not tell. */
  readonly cpuMicroseconds: number | undefined
  readonly p50Milliseconds: number
  readonly p99Milliseconds: number
  readonly rounds: readonly Round[]
}

interface Round {
  readonly requestsPerSecond: number
  readonly cpuMicroseconds: number | undefined
  /** Part of the processors' time that the host gave to others meanwhile, 0 to 1. */
  readonly stolen: number
}

export interface Target {
  readonly name: string
  readonly url: string
  readonly pid: number
}

export interface CompareOptions {
  readonly path: string
  readonly keys: KeySet
  readonly connections: number
  readonly rounds: number
  readonly seconds: number
  readonly warmUpSeconds: number
}

/** Measures every proxy in every round, each round in the opposite order of the one before. */
export async function compare(targets: readonly Target[], options: CompareOptions): Promise<Measured[]> {
  for (const target of targets) await load(target, options, options.warmUpSeconds)
  const results = new Map<Target, { round: Round; result: LoadResult }[]>(targets.map((target) => [target, []]))
  for (let turn = 0; turn < options.rounds; turn += 1) {
    for (const target of turn % 2 === 0 ? targets : targets.toReversed()) {
      const [before, machineBefore] = [cpuOf(target.pid), machineTime()]
      const result = await load(target, options, options.seconds)
      const [after, machineAfter] = [cpuOf(target.pid), machineTime()]
      results.get(target)?.push({
        result,
        round: {
          requestsPerSecond: Math.round(result.requests / result.seconds),
          cpuMicroseconds:
            before === undefined || after === undefined ? undefined : round((after - before) / result.requests),
          stolen: round((machineAfter.stolen - machineBefore.stolen) / (machineAfter.total - machineBefore.total), 3),
        },
      })
    }
  }
  return targets.map((target) => summarise(target.name, results.get(target) ?? []))
}

async function load(
  { url }: Target,
  { path, keys, connections }: CompareOptions,
  seconds: number,
): Promise<LoadResult> {
  return await runLoad({ url: url + path, connections, seconds, keys })
}

function summarise(name: string, rounds: readonly { round: Round; result: LoadResult }[]): Measured {
  const cpu = rounds.flatMap(({ round: { cpuMicroseconds } }) => cpuMicroseconds ?? [])
  return {
    name,
    requestsPerSecond: Math.round(median(rounds.map(({ round: { requestsPerSecond } }) => requestsPerSecond))),
    cpuMicroseconds: cpu.length === 0 ? undefined : round(median(cpu), 1),
    p50Milliseconds: round(median(rounds.map(({ result }) => result.p50))),
    p99Milliseconds: round(median(rounds.map(({ result }) => result.p99))),
    rounds: rounds.map((one) => one.round),
  }
}

/** How often one is as good as another: above 1, the first is better. */
export interface Ratio {
  readonly against: string
  readonly throughput: number
  readonly cpu: number | undefined
  /** Part of the processors' time that the host gave to others in the rounds that count, at its worst; 0 to 1. */
  readonly stolen: number
}

/**
 * Compares round by round, since what a machine gives drifts by more than what is looked for: the median of the ratios,
 * and not the ratio of the medians. With several others, a round of theirs is the mean. Of the rounds that half counts in
 * which the host took least from all that are compared: which these are says nothing about who was quicker in them.
 */
export function ratio(subject: Measured, others: readonly Measured[], against: string): Ratio {
  const all = [subject, ...others]
  const turns = subject.rounds
    .map((_round, turn) => ({ turn, stolen: Math.max(...all.map((one) => roundOf(one, turn).stolen)) }))
    .toSorted((one, other) => one.stolen - other.stolen)
    .slice(0, Math.ceil(subject.rounds.length / 2))
  const throughput = turns.map(
    ({ turn }) =>
      roundOf(subject, turn).requestsPerSecond / mean(others.map((other) => roundOf(other, turn).requestsPerSecond)),
  )
  const cpu = turns.flatMap(({ turn }) => {
    const mine = roundOf(subject, turn).cpuMicroseconds
    const theirs = others.flatMap((other) => roundOf(other, turn).cpuMicroseconds ?? [])
    return mine === undefined || theirs.length < others.length ? [] : mean(theirs) / mine
  })
  return {
    against,
    throughput: round(median(throughput)),
    cpu: cpu.length === 0 ? undefined : round(median(cpu)),
    stolen: turns.at(-1)?.stolen ?? 0,
  }
}

function roundOf({ name, rounds }: Measured, turn: number): Round {
  const found = rounds[turn]
  if (found === undefined) throw new Error(`${name} was not measured in round ${turn}`)
  return found
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

/** A peer as a target. */
export function targetOf({ name, url, pid }: Peer): Target {
  return { name, url, pid }
}
