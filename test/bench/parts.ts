import { randomBytes } from 'node:crypto'
import { generateKey } from '@postern/api-key'
import type { KeyRecord } from '@postern/contracts/internal'
import { createAssertionMinter, createSigner, canonicalTarget, parseKeyRing } from '@postern/signed-context'
import { systemClocks, createDatabaseClock } from '../../services/gateway/src/authenticate/clocks.ts'
import { parseCredentials } from '../../services/gateway/src/authenticate/credentials.ts'
import { decideKey } from '../../services/gateway/src/authenticate/decide.ts'
import { createFloors } from '../../services/gateway/src/authenticate/floors.ts'
import { createKeyLookup } from '../../services/gateway/src/authenticate/key-lookup.ts'
import { systemTimers } from '../../services/gateway/src/authenticate/lease.ts'
import { denialOf } from '../../services/gateway/src/authorize/access.ts'
import { createRouteMatcher } from '../../services/gateway/src/authorize/route-match.ts'
import { createRateLimit } from '../../services/gateway/src/limit/rate-limit.ts'
import { readHeaders } from '../../services/gateway/src/sign/read-headers.ts'
import { runOwn } from './load.ts'
import { cpuOf } from './processes.ts'
import { median, round } from './stats.ts'
import { type System, seedKeys } from './system.ts'

/** What one part of a request costs, in microseconds of CPU. */
interface Part {
  readonly name: string
  readonly cpuMicroseconds: number
}

/** A request taken apart. */
export interface Parts {
  /** Each by itself, in a loop of its own. */
  readonly alone: readonly Part[]
  /** A request that the gateway answers itself, and one that it forwards: of the whole process, from outside. */
  readonly answered: number | undefined
  readonly forwarded: number | undefined
  /** What a request costs that is in none of the parts: HTTP on the client's side, metrics, and the answer's way. */
  readonly http: number | undefined
  /** What forwarding adds, without the signature: HTTP on the service's side. */
  readonly forward: number | undefined
}

const keyCount = 1000
const perRound = 50_000
const rounds = 7
const target = '/api/v1/findings'

/** Times `task`, which is given ever other numbers, by the CPU that it takes: what else runs meanwhile matters little. */
function costOf(name: string, task: (turn: number) => unknown): Part {
  const costs: number[] = []
  let kept: unknown
  for (let at = 0; at <= rounds; at += 1) {
    const before = process.cpuUsage()
    for (let turn = 0; turn < perRound; turn += 1) kept = task(turn)
    const { user, system } = process.cpuUsage(before)
    // The first round is for the compiler.
    if (at > 0) costs.push((user + system) / perRound)
  }
  if (kept === undefined) throw new Error(`${name} did nothing`)
  return { name, cpuMicroseconds: round(median(costs), 3) }
}

function nth<T>(all: readonly T[], turn: number): T {
  const one = all[turn % all.length]
  if (one === undefined) throw new Error('there are none')
  return one
}

function recordOf(hash: KeyRecord['hash'], now: number): KeyRecord {
  return {
    hash,
    id: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be002',
    tenantId: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001',
    tenantName: 'bench',
    tenantStatus: 'active',
    tenantVersion: 1,
    label: 'bench',
    lastFour: 'abcd',
    scopes: ['read:findings'],
    allowedAddresses: [],
    expiresAt: now + 86_400_000,
    revoked: false,
    version: 1,
    readAt: now,
    keyLimit: 2_000_000_000,
    tenantLimit: 2_000_000_000,
  }
}

