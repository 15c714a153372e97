import { findFreePort } from '@postern/local-stack/testing'
import { runOwn } from './load.ts'
import { median, round } from './stats.ts'
import { type System, seedKeys } from './system.ts'

/** A gateway that starts with nothing in its memory, and Redis with nothing in it, under the load of many hot keys. */
export interface ColdStart {
  readonly keys: number
  /** Requests for one key that are under way at a time. */
  readonly together: number
  readonly requests: number
  /** Until every key had been used. */
  readonly seconds: number
  readonly p50: number
  readonly p99: number
  /** Look-ups that reached the keys service: without coalescing as many as requests, at best as many as keys. */
  readonly lookupsAtKeys: number
  /** Transactions that PostgreSQL carried out meanwhile, those of leases and of usage included. */
  readonly transactions: number
  /** The same load once more, from memory: requests a second before and after. */
  readonly coldPerSecond: number
  readonly warmPerSecond: number
  /** From the first request until 5 s have passed in which nine tenths of that was answered; undefined where that never came. */
  readonly steadySeconds: number | undefined
}

export interface ColdStartOptions {
  readonly path: string
  readonly upstream: string
  readonly keys: number
  readonly together: number
  readonly connections: number
  /** At most so long. */
  readonly seconds: number
}

/** Uses every key for the first time, `together` requests at once for each. */
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
  const before = { lookups: await lookupsAtKeys(adminPort), transactions: await transactions(system) }
  const cold = await runOwn({ ...job, seconds })
  const after = { lookups: await lookupsAtKeys(adminPort), transactions: await transactions(system) }
  // Every key has been used once; records are renewed, and code is compiled, under the same load.
  const { requests: _all, ...lasting } = job
  const warm = await runOwn({ ...lasting, seconds: Math.min(warmSeconds, seconds) })
  const [warmPerSecond, steadyAt] = steadyOf(warm.perSecond)
  return {
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
}

/** How long the load goes on when all keys have been used, in seconds. */
const warmSeconds = 60
const windowSeconds = 5

/** What is answered a second at the end, and when, in seconds, the first five of them had seen nine tenths of it. */
export function steadyOf(perSecond: readonly number[]): [perSecond: number, at: number | undefined] {
  // The last second is not whole.
  const whole = perSecond.slice(0, -1)
  const atEnd = median(whole.slice(-Math.max(1, Math.floor(whole.length / 3))))
  const windows = whole.slice(windowSeconds - 1).map((_count, at) => {
    return whole.slice(at, at + windowSeconds).reduce((sum, count) => sum + count, 0) / windowSeconds
  })
  const first = windows.findIndex((count) => count >= 0.9 * atEnd)
  return [atEnd, first === -1 ? undefined : first + windowSeconds]
}

/** As the gateway itself counts them. */
async function lookupsAtKeys(adminPort: number): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${adminPort}/internal/metrics`)
  const text = await answer.text()
  return Number(/^postern_gateway_key_lookups_total\{[^}]*level="keys"[^}]*\} (\d+)/m.exec(text)?.[1] ?? 0)
}

async function transactions({ sql }: System): Promise<number> {
  const { rows } = await sql.query<{ count: string }>(
    'select xact_commit as count from pg_stat_database where datname = current_database()',
  )
  return Number(rows[0]?.count)
}
