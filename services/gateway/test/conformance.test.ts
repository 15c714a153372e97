import { randomInt, randomUUID } from 'node:crypto'
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { generateKey } from '@postern/api-key'
import type { KeyRecord, LeaseAnswer, LeaseRequest, Revocation } from '@postern/contracts/internal'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { createAuthenticate } from '../src/authenticate/authenticate.ts'
import { type Clocks, createDatabaseClock } from '../src/authenticate/clocks.ts'
import { type Floors, createFloors } from '../src/authenticate/floors.ts'
import { createKeyLookup } from '../src/authenticate/key-lookup.ts'
import type { LookupAnswer } from '../src/authenticate/keys-client.ts'
import { type Lease, createLease } from '../src/authenticate/lease.ts'
import type { Exchange } from '../src/exchange.ts'
import { readHeaders } from '../src/sign/read-headers.ts'
import { databaseStart, settle, silent } from './builders.ts'
import { type ChangeKind, KeysModel, RedisModel, type Waiting } from './conformance-keys.ts'

/*
 * Random schedules from the alphabet of test/model/revocation.pml, against the modules of the gateway themselves: what that
 * model says of the protocol holds for this code only as long as the code does what the model says.
 */

/** What may be taken away from the code, to see that it is missed. */
interface Sabotage {
  readonly floors?: (floors: Floors) => Floors
  readonly lease?: (lease: Lease, clocks: Clocks) => Lease
  readonly waits?: 'never' | 'by the wall clock'
}

/** A call that is under way, stage by stage; the last one gives its answer to who waits for it, if somebody does. */
interface Call {
  readonly from: GatewayUnderTest
  readonly stages: (() => void)[]
  readonly fail: () => void
}

/** What a request is owed that arrives at a certain moment. */
interface Owed {
  readonly revoked: boolean
  readonly version: number
  readonly tenantVersion: number
}

const seen = { accepted: 0, refused: 0, unavailable: 0, inForce: 0, acceptedUnderLease: 0, restarts: 0 }

const keysOfTest = ['019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001', '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be002'].map((tenantId) => ({
  ...generateKey(),
  tenantId,
}))

class World {
  readonly keys = new KeysModel(databaseStart, keysOfTest)
  readonly redis = new RedisModel()
  readonly gateways: GatewayUnderTest[]
  readonly violations: string[] = []
  calls: Call[] = []
  /** Records that are on their way into Redis. */
  fills: KeyRecord[] = []
  waiting: Waiting[] = []
  readonly sabotage: Sabotage
  /** Whether machines are suspended in this schedule, or wall clocks set back: not both. */
  readonly canSuspend: boolean
  readonly #owed = new Map<string, { revoked: boolean; version: number }>()
  readonly #owedTenants = new Map<string, number>()

  constructor(sabotage: Sabotage, rates: readonly number[], canSuspend: boolean) {
    this.sabotage = sabotage
    this.canSuspend = canSuspend
    this.gateways = rates.map((rate) => new GatewayUnderTest(this, rate))
  }

  pass(ms: number, suspended?: GatewayUnderTest): void {
    this.keys.time += ms
    for (const gateway of this.gateways) gateway.pass(ms, gateway === suspended)
  }

  commit(): void {
    const change = this.keys.commit()
    if (change === undefined) return
    this.waiting.push(change)
    if (change.entry.kind !== 'key') return
    const tombstone = this.keys.findKey(change.entry.hash)
    if (tombstone !== null) this.fills.push(tombstone)
  }

