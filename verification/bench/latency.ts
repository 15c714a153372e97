import { runOwn } from './load.ts'
import type { KeySet } from './key-set.ts'
import { median, round } from './stats.ts'

export interface Latency {
  readonly name: string
  readonly p50: number
  readonly p99: number
  readonly addedP50: number
  readonly addedP99: number
}

export interface LatencyOptions {
  readonly path: string
  readonly keys: KeySet
  readonly rate: number
  readonly connections: number
  readonly rounds: number
  readonly seconds: number
}

/** The first path is direct. */
export async function measureLatency(
  ways: readonly { readonly name: string; readonly url: string }[],
  { path, rounds, ...job }: LatencyOptions,
): Promise<Latency[]> {
  const seen = ways.map((way) => ({ way, p50: [] as number[], p99: [] as number[] }))
  for (let turn = 0; turn < rounds; turn += 1) {
    for (const { way, p50, p99 } of turn % 2 === 0 ? seen : seen.toReversed()) {
      const result = await runOwn({ ...job, url: way.url + path })
      p50.push(result.p50)
      p99.push(result.p99)
    }
  }
  const medians = seen.map(({ way, p50, p99 }) => ({ name: way.name, p50: median(p50), p99: median(p99) }))
  const [direct = { p50: 0, p99: 0 }] = medians
  return medians.map(({ name, p50, p99 }) => ({
    name,
    p50: round(p50, 3),
    p99: round(p99, 3),
    addedP50: round(p50 - direct.p50, 3),
    addedP99: round(p99 - direct.p99, 3),
  }))
}
