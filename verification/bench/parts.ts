import { createHash, randomBytes } from 'node:crypto'
import { generateKey } from '@postern/api-key'
import type { KeyRecord } from '@postern/contracts/internal'
import { createAssertionMinter, createSigner, canonicalTarget, parseKeyRing } from '@postern/signed-context'
import { systemClocks, createDatabaseClock } from '../../services/gateway/src/authenticate/clocks.ts'
import { parseCredentials } from '../../services/gateway/src/authenticate/credentials.ts'
import { decideKey } from '../../services/gateway/src/authenticate/decide.ts'
import { createRevocationWatermarks } from '../../services/gateway/src/authenticate/revocation-watermarks.ts'
import { createKeyLookup } from '../../services/gateway/src/authenticate/key-lookup.ts'
import { systemTimers } from '../../services/gateway/src/authenticate/lease.ts'
import { createRouteMatcher, denialOf } from '../../packages/service-kit/src/access/index.ts'
import { createRateLimit } from '../../services/gateway/src/limit/rate-limit.ts'
import { readHeaders } from '../../services/gateway/src/sign/read-headers.ts'
import { runOwn } from './load.ts'
import { startHttpProxy } from './peers/peers.ts'
import { type Peer, cpuOf } from './processes.ts'
import { median, round } from './stats.ts'
import { type System, seedKeys } from './system.ts'

interface Part {
  readonly name: string
  readonly cpuMicroseconds: number
}

export interface Parts {
  readonly yardsticks: {
    readonly processor: number
    /** Through plain `@fastify/http-proxy`. */
    readonly http: number | undefined
  }
  readonly alone: readonly Part[]
  readonly answered: number | undefined
  readonly forwarded: number | undefined
  readonly http: number | undefined
  readonly forward: number | undefined
}

const keyCount = 1000
const leastPerRound = 50_000
const leastRound = 40_000
const rounds = 7
const starts = 3
const target = '/api/v1/findings'

function costOf(name: string, task: (turn: number) => unknown): Part {
  const costs: number[] = []
  let kept: unknown
  const time = (turns: number): number => {
    const before = process.cpuUsage()
    for (let turn = 0; turn < turns; turn += 1) kept = task(turn)
    const { user, system } = process.cpuUsage(before)
    return user + system
  }
  time(leastPerRound)
  const perRound = Math.ceil(leastPerRound * Math.max(1, leastRound / Math.max(1, time(leastPerRound))))
  for (let at = 0; at < rounds; at += 1) costs.push(time(perRound) / perRound)
  if (kept === undefined) throw new Error(`${name} did nothing`)
  return { name, cpuMicroseconds: round(median(costs), 3) }
}

function nth<T>(all: readonly T[], turn: number): T {
  const one = all[turn % all.length]
  if (one === undefined) throw new Error('there are none')
  return one
}

const sample = {
  method: 'GET',
  target,
  context: { tenant: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001', scopes: ['read:findings'] },
}

function yardstick(turn: number): unknown {
  const made = JSON.stringify({ ...sample, turn })
  return JSON.parse(made) && createHash('sha256').update(made).digest('base64url')
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

/** Wired like run-gateway.ts, without I/O. */
async function measureAlone(): Promise<Part[]> {
  const clocks = systemClocks
  const databaseClock = createDatabaseClock(clocks)
  const now = Date.now()
  databaseClock.observe(now, clocks.monotonic())
  const watermarks = createRevocationWatermarks(clocks, databaseClock)
  const keys = Array.from({ length: keyCount }, () => generateKey())
  const lookup = createKeyLookup({
    lease: {
      isHeld: () => true,
      remainingMs: () => 1000,
      gateways: () => 1,
      receive: () => undefined,
      start: () => undefined,
      stop: () => undefined,
    },
    watermarks,
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
    source: {
      isHealthy: () => true,
      lease: async () => ({ granted: 1_000_000_000, left: 1_000_000_000, windowLeftMs: 3_600_000 }),
    },
    clocks,
    gateways: () => 1,
  })
  const limits = entries.map(({ principal }) => rateLimit.limitsOf(principal))
  for (const one of limits) await rateLimit.consume(one)
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
      if (entry === undefined || decideKey(entry, watermarks, databaseClock, '127.0.0.1') !== 'accepted')
        return undefined
      return denialOf(route.route, entry.principal) ?? entry
    }),
    costOf('limit', (turn) => rateLimit.tryConsume(nth(limits, turn)) || undefined),
    costOf('sign', (turn) => {
      const { principal } = nth(entries, turn)
      return signer.sign(
        {
          method: 'GET',
          target,
          context: principal.context,
          assertion: mint(principal, now),
          requestId: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be003',
        },
        now,
      )
    }),
  ].map((part, at, all) => {
    const parsed = all[at - 1]
    return part.name === 'hash' && parsed !== undefined
      ? { ...part, cpuMicroseconds: round(Math.max(0, part.cpuMicroseconds - parsed.cpuMicroseconds), 3) }
      : part
  })
}

export async function measureParts(
  system: System,
  options: {
    readonly upstream: Peer
    readonly connections: number
    readonly rounds: number
    readonly seconds: number
  },
): Promise<Parts> {
  const keys = await seedKeys(system, 1)
  const ways: { readonly path: string; readonly isGateway: boolean; readonly seen: number[] }[] = [
    { path: '/api/v1/whoami', isGateway: true, seen: [] },
    { path: target, isGateway: true, seen: [] },
    { path: target, isGateway: false, seen: [] },
  ]
  const load = { connections: options.connections, seconds: options.seconds, settleSeconds: 1, keys }
  for (let start = 0; start < starts; start += 1) {
    const pid = await system.restartGateway({ POSTERN_FINDINGS_URL: options.upstream.url })
    const gateway = { pid, url: system.stack.gateways[0] ?? '' }
    const proxy = await startHttpProxy('@fastify/http-proxy, bare', options.upstream)
    try {
      for (let turn = 0; turn <= options.rounds; turn += 1) {
        for (const { path, isGateway, seen } of ways) {
          const { pid: measured, url } = isGateway ? gateway : proxy
          let before: number | undefined
          const { requests } = await runOwn({ ...load, url: url + path }, () => void (before = cpuOf(measured)))
          const after = cpuOf(measured)
          if (turn > 0 && before !== undefined && after !== undefined) seen.push((after - before) / requests)
        }
      }
    } finally {
      await proxy.stop()
    }
  }
  const [answered, forwarded, http] = ways.map(({ seen }) => (seen.length === 0 ? undefined : round(median(seen), 1)))
  const processor = costOf('the processor', yardstick).cpuMicroseconds
  const alone = await measureAlone()
  const signed = alone.find(({ name }) => name === 'sign')?.cpuMicroseconds ?? 0
  const own = alone.reduce((sum, { cpuMicroseconds }) => sum + cpuMicroseconds, 0) - signed
  return {
    yardsticks: { processor, http },
    alone,
    answered,
    forwarded,
    http: answered === undefined ? undefined : round(answered - own, 1),
    forward: answered === undefined || forwarded === undefined ? undefined : round(forwarded - answered - signed, 1),
  }
}