  /** A success is given to whoever waits for it, and from here on counts for every request. */
  look(): void {
    const { inForce } = seen
    this.waiting = this.waiting.filter((change) => {
      const isInForce = this.#isInForce(change)
      if (!isInForce) {
        if (this.keys.time >= change.committedAt + 2000)
          this.violations.push('a lease outlived the change it had not seen')
        return true
      }
      seen.inForce += 1
      const { entry } = change
      if (entry.kind === 'tenant') {
        this.#owedTenants.set(entry.tenantId, Math.max(this.#owedTenants.get(entry.tenantId) ?? 1, entry.version))
      } else {
        const owed = this.#owed.get(entry.hash)
        this.#owed.set(entry.hash, {
          revoked: entry.revoked || owed?.revoked === true,
          version: Math.max(owed?.version ?? 1, entry.version),
        })
      }
      return false
    })
    if (seen.inForce > inForce) this.requestAll()
  }

  #isInForce(change: Waiting): boolean {
    const { waits } = this.sabotage
    if (waits === 'by the wall clock') return this.keys.isInForceByWallClock(change)
    return waits === 'never' || this.keys.isInForce(change)
  }

  requestAll(): void {
    for (const gateway of this.gateways) for (const index of keysOfTest.keys()) gateway.request(index)
  }

  owed(hash: string, tenantId: string): Owed {
    const { revoked, version } = this.#owed.get(hash) ?? { revoked: false, version: 1 }
    return { revoked, version, tenantVersion: this.#owedTenants.get(tenantId) ?? 1 }
  }

  restart(gateway: GatewayUnderTest, isStopped: boolean): void {
    const next = new GatewayUnderTest(this, gateway.rate)
    gateway.end(isStopped)
    this.gateways[this.gateways.indexOf(gateway)] = next
    seen.restarts += 1
  }

  /** A while in which nothing goes wrong. */
  async quiet(gateway: GatewayUnderTest): Promise<void> {
    for (let step = 0; step < 40; step += 1) {
      gateway.fire()
      await settle()
      const call = this.calls.find(({ from }) => from === gateway)
      if (call === undefined) return
      this.advance(call)
      await settle()
    }
  }

  advance(call: Call): void {
    call.stages.shift()?.()
    if (call.stages.length === 0) this.drop(call)
  }

  drop(call: Call): void {
    this.calls = this.calls.filter((each) => each !== call)
  }
}

/** The modules of one gateway process, wired as run-gateway.ts wires them. */
class GatewayUnderTest {
  readonly rate: number
  readonly floors: Floors
  readonly lease: Lease
  readonly clearLookup: () => void
  readonly #world: World
  readonly #id = randomUUID()
  readonly #authenticate: ReturnType<typeof createAuthenticate>
  #monotonic = 5000
  #wall = 1_700_000_000_000
  #timer: { readonly due: number; readonly task: () => void } | undefined
  #isDead = false

