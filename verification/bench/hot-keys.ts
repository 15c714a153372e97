import { findFreePort } from '@postern/local-stack/testing'
import { type Measured, type Ratio, type Started, type Target, compare, ratio } from './compare.ts'
import { type Hits, hitsApart, readHits, sharesOf } from './hits.ts'
import type { KeySet } from './key-set.ts'
import { openTurns, runOwn } from './load.ts'
import { round } from './stats.ts'
import { type System, seedKeys, seedTenants, startSystem } from './system.ts'
import { verdict } from './verdicts.ts'

export interface HotKeys {
  readonly title: string
  readonly measured: readonly Measured[]
  readonly shares: Readonly<Record<string, Hits>>
  /** Two gateways with the same database. */
  readonly sameAgainstSame: Ratio
  readonly against: readonly {
    readonly name: string
    readonly ratio: Ratio
    /** In percentage points. */
    readonly hitsApart: number
    readonly verdict: string
  }[]
}

export interface HotKeysOptions {
  readonly path: string
  readonly upstream: string
  readonly many: number
  readonly used: number
  readonly tenants: number
  readonly starts: number
  readonly missing: {
    readonly hot: number
    readonly few: number
    /** The others are in memory. */
    readonly oneIn: number
    readonly starts: number
  }
  readonly connections: number
  readonly rounds: number
  readonly seconds: number
  readonly pieces: number
  readonly warmUpSeconds: number
}

/** Also the most noise at which a result is judged. */
const mostSlower = 0.1
const tolerance = 0.05
/** In percentage points. */
const mostHitsApart = 0.5
const fillSeconds = 60
const fillPath = '/api/v1/whoami'

export function slowdownVerdict({ throughput, cpu }: Ratio, same: Ratio, pointsApart: number): string {
  if (!(pointsApart <= mostHitsApart)) {
    return verdict('as many keys found at each level', false, `${round(pointsApart, 2)} percentage points apart`)
  }
  const apart = Math.max(...[same.throughput, same.cpu ?? 1].map((each) => Math.abs(each - 1)))
  if (apart > tolerance) {
    return `none: two gateways before the same keys differ by ${Math.round(apart * 100)} %, more than ${tolerance * 100} %`
  }
  const slower = Math.round((1 - Math.min(throughput, cpu ?? throughput)) * 1000) / 10
  return verdict(`less than ${mostSlower * 100} % slower`, slower < mostSlower * 100, `${slower} %`)
}

interface Side {
  readonly name: string
  readonly system: System
  readonly gateway: 'gateway-1' | 'gateway-2'
  readonly keys: KeySet
  readonly tail?: Tail
}

interface Tail {
  readonly oneIn: number
  readonly count: number
  readonly from: number
}

const tailOfStart = 20_000

/** The same side is both first and last. */
async function measureSides(
  title: string,
  sides: readonly Side[],
  options: HotKeysOptions & { readonly env: Readonly<Record<string, string>> },
): Promise<HotKeys> {
  let starts = 0
  const start = async (): Promise<Started> => {
    if (sides.some(({ tail }) => tail !== undefined)) for (const { system } of sides) await system.emptyRedis()
    const targets: (Target & { readonly end: () => Promise<void> })[] = []
    for (const side of sides) targets.push(await startSide(side, options, starts * tailOfStart))
    starts += 1
    const stop = async () => {
      for (const { end } of targets) await end()
    }
    return { targets, stop }
  }
  const [first] = sides
  if (first === undefined) throw new Error('there is nothing to measure')
  const measured = await compare(start, { ...options, keys: first.keys })
  const [one, ...others] = measured
  const again = others.pop()
  if (one === undefined || again === undefined) throw new Error('nothing was measured')
  const sameAgainstSame = ratio(again, [one], one.name)
  return {
    title,
    measured,
    shares: Object.fromEntries(measured.map((each) => [each.name, roundShares(sharesOf(sum(roundsOf(each))))])),
    sameAgainstSame,
    against: others.map((other) => {
      const found = ratio(other, [one, again], one.name)
      const apart = hitsApart([one, other, again].map((each) => sum(roundsOf(each))))
      return {
        name: other.name,
        ratio: found,
        hitsApart: round(apart, 2),
        verdict: slowdownVerdict(found, sameAgainstSame, apart),
      }
    }),
  }
}

