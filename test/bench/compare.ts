import { type Hits, hitsBetween } from './hits.ts'
import { type LoadJob, type LoadResult, runLoad } from './load.ts'
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
  /** Which processes: all of a proxy's rounds with the same number were run by one. */
  readonly start: number
  readonly requestsPerSecond: number
  readonly cpuMicroseconds: number | undefined
  /** Part of the processors' time that the host gave to others meanwhile, 0 to 1. */
  readonly stolen: number
  /** Where the keys of its requests were found, where that is asked. */
  readonly hits?: Hits
}

export interface Target {
  readonly name: string
  readonly url: string
  readonly pid: number
  /** Makes its load, and calls `begun` when it has settled. Default: `runLoad`, with the same keys for all. */
  readonly run?: (job: LoadJob, begun?: () => void) => Promise<LoadResult>
  /** Where keys were found so far. */
  readonly hits?: () => Promise<Hits>
}

interface LoadOptions {
  readonly path: string
  readonly keys: KeySet
  readonly connections: number
  readonly warmUpSeconds: number
}

export interface CompareOptions extends LoadOptions {
  /** How often all processes are started anew: two of the same program differ by 15 % and more, each as long as it runs. */
  readonly starts: number
  /** Rounds of each start. */
  readonly rounds: number
  readonly seconds: number
  /** Load before each round that does not count, for targets that make their own. */
  readonly settleSeconds?: number
}

/** Proxies that have just been started, always in the same order. */
export interface Started {
  readonly targets: readonly Target[]
  stop(): Promise<void>
}

/** Measures every proxy in every round, each round in the opposite order of the one before. */
export async function compare(start: () => Promise<Started>, options: CompareOptions): Promise<Measured[]> {
  const results = new Map<string, { round: Round; result: LoadResult }[]>()
  for (let at = 0; at < options.starts; at += 1) {
    const { targets, stop } = await start()
    try {
      await warmUp(targets, options)
      for (let turn = 0; turn < options.rounds; turn += 1) {
        for (const target of turn % 2 === 0 ? targets : targets.toReversed()) {
          const known = results.get(target.name) ?? []
          known.push(await measure(target, options, at))
          results.set(target.name, known)
        }
      }
    } finally {
      await stop()
    }
  }
  return [...results].map(([name, rounds]) => summarise(name, rounds))
}

/** Full load whose figures do not count: compiled code and open connections. */
export async function warmUp(targets: readonly Target[], options: LoadOptions): Promise<void> {
  for (const target of targets) await load(target, options, options.warmUpSeconds)
}

async function measure(
  target: Target,
  options: CompareOptions,
  start: number,
): Promise<{ round: Round; result: LoadResult }> {
  const look = () => ({ cpu: cpuOf(target.pid), machine: machineTime(), hits: target.hits?.() })
  let begun = look()
  const result = await load(target, options, options.seconds, options.settleSeconds, () => void (begun = look()))
  const ended = look()
  const [before, after] = [begun.cpu, ended.cpu]
  const [machineBefore, machineAfter] = [begun.machine, ended.machine]
  const [hitsBefore, hitsAfter] = [await begun.hits, await ended.hits]
  const cpu = before === undefined || after === undefined ? undefined : round((after - before) / result.requests)
  return {
    result,
    round: {
      start,
      requestsPerSecond: Math.round(result.requests / result.seconds),
      cpuMicroseconds: cpu,
      stolen: round((machineAfter.stolen - machineBefore.stolen) / (machineAfter.total - machineBefore.total), 3),
      ...(hitsBefore === undefined || hitsAfter === undefined ? {} : { hits: hitsBetween(hitsBefore, hitsAfter) }),
    },
  }
}

async function load(
  { url, run = runLoad }: Target,
  { path, keys, connections }: LoadOptions,
  seconds: number,
  settleSeconds?: number,
  begun?: () => void,
): Promise<LoadResult> {
  const job = { url: url + path, connections, seconds, keys }
  return await run(settleSeconds === undefined ? job : { ...job, settleSeconds }, begun)
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
 * Compares round by round, since what a machine gives drifts by more than what is looked for: the mean of the middle half
 * of the ratios, and not the ratio of means. With several others, a round of theirs is the mean. Of each start that half of
 * the rounds counts in which the host took least from all that are compared, and any others in which it took no more: which
 * these are says nothing about who was quicker in them.
 */
export function ratio(subject: Measured, others: readonly Measured[], against: string): Ratio {
  const all = [subject, ...others]
  const turns = subject.rounds.map(({ start }, turn) => ({
    start,
    turn,
    stolen: Math.max(...all.map((one) => roundOf(one, turn).stolen)),
  }))
  const counting = [...Map.groupBy(turns, ({ start }) => start).values()].flatMap((ofStart) => {
    const least = ofStart.map(({ stolen }) => stolen).toSorted((one, other) => one - other)
    const most = least[Math.ceil(least.length / 2) - 1] ?? 0
    return ofStart.filter(({ stolen }) => stolen <= most)
  })
  const throughput = counting.map(
    ({ turn }) =>
      roundOf(subject, turn).requestsPerSecond / mean(others.map((other) => roundOf(other, turn).requestsPerSecond)),
  )
  const cpu = counting.flatMap(({ turn }) => {
    const mine = roundOf(subject, turn).cpuMicroseconds
    const theirs = others.flatMap((other) => roundOf(other, turn).cpuMicroseconds ?? [])
    return mine === undefined || theirs.length < others.length ? [] : mean(theirs) / mine
  })
  return {
    against,
    throughput: round(middleMean(throughput)),
    cpu: cpu.length === 0 ? undefined : round(middleMean(cpu)),
    stolen: round(Math.max(...counting.map(({ stolen }) => stolen)), 3),
  }
}

function roundOf({ name, rounds }: Measured, turn: number): Round {
  const found = rounds[turn]
  if (found === undefined) throw new Error(`${name} was not measured in round ${turn}`)
  return found
}

/** The mean without the lowest and the highest quarter. */
function middleMean(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other)
  const quarter = Math.floor(sorted.length / 4)
  return mean(sorted.slice(quarter, sorted.length - quarter))
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

/** A peer as a target. */
export function targetOf({ name, url, pid }: Peer): Target {
  return { name, url, pid }
}