  constructor(world: World, rate: number) {
    this.#world = world
    this.rate = rate
    const clocks: Clocks = { monotonic: () => this.#monotonic, wall: () => this.#wall }
    const databaseClock = createDatabaseClock(clocks)
    const { sabotage } = world
    const floors = createFloors(clocks, databaseClock)
    this.floors = sabotage.floors?.(floors) ?? floors
    const lease = createLease({
      gateway: this.#id,
      name: 'test',
      clocks,
      timers: {
        after: (ms, task) => {
          const timer = { due: this.#monotonic + ms, task }
          this.#timer = timer
          return () => {
            if (this.#timer === timer) this.#timer = undefined
          }
        },
      },
      floors: this.floors,
      databaseClock,
      renew: async (request) => await this.#renew(request),
      onReset: () => this.clearLookup(),
      logger: silent,
    })
    this.lease = sabotage.lease?.(lease, clocks) ?? lease
    const lookup = createKeyLookup({
      lease: this.lease,
      floors: this.floors,
      clocks,
      // The world itself says which answers do not come in time.
      timers: { after: () => () => undefined },
      databaseClock,
      redis: { find: async (hash) => await this.#askRedis(hash) },
      keys: { findKey: async (hash) => await this.#askKeys(hash) },
      maxEntries: 10,
      count: () => undefined,
    })
    this.clearLookup = lookup.clear
    this.#authenticate = createAuthenticate({
      keys: lookup,
      tenants: { obtain: async () => ({ kind: 'unavailable' }), clear: () => undefined },
      tokens: undefined,
      floors: this.floors,
      databaseClock,
      rateLimit: { take: async () => ({ kind: 'allowed' }) },
      failedAttempts: { note: () => undefined, waitSeconds: () => 0 },
      usage: { denied: () => undefined },
      found: { inMemory: 0 },
      onCrash: (_exchange, error) => void world.violations.push(`crash: ${String(error)}`),
    })
    lease.start()
  }

  /** Time goes by; in a suspended virtual machine the monotonic clock stands still. */
  pass(ms: number, isSuspended: boolean): void {
    if (!isSuspended) this.#monotonic += ms * this.rate
    this.#wall += ms * (isSuspended ? 1 : this.rate)
  }

  setBack(ms: number): void {
    this.#wall -= ms
  }

  /** Milliseconds until the next renewal. */
  get dueMs(): number {
    return this.#timer === undefined ? 0 : Math.max(0, this.#timer.due - this.#monotonic)
  }

  fire(): void {
    const timer = this.#timer
    if (timer === undefined || timer.due > this.#monotonic) return
    this.#timer = undefined
    timer.task()
  }

  hear(revocation: Revocation): void {
    this.lease.receive(revocation)
  }

  end(isStopped: boolean): void {
    if (isStopped) {
      this.lease.stop()
      this.#begin([() => this.#world.keys.release(this.#id)], () => undefined)
    }
    this.#isDead = true
    this.#timer = undefined
  }

  /** A request with the key arrives. */
  request(index: number): void {
    const world = this.#world
    const key = keysOfTest[index % keysOfTest.length]
    const row = world.keys.keys[index % keysOfTest.length]
    if (key === undefined || row === undefined) throw new Error('no key')
    const owed = world.owed(key.hash, key.tenantId)
    const request = new IncomingMessage(new Socket())
    const exchange: Exchange = {
      request,
      response: new ServerResponse(request),
      method: 'GET',
      target: '/',
      requestId: 'test',
      startedAt: 0,
      headers: readHeaders(['authorization', `ApiKey ${key.value}`]),
      address: '192.0.2.1',
      match: { kind: 'none' },
      route: undefined,
      principal: undefined,
      limits: undefined,
      span: undefined,
    }
    this.#authenticate(exchange, {
      accepted: (_exchange, principal) => {
        if (this.#isDead) return 'done'
        seen.accepted += 1
        if (this.lease.isHeld()) seen.acceptedUnderLease += 1
        const [version = 0, tenantVersion = 0] = principal.label.split(' ').map(Number)
        if (owed.revoked) world.violations.push('accepted after the success of its revoke')
        if (version < owed.version) world.violations.push('accepted as it was before the success of its change')
        if (tenantVersion < owed.tenantVersion) world.violations.push('accepted after the success of its suspension')
        return 'done'
      },
      refused: (_exchange, code) => {
        if (this.#isDead) return
        if (code === 'auth_unavailable') seen.unavailable += 1
        else seen.refused += 1
        if (code === 'key_revoked' && !row.revoked) world.violations.push('refused as revoked, and is not')
        if (code === 'invalid_key') world.violations.push('refused as unknown, and is not')
      },
      limited: () => void world.violations.push('limited'),
    })
  }

  #begin(stages: (() => void)[], fail: () => void): void {
    if (!this.#isDead) this.#world.calls.push({ from: this, stages, fail })
  }

  async #renew(request: LeaseRequest): Promise<LeaseAnswer> {
    const { keys } = this.#world
    const { promise, resolve, reject } = Promise.withResolvers<LeaseAnswer>()
    let commit: (() => boolean) | undefined
    let granted = false
    let answer: LeaseAnswer | undefined
    this.#begin(
      [
        () => (commit = keys.checkLease(request)),
        () => (granted = commit?.() === true),
        () => (answer = keys.readLog(request, granted)),
        () => {
          if (answer !== undefined) resolve(answer)
        },
      ],
      () => reject(new Error('no answer in time')),
    )
    return await promise
  }

  async #askKeys(hash: string): Promise<LookupAnswer> {
    const world = this.#world
    const { promise, resolve, reject } = Promise.withResolvers<LookupAnswer>()
    const sentMonotonic = this.#monotonic
    let answer: LookupAnswer | undefined
    this.#begin(
      [
        () => {
          const record = world.keys.findKey(hash)
          answer = { record, now: Math.floor(world.keys.now), sentMonotonic }
          if (record !== null) world.fills.push(record)
        },
        () => {
          if (answer !== undefined) resolve(answer)
        },
      ],
      () => reject(new Error('no answer in time')),
    )
    return await promise
  }