function roundsOf({ rounds }: Measured): Hits[] {
  return rounds.flatMap(({ hits }) => (hits === undefined ? [] : [hits]))
}

async function startSide(
  { name, system, gateway, keys, tail }: Side,
  { path, upstream, connections, env }: HotKeysOptions & { readonly env: Readonly<Record<string, string>> },
  used: number,
): Promise<Target & { readonly end: () => Promise<void> }> {
  const adminPort = await findFreePort()
  const pid = await system.restartGateway(
    { POSTERN_FINDINGS_URL: upstream, POSTERN_ADMIN_PORT: String(adminPort), ...env },
    gateway,
  )
  const url = system.stack.gateways[gateway === 'gateway-1' ? 0 : 1] ?? ''
  const fill = { connections, keys, inOrder: true, requests: keys.count, mayFail: 0.01, seconds: fillSeconds }
  await runOwn({ ...fill, url: url + fillPath })
  const turns = openTurns({
    url: url + path,
    connections,
    keys,
    ...(tail === undefined ? {} : { tail: { ...tail, from: (tail.from + used) % tail.count } }),
  })
  return {
    name,
    pid,
    url,
    run: async ({ seconds }) => await turns.take(seconds * 1000),
    hits: async () => await readHits(adminPort),
    end: turns.stop,
  }
}

function sum(all: readonly Hits[]): Hits {
  const total: Record<string, number> = {}
  for (const one of all) for (const [level, count] of Object.entries(one)) total[level] = (total[level] ?? 0) + count
  return total
}

function roundShares(shares: Hits): Hits {
  return Object.fromEntries(Object.entries(shares).map(([level, share]) => [level, round(share)]))
}

export async function measureHotKeys(options: HotKeysOptions): Promise<HotKeys[]> {
  const { many, used, tenants, missing } = options
  const systems: System[] = []
  const begin = async (gateways: number): Promise<System> => {
    const system = await startSystem(gateways)
    systems.push(system)
    return system
  }
  const settle = async (): Promise<void> => {
    // Simulates PostgreSQL's daily maintenance.
    for (const { sql } of systems) await sql.query('vacuum analyze keys.api_key')
  }
  try {
    const [few, full, crowded] = [await begin(2), await begin(1), await begin(1)]
    const single = await seedKeys(few, 1)
    const all = await seedKeys(full, many)
    const spread = await seedKeys(crowded, tenants, await seedTenants(crowded, tenants))
    await settle()
    const none = '1 key of 1 tenant'
    const inMemory = await measureSides(
      'Every key in memory',
      [
        { name: none, system: few, gateway: 'gateway-1', keys: single },
        { name: `${used} keys used of ${many}`, system: full, gateway: 'gateway-1', keys: { ...all, count: used } },
        { name: `${tenants} keys used, of ${tenants} tenants`, system: crowded, gateway: 'gateway-1', keys: spread },
        { name: `${none}, again`, system: few, gateway: 'gateway-2', keys: single },
      ],
      { ...options, env: {} },
    )
    const some = await seedKeys(few, missing.few)
    await settle()
    const { hot, oneIn } = missing
    const ofFew = {
      system: few,
      keys: { ...some, count: hot },
      tail: { oneIn, count: missing.few - hot, from: 0 },
    }
    const farther = { ...ofFew.tail, from: Math.floor(ofFew.tail.count / 2) }
    const withMisses = await measureSides(
      `${hot} keys in memory, and one request in ${oneIn} with a key that only PostgreSQL has`,
      [
        { ...ofFew, name: `${missing.few} keys`, gateway: 'gateway-1' },
        {
          name: `${many} keys`,
          system: full,
          gateway: 'gateway-1',
          keys: { ...all, count: hot },
          tail: { oneIn, count: many - hot, from: 0 },
        },
        { ...ofFew, name: `${missing.few} keys, again`, gateway: 'gateway-2', tail: farther },
      ],
      { ...options, starts: missing.starts, env: { POSTERN_MEMORY_ENTRIES: String(2 * hot) } },
    )
    return [inMemory, withMisses]
  } finally {
    for (const system of systems.toReversed()) await system.stop()
  }
}
