import { findFreePort } from '@postern/local-stack/testing'
import { readHits } from './hits.ts'
import { runOwn } from './load.ts'
import { median, round } from './stats.ts'
import { type System, seedKeys } from './system.ts'
import { verdict } from './verdicts.ts'

export interface ColdStart {
  readonly hotKeys: number
  readonly keys: number
  readonly together: number
  readonly requests: number
  readonly seconds: number
  readonly p50: number
  readonly p99: number
  /** Ideally one per key; without coalescing one per request. */
  readonly lookupsAtKeys: number
  readonly transactions: number
  readonly coldPerSecond: number
  readonly warmPerSecond: number
  /** Until 5 s passed with 90 % of the final rate. */
  readonly steadySeconds: number | undefined
  readonly verdicts: readonly string[]
}

/** Abandoned look-ups may be repeated. */
const mostLookups = 1.05

export function coldStartVerdicts(
  found: Pick<
    ColdStart,
    'hotKeys' | 'keys' | 'together' | 'seconds' | 'lookupsAtKeys' | 'transactions' | 'steadySeconds'
  >,
): string[] {
  const { hotKeys, keys, together, seconds, lookupsAtKeys, transactions, steadySeconds } = found
  return [
    verdict(`all ${hotKeys} keys were used in the time there was`, keys >= hotKeys, `${keys}`),
    verdict(
      `at most ${mostLookups} look-ups at keys for each`,
      lookupsAtKeys <= mostLookups * keys,
      `${round(lookupsAtKeys / keys, 3)}, where ${together} requests come at once`,
    ),
    verdict(
      'no more transactions than look-ups',
      transactions <= lookupsAtKeys,
      `${round(transactions / lookupsAtKeys)} for one`,
    ),
    verdict(
      `steady at most ${mostUnsteadySeconds} s after all were used`,
      steadySeconds !== undefined && steadySeconds <= seconds + mostUnsteadySeconds,
      `after ${steadySeconds ?? 'no'} s of ${seconds}`,
    ),
  ]
}

export interface ColdStartOptions {
  readonly path: string
  readonly upstream: string
  readonly keys: number
  readonly together: number
  readonly connections: number
  readonly seconds: number
}

export async function measureColdStart(system: System, options: ColdStartOptions): Promise<ColdStart> {
  const { path, upstream, together, connections, seconds } = options
  const keys = await seedKeys(system, options.keys)
  const adminPort = await findFreePort()
  await system.emptyRedis()
  await system.restartGateway({
    POSTERN_FINDINGS_URL: upstream,
    POSTERN_MEMORY_ENTRIES: String(2 * options.keys),
    POSTERN_ADMIN_PORT: String(adminPort),
  })
  const url = `${system.stack.gateways[0]}${path}`
  const job = { url, connections, keys, inOrder: true, together, requests: together * options.keys }
  const lookups = async (): Promise<number> => (await readHits(adminPort))['keys'] ?? Number.NaN
  const before = { lookups: await lookups(), transactions: await countTransactions(system) }
  const cold = await runOwn({ ...job, seconds })
  const after = { lookups: await lookups(), transactions: await countTransactions(system) }
  // Records are renewed and code is compiled under the same load.
  const { requests: _all, ...lasting } = job
  const warm = await runOwn({ ...lasting, seconds: Math.min(warmSeconds, seconds) })
  const [warmPerSecond, steadyAt] = steadyOf(warm.perSecond)
  const found = {
    hotKeys: options.keys,
    keys: Math.min(options.keys, Math.ceil(cold.requests / together)),
    together,
    requests: cold.requests,
    seconds: round(cold.seconds, 1),
    p50: round(cold.p50, 1),
    p99: round(cold.p99, 1),
    lookupsAtKeys: after.lookups - before.lookups,
    transactions: after.transactions - before.transactions,
    coldPerSecond: Math.round(cold.requests / cold.seconds),
    warmPerSecond: Math.round(warmPerSecond),
    steadySeconds: steadyAt === undefined ? undefined : round(cold.seconds + steadyAt, 1),
  }
  return { ...found, verdicts: coldStartVerdicts(found) }
}

const warmSeconds = 60
const windowSeconds = 5
const leastOfBest = 0.8
/** After the last key. */
const mostUnsteadySeconds = 30

/** The final rate, and when five seconds first reached 90 % of it; undefined if it is less than 80 % of the best. */
export function steadyOf(perSecond: readonly number[]): [perSecond: number, at: number | undefined] {
  // The last second is incomplete.
  const whole = perSecond.slice(0, -1)
  const atEnd = median(whole.slice(-Math.max(1, Math.floor(whole.length / 3))))
  const windows = whole.slice(windowSeconds - 1).map((_count, at) => {
    return whole.slice(at, at + windowSeconds).reduce((sum, count) => sum + count, 0) / windowSeconds
  })
  const first = windows.findIndex((count) => count >= 0.9 * atEnd)
  const isSteady = first !== -1 && atEnd >= leastOfBest * Math.max(...windows)
  return [atEnd, isSteady ? first + windowSeconds : undefined]
}

async function countTransactions({ sql }: System): Promise<number> {
  const { rows } = await sql.query<{ count: string }>(
    'select xact_commit as count from pg_stat_database where datname = current_database()',
  )
  return Number(rows[0]?.count)
}