  async #askRedis(hash: string): Promise<KeyRecord | undefined> {
    const world = this.#world
    const { promise, resolve } = Promise.withResolvers<KeyRecord | undefined>()
    let found: KeyRecord | undefined
    this.#begin([() => (found = world.redis.find(hash, world.keys.now)), () => resolve(found)], () =>
      resolve(undefined),
    )
    return await promise
  }
}

/** What can happen next. How often each stands here is how often it comes. */
const alphabet = [
  ...Array<'request'>(5).fill('request'),
  ...Array<'advance'>(12).fill('advance'),
  ...Array<'send'>(5).fill('send'),
  ...Array<'quiet'>(2).fill('quiet'),
  ...Array<'pass'>(5).fill('pass'),
  ...Array<'look'>(2).fill('look'),
  ...Array<'hear'>(2).fill('hear'),
  ...Array<'fill'>(3).fill('fill'),
  ...(['change', 'commit', 'lose', 'abandon', 'restart', 'shift', 'step', 'forget', 'prune'] as const),
] as const
type Event = readonly [name: (typeof alphabet)[number], one: number, other: number]

const spans = [1, 40, 100, 300, 500, 900, 1000, 1940, 1960, 2000, 2060, 400_000, 1_300_000]
const kinds: readonly ChangeKind[] = ['revoke', 'revoke', 'narrow', 'tenant']

function pick<T>(all: readonly T[], index: number): T | undefined {
  return all[index % all.length]
}

async function happen(world: World, [name, one, other]: Event): Promise<void> {
  const gateway = pick(world.gateways, one)
  const call = pick(world.calls, one)
  const key = pick(world.keys.keys, other)
  if (gateway === undefined || key === undefined) throw new Error('an empty world')
  switch (name) {
    case 'request':
      gateway.request(other)
      break
    case 'advance':
      if (call !== undefined) world.advance(call)
      break
    case 'send':
      // The next renewal of one gateway, as soon as it may.
      world.pass(Math.ceil(gateway.dueMs / gateway.rate))
      gateway.fire()
      // It may get as far as an answer that is late.
      for (let stage = other % 4; stage > 0; stage -= 1) {
        const renewal = world.calls.findLast(({ from }) => from === gateway)
        if (renewal !== undefined && renewal.stages.length > 1) world.advance(renewal)
      }
      break
    case 'quiet':
      await world.quiet(gateway)
      break
    case 'pass':
      // The long spans, which empty every cache, come seldom.
      world.pass(pick(other % 16 === 0 ? spans : spans.slice(0, -2), one) ?? 0)
      break
    case 'shift':
      // Either clock can be wrong, and the other one is there for that.
      if (world.canSuspend) world.pass(pick(spans, other) ?? 0, gateway)
      else gateway.setBack(3_600_000)
      break
    case 'step':
      // Somebody sets the database's clock, by an hour at most.
      world.keys.step(pick([3_600_000, -3_600_000, 3000, -3000], one) ?? 0)
      break
    case 'change':
      world.keys.begin(pick(kinds, one) ?? 'revoke', key)
      break
    case 'commit':
      world.commit()
      break
    case 'look':
      world.look()
      break
    case 'hear': {
      // Any that ever was, the newest above all.
      const message = other % 2 === 0 ? world.keys.log.at(-1) : pick(world.keys.log, other)
      if (message !== undefined) gateway.hear(message.entry)
      break
    }
    case 'fill': {
      const record = pick(world.fills, one)
      if (record === undefined) break
      world.redis.store(record, world.keys.now)
      // Sometimes it comes once more.
      if (other % 4 !== 0) world.fills = world.fills.filter((each) => each !== record)
      break
    }
    case 'lose':
      if (call === undefined) break
      world.drop(call)
      call.fail()
      break
    case 'abandon':
      // The client gives up, the keys service does not.
      call?.fail()
      break
    case 'restart':
      world.restart(gateway, other % 2 === 0)
      break
    case 'forget':
      world.redis.forget()
      break
    case 'prune':
      world.keys.prune()
      for (const each of world.gateways) each.floors.prune()
      break
    default:
      name satisfies never
  }
  await settle()
}