/** Measures the gateway's own modules in this process, wired as run-gateway.ts wires them, without I/O. */
async function measureAlone(): Promise<Part[]> {
  const clocks = systemClocks
  const databaseClock = createDatabaseClock(clocks)
  const now = Date.now()
  databaseClock.observe(now, clocks.monotonic())
  const floors = createFloors(clocks, databaseClock)
  const keys = Array.from({ length: keyCount }, () => generateKey())
  const lookup = createKeyLookup({
    lease: {
      isHeld: () => true,
      remainingMs: () => 1000,
      receive: () => undefined,
      start: () => undefined,
      stop: () => undefined,
    },
    floors,
    clocks,
    timers: systemTimers,
    databaseClock,
    redis: { find: async () => undefined },
    keys: {
      findKey: async (hash) => ({ record: recordOf(hash, now), now, sentMonotonic: clocks.monotonic() }),
    },
    maxEntries: 2 * keyCount,
    count: () => undefined,
  })
  for (const { hash } of keys) await lookup.obtain(hash)
  const entries = keys.map(({ hash }) => {
    const entry = lookup.find(hash)
    if (entry === undefined) throw new Error('a key is not in memory')
    return entry
  })
  const rateLimit = createRateLimit({
    source: { lease: async () => ({ granted: 1_000_000_000, left: 1_000_000_000, windowLeftMs: 3_600_000 }) },
    clocks,
    gatewayCount: 1,
  })
  const limits = entries.map(({ principal }) => rateLimit.limitsOf(principal))
  for (const one of limits) await rateLimit.take(one)
  const matchRoute = createRouteMatcher()
  const route = matchRoute('GET', target)
  if (route.kind !== 'route') throw new Error('there is no such route')
  const ring = parseKeyRing(`k1:${randomBytes(32).toString('base64url')}`)
  const signer = createSigner(ring, 'findings')
  const mint = createAssertionMinter(ring)
  const raw = keys.map(({ value }) => ['Host', '127.0.0.1:8080', 'Authorization', `ApiKey ${value}`])
  return [
    costOf('parse: headers, target, route', (turn) => {
      const headers = readHeaders(nth(raw, turn))
      const canonical = canonicalTarget(target, 8192)
      return canonical.ok && matchRoute('GET', canonical.path) && headers
    }),
    costOf('parse: the key and its checksum', (turn) => parseCredentials(`ApiKey ${nth(keys, turn).value}`)),
    costOf('hash', (turn) => {
      const credentials = parseCredentials(`ApiKey ${nth(keys, turn).value}`)
      return credentials.kind === 'api_key' ? credentials.key.hash : undefined
    }),
    costOf('look-up and decision', (turn) => {
      const entry = lookup.find(nth(keys, turn).hash)
      if (entry === undefined || decideKey(entry, floors, databaseClock, '127.0.0.1') !== 'accepted') return undefined
      return denialOf(route.route, entry.principal) ?? entry
    }),
    costOf('limit', (turn) => rateLimit.tryTake(nth(limits, turn)) || undefined),
    costOf('sign', (turn) => {
      const { principal } = nth(entries, turn)
      return signer.sign(
        {
          method: 'GET',
          target,
          context: principal.context,
          assertion: mint(principal.tenantId, now),
          requestId: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be003',
        },
        now,
      )
    }),
  ].map((part, at, all) => {
    // A key is parsed on the way to its hash.
    const parsed = all[at - 1]
    return part.name === 'hash' && parsed !== undefined
      ? { ...part, cpuMicroseconds: round(Math.max(0, part.cpuMicroseconds - parsed.cpuMicroseconds), 3) }
      : part
  })
}

/** Takes a request apart, so that what has become dearer has a name. */
export async function measureParts(
  system: System,
  options: {
    readonly upstream: string
    readonly connections: number
    readonly rounds: number
    readonly seconds: number
  },
): Promise<Parts> {
  const keys = await seedKeys(system, 1)
  const pid = await system.restartGateway({ POSTERN_FINDINGS_URL: options.upstream })
  const [gateway] = system.stack.gateways
  const costs = new Map<string, number[]>([
    ['/api/v1/whoami', []],
    [target, []],
  ])
  const load = { connections: options.connections, seconds: options.seconds, keys }
  for (const path of costs.keys()) await runOwn({ ...load, url: `${gateway}${path}` })
  for (let turn = 0; turn < options.rounds; turn += 1) {
    for (const [path, seen] of costs) {
      const before = cpuOf(pid)
      const { requests } = await runOwn({ ...load, url: `${gateway}${path}` })
      const after = cpuOf(pid)
      if (before !== undefined && after !== undefined) seen.push((after - before) / requests)
    }
  }
  const [answered, forwarded] = [...costs.values()].map((seen) =>
    seen.length === 0 ? undefined : round(median(seen), 1),
  )
  const alone = await measureAlone()
  const signed = alone.find(({ name }) => name === 'sign')?.cpuMicroseconds ?? 0
  const own = alone.reduce((sum, { cpuMicroseconds }) => sum + cpuMicroseconds, 0) - signed
  return {
    alone,
    answered,
    forwarded,
    http: answered === undefined ? undefined : round(answered - own, 1),
    forward: answered === undefined || forwarded === undefined ? undefined : round(forwarded - answered - signed, 1),
  }
}
