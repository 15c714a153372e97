import { type LoadResult, runOwn } from './load.ts'
import { cpuOf } from './processes.ts'
import { median, round } from './stats.ts'
import { type System, seedKeys, seedTenants } from './system.ts'

/** Throughput with requests spread evenly over many keys. */
export interface ManyKeys {
  /** Whose the keys are. */
  readonly tenants: number
  readonly keysStored: number
  /** Those that the requests use: all that the time for their first use was enough for. */
  readonly keysUsed: number
  /** First uses a second: each is looked up in Redis and then at the keys service. */
  readonly firstUsesPerSecond: number
  /** First uses that were refused: a look-up that takes over a second is given up, and may be tried again. */
  readonly firstUsesRefused: number
  readonly requestsPerSecond: number
  readonly cpuMicroseconds: number | undefined
}

export interface ManyKeysOptions {
  readonly path: string
  readonly upstream: string
  /** Numbers of keys, each with the number of tenants whose they are. */
  readonly counts: readonly { readonly keys: number; readonly tenants: number }[]
  readonly connections: number
  readonly rounds: number
  readonly seconds: number
  /** How long keys are used for the first time, at most: less than a record may be used for, which is ten minutes. */
  readonly fillSeconds: number
}

/** More than are measured with: first uses that come together are looked up together. */
const fillConnections = 256
/** Part of the first uses that may be refused. */
const mostRefused = 0.01
/** What the gateway answers itself: the first uses take no longer than they must. */
const ownPath = '/api/v1/whoami'

/** Measures one gateway, new for each number of keys, with room for all of them in its memory. */
export async function measureManyKeys(system: System, options: ManyKeysOptions): Promise<ManyKeys[]> {
  const results: ManyKeys[] = []
  for (const { keys, tenants } of options.counts) results.push(await measureCount(system, options, keys, tenants))
  return results
}

async function measureCount(
  system: System,
  { path, upstream, connections, rounds, seconds, fillSeconds }: ManyKeysOptions,
  count: number,
  tenants: number,
): Promise<ManyKeys> {
  const all = await seedKeys(system, count, tenants === 1 ? undefined : await seedTenants(system, tenants))
  const pid = await system.restartGateway({
    POSTERN_FINDINGS_URL: upstream,
    POSTERN_MEMORY_ENTRIES: '1100000',
    // Room for a million keys of 2 KiB.
    NODE_OPTIONS: '--max-old-space-size=6144',
  })
  const [gateway] = system.stack.gateways
  const url = `${gateway}${path}`
  const first = await runOwn({
    url: `${gateway}${ownPath}`,
    connections: fillConnections,
    seconds: fillSeconds,
    keys: all,
    inOrder: true,
    requests: count,
    mayFail: mostRefused,
  })
  const keys = { ...all, count: Math.min(count, first.requests) }
  // Compiled code and full pools, whatever the number of keys.
  await runOwn({ url, connections, seconds: 2 * seconds, keys })
  const runs: { result: LoadResult; cpu: number | undefined }[] = []
  for (let turn = 0; turn < rounds; turn += 1) {
    const before = cpuOf(pid)
    const result = await runOwn({ url, connections, seconds, keys })
    const after = cpuOf(pid)
    runs.push({ result, cpu: before === undefined || after === undefined ? undefined : after - before })
  }
  const cpu = runs.flatMap(({ result, cpu: used }) => (used === undefined ? [] : used / result.requests))
  return {
    tenants,
    keysStored: count,
    keysUsed: keys.count,
    firstUsesPerSecond: Math.round(first.requests / first.seconds),
    firstUsesRefused: first.failures,
    requestsPerSecond: Math.round(median(runs.map(({ result }) => result.requests / result.seconds))),
    cpuMicroseconds: cpu.length === 0 ? undefined : round(median(cpu), 1),
  }
}