/** One change, and what goes on around it. */
interface Episode {
  /** It begins with gateways that hold leases and know the keys. */
  readonly isWarm: boolean
  readonly before: readonly Event[]
  readonly kind: ChangeKind
  readonly key: number
  /** Whether the other key changes as well, in the next transaction. */
  readonly isDouble: boolean
  readonly after: readonly Event[]
  /** Whether nothing more is heard of anybody until the last lease has ended. */
  readonly isWaitedOut: boolean
  readonly late: readonly Event[]
}

interface Schedule {
  readonly rates: readonly number[]
  readonly canSuspend: boolean
  readonly episodes: readonly Episode[]
}

/** Plays a schedule and gives what went wrong. */
async function play({ rates, canSuspend, episodes }: Schedule, sabotage: Sabotage): Promise<string[]> {
  const world = new World(sabotage, rates, canSuspend)
  const go = async (all: readonly Event[]): Promise<void> => {
    for (const event of all) if (world.violations.length === 0) await happen(world, event)
  }
  for (const { isWarm, before, kind, key, isDouble, after, isWaitedOut, late } of episodes) {
    if (isWarm) {
      world.pass(500)
      for (const gateway of world.gateways) await world.quiet(gateway)
      world.requestAll()
      for (const gateway of world.gateways) await world.quiet(gateway)
    }
    await go(before)
    for (const index of isDouble ? [key, key + 1] : [key]) {
      const row = pick(world.keys.keys, index)
      if (row !== undefined) world.keys.begin(kind, row)
      world.commit()
    }
    await go(after)
    if (isWaitedOut) world.pass(world.keys.lastEnd() - world.keys.time)
    world.look()
    await go(late)
  }
  return world.violations
}

function events(maxLength: number): fc.Arbitrary<Event[]> {
  return fc.array(fc.tuple(fc.constantFrom(...alphabet), fc.nat(1000), fc.nat(1000)), { maxLength, size: 'max' })
}

const schedules: fc.Arbitrary<Schedule> = fc.record({
  // Clocks that run up to two in a hundred fast or slow, which is what the margin of a lease allows for.
  rates: fc.array(fc.constantFrom(0.98, 1, 1.02), { minLength: 2, maxLength: 2 }),
  canSuspend: fc.boolean(),
  episodes: fc.array(
    fc.record({
      isWarm: fc.boolean(),
      before: events(10),
      kind: fc.constantFrom<ChangeKind>('revoke', 'revoke', 'narrow', 'tenant'),
      key: fc.nat(1),
      isDouble: fc.boolean(),
      after: events(10),
      isWaitedOut: fc.boolean(),
      late: events(8),
    }),
    { minLength: 1, maxLength: 4, size: 'max' },
  ),
})

const seed = Number(process.env['POSTERN_SEED'] ?? randomInt(2 ** 31))

async function explore(numRuns: number, sabotage: Sabotage = {}) {
  return await fc.check(
    fc.asyncProperty(schedules, async (schedule) => {
      expect(await play(schedule, sabotage)).toEqual([])
    }),
    { seed, numRuns, endOnFailure: Object.keys(sabotage).length > 0 },
  )
}

afterAll(() => {
  process.stdout.write(`schedules of revocation: POSTERN_SEED=${seed} ${JSON.stringify(seen)}\n`)
})

describe('no request is accepted after the success of a change that forbids it', () => {
  test('whatever is late, lost, repeated, restarted or suspended', { timeout: 180_000 }, async () => {
    const run = await explore(800)
    expect(run.failed, fc.defaultReportMessage(run)).toBe(false)
    // Each way of the protocol was gone.
    for (const [name, count] of Object.entries(seen)) expect(count, name).toBeGreaterThan(50)
  })
})

describe('the schedules find a gateway', () => {
  const sabotages: Readonly<Record<string, Sabotage>> = {
    'without floors': { floors: (floors) => ({ ...floors, standing: () => 'valid', isRevoked: () => false }) },
    'that never loses its lease': { lease: (lease) => ({ ...lease, isHeld: () => true }) },
    'that is not waited for': { waits: 'never' },
    'whose lease is judged by a clock that may be set': { waits: 'by the wall clock' },
    'that acknowledges what it does not apply': { floors: (floors) => ({ ...floors, apply: () => undefined }) },
  }
  test.each(Object.entries(sabotages))('%s', { timeout: 180_000 }, async (_title, sabotage) => {
    expect((await explore(1000, sabotage)).failed).toBe(true)
  })
})
