import { generateKey } from '@postern/api-key'
import { type Measured, type Ratio, compare, ratio } from './compare.ts'
import { type System, seedKeys, seedTenants, startSystem } from './system.ts'

/** One hot set of keys at gateways whose databases hold few keys, many, or those of many tenants. */
export interface HotKeys {
  /** Keys that the requests use, the same everywhere: all are in memory when it is measured. */
  readonly hot: number
  readonly stored: readonly { readonly name: string; readonly keys: number; readonly tenants: number }[]
  readonly measured: readonly Measured[]
  /** Two gateways before the same database: what a difference is worth. */
  readonly sameAgainstSame: Ratio
  readonly against: readonly { readonly name: string; readonly ratio: Ratio; readonly verdict: string }[]
}

export interface HotKeysOptions {
  readonly path: string
  readonly upstream: string
  readonly hot: number
  readonly many: number
  readonly tenants: number
  /** Keys of the many tenants. */
  readonly tenantKeys: number
  readonly connections: number
  readonly starts: number
  readonly rounds: number
  readonly seconds: number
  readonly warmUpSeconds: number
}

/** The most that keys and tenants may cost, and the most that two of the same may differ for that to be told. */
const mostSlower = 0.1
const tolerance = 0.05

/** Whether a gateway is slowed down by what else is stored; by throughput and by processor time, whichever is worse. */
export function slowdownVerdict({ throughput, cpu }: Ratio, same: Ratio): string {
  const apart = Math.max(...[same.throughput, same.cpu ?? 1].map((each) => Math.abs(each - 1)))
  if (apart > tolerance) {
    return `none: two gateways before the same keys differ by ${Math.round(apart * 100)} %, more than ${tolerance * 100} %`
  }
  const slower = Math.round((1 - Math.min(throughput, cpu ?? throughput)) * 1000) / 10
  return `less than ${mostSlower * 100} % slower: ${slower < mostSlower * 100 ? 'yes' : 'NO'} (${slower} %)`
}

/**
 * Measures the same hot keys before three databases in turns, all gateways started anew each time: the hot ones alone, many
 * keys of one tenant, keys of many tenants. A fourth gateway has the first database too.
 */
export async function measureHotKeys(options: HotKeysOptions): Promise<HotKeys> {
  const { path, upstream, hot, many, tenants, tenantKeys, connections } = options
  const seed = generateKey().value
  const systems: System[] = []
  try {
    for (const gateways of [2, 1, 1]) systems.push(await startSystem(gateways))
    const [few, full, crowded] = systems
    if (few === undefined || full === undefined || crowded === undefined) throw new Error('nothing was started')
    const keys = await seedKeys(few, hot, undefined, seed)
    await seedKeys(full, many, undefined, seed)
    await seedKeys(crowded, tenantKeys, await seedTenants(crowded, tenants), seed)
    // As after the daily work of PostgreSQL, whatever is stored.
    for (const { sql } of systems) await sql.query('vacuum analyze keys.api_key')
    const stored = [
      { name: `${hot} keys stored`, keys: hot, tenants: 1 },
      { name: `${many} keys stored`, keys: many, tenants: 1 },
      { name: `${tenantKeys} keys of ${tenants} tenants stored`, keys: tenantKeys, tenants },
    ]
    const again = `${hot} keys stored, again`
    const start = async (system: System, name: string, gateway: 'gateway-1' | 'gateway-2' = 'gateway-1') => {
      const pid = await system.restartGateway({ POSTERN_FINDINGS_URL: upstream }, gateway)
      return { name, pid, url: system.stack.gateways[gateway === 'gateway-1' ? 0 : 1] ?? '' }
    }
    const measured = await compare(
      async () => ({
        targets: [
          await start(few, stored[0]?.name ?? ''),
          await start(full, stored[1]?.name ?? ''),
          await start(crowded, stored[2]?.name ?? ''),
          await start(few, again, 'gateway-2'),
        ],
        stop: async () => undefined,
      }),
      { ...options, path, keys, connections },
    )
    const [one, ...others] = measured
    const same = measured.find(({ name }) => name === again)
    if (one === undefined || same === undefined) throw new Error('nothing was measured')
    const sameAgainstSame = ratio(same, [one], one.name)
    return {
      hot,
      stored,
      measured,
      sameAgainstSame,
      against: others
        .filter(({ name }) => name !== again)
        .map((other) => {
          const found = ratio(other, [one, same], one.name)
          return { name: other.name, ratio: found, verdict: slowdownVerdict(found, sameAgainstSame) }
        }),
    }
  } finally {
    for (const system of systems.toReversed()) await system.stop()
  }
}
