import { type Hits, hitsBetween } from './hits.ts'
import { type LoadJob, type LoadResult, runLoad } from './load.ts'
import type { KeySet } from './key-set.ts'
import { type Peer, cpuOf, machineTime } from './processes.ts'
import { mean, median, middleMean, round } from './stats.ts'

export interface Measured {
  readonly name: string
  readonly requestsPerSecond: number
  readonly cpuMicroseconds: number | undefined
  readonly p50Milliseconds: number
  readonly p99Milliseconds: number
  readonly rounds: readonly Round[]
}

interface Round {
  readonly start: number
  readonly requestsPerSecond: number
  readonly cpuMicroseconds: number | undefined
  /** Taken by the host, 0 to 1. */
  readonly stolen: number
  readonly hits?: Hits
}

export interface Target {
  readonly name: string
  readonly url: string
  readonly pid: number
  readonly run?: (job: LoadJob) => Promise<LoadResult>
  readonly hits?: () => Promise<Hits>
}

interface LoadOptions {
  readonly path: string
  readonly keys: KeySet
  readonly connections: number
  readonly warmUpSeconds: number
}

export interface CompareOptions extends LoadOptions {
  /** Two processes of one program differ by 15 % and more. */
  readonly starts: number
  readonly rounds: number
  readonly seconds: number
  /** Each piece measures all proxies once. */
  readonly pieces?: number
}

export interface Started {
  readonly targets: readonly Target[]
  stop(): Promise<void>
}

export async function compare(start: () => Promise<Started>, options: CompareOptions): Promise<Measured[]> {
  const results = new Map<string, MeasuredRound[]>()
  for (let at = 0; at < options.starts; at += 1) {
    const { targets, stop } = await start()
    try {
      await warmUp(targets, options)
      for (let turn = 0; turn < options.rounds; turn += 1) {
        const order = turn % 2 === 0 ? targets : targets.toReversed()
        for (const [{ name }, measured] of await measureRound(order, options, at)) {
          results.set(name, [...(results.get(name) ?? []), measured])
        }
      }
    } finally {
      await stop()
    }
  }
  return [...results].map(([name, rounds]) => summarise(name, rounds))
}

export async function warmUp(targets: readonly Target[], options: LoadOptions): Promise<void> {
  for (const target of targets) await load(target, options, options.warmUpSeconds)
}

interface MeasuredRound {
  readonly round: Round
  readonly result: Pick<LoadResult, 'p50' | 'p99'>
}

async function measureRound(
  targets: readonly Target[],
  { pieces = 1, ...options }: CompareOptions,
  start: number,
): Promise<Map<Target, MeasuredRound>> {
  const hitsOfAll = async () => await Promise.all(targets.map(async ({ hits }) => await hits?.()))
  // Reading it is work for the gateway.
  const hitsBefore = await hitsOfAll()
  const parts = targets.map((): Piece[] => [])
  for (let at = 0; at < pieces; at += 1) {
    const order = [...targets.entries()]
    for (const [place, target] of at % 2 === 0 ? order : order.toReversed()) {
      parts[place]?.push(await measurePiece(target, options, options.seconds / pieces))
    }
  }
  const hitsAfter = await hitsOfAll()
  return new Map(
    targets.map((target, place) => {
      const [before, after] = [hitsBefore[place], hitsAfter[place]]
      const hits = before === undefined || after === undefined ? {} : { hits: hitsBetween(before, after) }
      return [target, roundOfPieces(parts[place] ?? [], start, hits)]
    }),
  )
}

interface Piece {
  readonly result: LoadResult
  readonly cpu: number | undefined
  readonly stolen: number
  readonly total: number
}

async function measurePiece(target: Target, options: LoadOptions, seconds: number): Promise<Piece> {
  const look = () => ({ cpu: cpuOf(target.pid), machine: machineTime() })
  const before = look()
  const result = await load(target, options, seconds)
  const after = look()
  return {
    result,
    cpu: before.cpu === undefined || after.cpu === undefined ? undefined : after.cpu - before.cpu,
    stolen: after.machine.stolen - before.machine.stolen,
    total: after.machine.total - before.machine.total,
  }
}

function roundOfPieces(pieces: readonly Piece[], start: number, hits: Pick<Round, 'hits'>): MeasuredRound {
  const sum = (of: (piece: Piece) => number) => pieces.reduce((all, piece) => all + of(piece), 0)
  const requests = sum(({ result }) => result.requests)
  const isKnown = pieces.every(({ cpu }) => cpu !== undefined)
  return {
    result: {
      p50: median(pieces.map(({ result }) => result.p50)),
      p99: median(pieces.map(({ result }) => result.p99)),
    },
    round: {
      start,
      requestsPerSecond: Math.round(requests / sum(({ result }) => result.seconds)),
      cpuMicroseconds: isKnown ? round(sum(({ cpu }) => cpu ?? 0) / requests) : undefined,
      stolen: round(sum(({ stolen }) => stolen) / sum(({ total }) => total), 3),
      ...hits,
    },
  }
}

async function load(
  { url, run = runLoad }: Target,
  { path, keys, connections }: LoadOptions,
  seconds: number,
): Promise<LoadResult> {
  return await run({ url: url + path, connections, seconds, keys })
}

function summarise(name: string, rounds: readonly MeasuredRound[]): Measured {
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

/** Above 1, the first is better. */
export interface Ratio {
  readonly against: string
  readonly throughput: number
  readonly cpu: number | undefined
  /** From 0 to 1. */
  readonly stolen: number
}

/**
 * The mean of the middle half of the ratios by round, because the machine's speed drifts. Only the half of each start's
 * rounds in which the host took the least time counts.
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

export function targetOf({ name, url, pid }: Peer): Target {
  return { name, url, pid }
}
