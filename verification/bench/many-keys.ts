import { type LoadResult, runOwn } from './load.ts'
import { cpuOf } from './processes.ts'
import { median, round } from './stats.ts'
import { type System, seedKeys, seedTenants } from './system.ts'

export interface ManyKeys {
  readonly tenants: number
  readonly keysStored: number
  readonly keysUsed: number
  readonly firstUsesPerSecond: number
  /** A look-up of more than a second is abandoned. */
  readonly firstUsesRefused: number
  readonly requestsPerSecond: number
  readonly cpuMicroseconds: number | undefined
}

export interface ManyKeysOptions {
  readonly path: string
  readonly upstream: string
  readonly counts: readonly { readonly keys: number; readonly tenants: number }[]
  readonly connections: number
  readonly rounds: number
  readonly seconds: number
  readonly fillSeconds: number
}

/** Concurrent first uses are batched. */
const fillConnections = 256
const mostRefused = 0.01
const ownPath = '/api/v1/whoami'

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
    // Memory for a million keys of 2 KiB.
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
  // Compiles code and fills pools.
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
