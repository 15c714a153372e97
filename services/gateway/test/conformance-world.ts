import { randomUUID } from 'node:crypto'
import { generateKey } from '@postern/api-key'
import type { KeyRecord, LeaseAnswer, LeaseRequest, Revocation } from '@postern/contracts/internal'
import { KeysModel, RedisModel, type Waiting } from '@postern/local-stack/testing'
import { createAuthenticate } from '../src/authenticate/authenticate.ts'
import { type Clocks, createDatabaseClock } from '../src/authenticate/clocks.ts'
import { type RevocationWatermarks, createRevocationWatermarks } from '../src/authenticate/revocation-watermarks.ts'
import { type KeyLookup, createKeyLookup } from '../src/authenticate/key-lookup.ts'
import type { LookupAnswer } from '../src/authenticate/keys-client.ts'
import { type Lease, createLease } from '../src/authenticate/lease.ts'
import { createPipeline } from '../src/pipeline.ts'
import { readHeaders } from '../src/sign/read-headers.ts'
import { databaseStart, exchangeOf, settle, silent } from './builders.ts'

/** Parts of the code that a test can remove, to see it fail. */
export interface Sabotage {
  readonly watermarks?: (watermarks: RevocationWatermarks) => RevocationWatermarks
  /** `tookMs`: the duration of the last granted renewal, by the gateway's clock. */
  readonly lease?: (lease: Lease, clocks: Clocks, tookMs: () => number) => Lease
  readonly lookup?: (lookup: KeyLookup) => KeyLookup
  /** Replaces a gateway's request; `heard` is the highest number in any message. */
  readonly request?: (request: LeaseRequest, heard: number) => LeaseRequest
  readonly answer?: (answer: LeaseAnswer, request: LeaseRequest) => LeaseAnswer
  /** Whether the log is read before the lease is committed. */
  readonly readsLogFirst?: boolean
  /** Whether a process reuses the id of its predecessor. */
  readonly keepsIdentity?: boolean
  /** Whether a process accepts an answer to its predecessor. */
  readonly takesAnswersOfDead?: boolean
  readonly waits?: 'never' | 'by the wall clock'
}

/** A call in progress, in stages. The last one returns its answer. */
interface Call {
  readonly from: GatewayUnderTest
  readonly stages: (() => void)[]
  readonly fail: () => void
}

/** The allowed outcomes of a request that arrives at a certain moment. */
interface Owed {
  readonly revoked: boolean
  readonly version: number
  readonly tenantVersion: number
}

/** Counts outcomes over all schedules: each must occur. */
export const seen = { accepted: 0, refused: 0, unavailable: 0, inForce: 0, acceptedUnderLease: 0, restarts: 0 }

const noPeople = {
  obtain: async () => await Promise.resolve({ kind: 'unavailable' as const }),
  isCurrent: () => false,
  clear: () => undefined,
}
const noFailures = { note: () => undefined, waitSeconds: () => 0 }

const keysOfTest = ['019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001', '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be002'].map((tenantId) => ({
  ...generateKey(),
  tenantId,
}))

export class World {
  readonly keys = new KeysModel(databaseStart, keysOfTest)
  readonly redis = new RedisModel()
  readonly gateways: GatewayUnderTest[]
  readonly violations: string[] = []
  calls: Call[] = []
  /** Records that are being written to Redis. */
  fills: KeyRecord[] = []
  waiting: Waiting[] = []
  readonly sabotage: Sabotage
  /** A schedule suspends machines or sets wall clocks back, not both. */
  readonly canSuspend: boolean
  readonly #owed = new Map<string, { revoked: boolean; version: number }>()
  readonly #owedTenants = new Map<string, number>()

  constructor(sabotage: Sabotage, rates: readonly number[], canSuspend: boolean) {
    this.sabotage = sabotage
    this.canSuspend = canSuspend
    this.gateways = rates.map((rate) => new GatewayUnderTest(this, rate))
  }

  /** Redis's clock. Only PostgreSQL's is set. */
  get redisNow(): number {
    return databaseStart + this.keys.time
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

  /** Reports successes. From here on they count for every request. `isUsed`: requests arrive at once. */
  look({ isUsed = true } = {}): void {
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
    if (isUsed && seen.inForce > inForce) this.requestAll()
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
    const next = new GatewayUnderTest(this, gateway.rate, this.sabotage.keepsIdentity === true ? gateway.id : undefined)
    gateway.end(isStopped, next)
    this.gateways[this.gateways.indexOf(gateway)] = next
    seen.restarts += 1
  }

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
export class GatewayUnderTest {
  readonly rate: number
  readonly watermarks: RevocationWatermarks
  readonly lease: Lease
  readonly clearLookup: () => void
  readonly #world: World
  readonly id: string
  readonly #authenticate: ReturnType<typeof createAuthenticate>
  #monotonic = 5000
  #wall = 1_700_000_000_000
  #timer: { readonly due: number; readonly task: () => void } | undefined
  #isDead = false
  #next: GatewayUnderTest | undefined
  #heard = 0
  #tookMs = 0
  #renewal: ((answer: LeaseAnswer) => void) | undefined

  constructor(world: World, rate: number, id: string = randomUUID()) {
    this.id = id
    this.#world = world
    this.rate = rate
    const clocks: Clocks = { monotonic: () => this.#monotonic, wall: () => this.#wall }
    const databaseClock = createDatabaseClock(clocks, () => this.clearLookup())
    const { sabotage } = world
    const watermarks = createRevocationWatermarks(clocks, databaseClock)
    this.watermarks = sabotage.watermarks?.(watermarks) ?? watermarks
    const lease = createLease({
      gateway: id,
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
      watermarks: this.watermarks,
      databaseClock,
      renew: async (request) => await this.#renew(request),
      usageIsLate: () => false,
      onReset: () => this.clearLookup(),
      logger: silent,
    })
    this.lease = sabotage.lease?.(lease, clocks, () => this.#tookMs) ?? lease
    const lookup = createKeyLookup({
      lease: this.lease,
      watermarks: this.watermarks,
      clocks,
      // The world decides which answers are late.
      timers: { after: () => () => undefined },
      databaseClock,
      redis: { find: async (hash) => await this.#askRedis(hash) },
      keys: { findKey: async (hash) => await this.#askKeys(hash) },
      maxEntries: 10,
      count: () => undefined,
    })
    this.clearLookup = lookup.clear
    const keys = sabotage.lookup?.(lookup) ?? lookup
    this.#authenticate = createAuthenticate({
      keys,
      tenants: { obtain: async () => ({ kind: 'unavailable' }), clear: () => undefined },
      people: noPeople,
      tokens: undefined,
      keySchemes: { bearer: false, basic: false },
      explainsTokens: false,
      onToken: () => undefined,
      watermarks: this.watermarks,
      databaseClock,
      failedAttempts: { keys: noFailures, tokens: noFailures },
      unreadableRequests: { count: () => 0 },
      reserveWait: () => undefined,
      usage: { used: () => undefined, denied: () => undefined, refused: () => undefined },
      found: { inMemory: 0 },
      onCrash: (_exchange, error) => void world.violations.push(`crash: ${String(error)}`),
    })
    lease.start()
  }

  /** In a suspended virtual machine the monotonic clock stops. */
  pass(ms: number, isSuspended: boolean): void {
    if (!isSuspended) this.#monotonic += ms * this.rate
    this.#wall += ms * (isSuspended ? 1 : this.rate)
  }

  setBack(ms: number): void {
    this.#wall -= ms
  }

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
    this.#heard = Math.max(this.#heard, revocation.seq)
    this.lease.receive(revocation)
  }

  end(isStopped: boolean, next: GatewayUnderTest): void {
    if (isStopped) {
      this.lease.stop()
      this.#begin([() => this.#world.keys.release(this.id)], () => undefined)
    }
    this.#isDead = true
    this.#next = next
    this.#timer = undefined
  }

  request(index: number): void {
    const world = this.#world
    const key = keysOfTest[index % keysOfTest.length]
    const row = world.keys.keys[index % keysOfTest.length]
    if (key === undefined || row === undefined) throw new Error('no key')
    const owed = world.owed(key.hash, key.tenantId)
    const exchange = exchangeOf({ headers: readHeaders(['authorization', `ApiKey ${key.value}`]) })
    const handle = createPipeline({
      match: () => exchange,
      authenticate: this.#authenticate,
      authorize: () => undefined,
      limit: () => undefined,
      endWait: () => undefined,
      awaitContent: () => undefined,
      forward: ({ principal }) => {
        if (this.#isDead) return undefined
        seen.accepted += 1
        if (this.lease.isHeld()) seen.acceptedUnderLease += 1
        const [version = 0, tenantVersion = 0] = (principal?.label ?? '').split(' ').map(Number)
        if (owed.revoked) world.violations.push('accepted after the success of its revoke')
        if (version < owed.version) world.violations.push('accepted in a state from before its confirmed change')
        if (tenantVersion < owed.tenantVersion) world.violations.push('accepted after the success of its suspension')
        return undefined
      },
      refuse: (_exchange, { code }) => {
        if (this.#isDead) return
        if (code === 'auth_unavailable') seen.unavailable += 1
        else seen.refused += 1
        if (code === 'key_revoked' && !row.revoked) world.violations.push('refused as revoked, and is not')
        if (code === 'invalid_key') world.violations.push('refused as unknown, and is not')
      },
      onGone: () => void world.violations.push('gone'),
      onCrash: (_exchange, error) => void world.violations.push(`crash: ${String(error)}`),
    })
    handle(exchange.request, exchange.response)
  }

  #begin(stages: (() => void)[], fail: () => void): void {
    if (!this.#isDead) this.#world.calls.push({ from: this, stages, fail })
  }

  async #renew(asked: LeaseRequest): Promise<LeaseAnswer> {
    const { keys, sabotage } = this.#world
    const request = sabotage.request?.(asked, this.#heard) ?? asked
    const { promise, resolve, reject } = Promise.withResolvers<LeaseAnswer>()
    const sent = this.#monotonic
    let commit: (() => boolean) | undefined
    let granted = false
    let answer: LeaseAnswer | undefined
    const lease = [() => void (commit = keys.checkLease(request)), () => void (granted = commit?.() === true)]
    const log = (): void => {
      const read = keys.readLog(request, granted || sabotage.readsLogFirst === true)
      answer = sabotage.answer?.(read, request) ?? read
    }
    this.#renewal = (given) => {
      if (given.granted) this.#tookMs = this.#monotonic - sent
      resolve(given)
    }
    const take = this.#renewal
    this.#begin(
      [
        ...(sabotage.readsLogFirst === true ? [log, ...lease] : [...lease, log]),
        () => {
          if (answer === undefined) return
          const given = { ...answer, granted: answer.granted && granted }
          take(given)
          if (sabotage.takesAnswersOfDead === true) this.#next?.takeForeign(given)
        },
      ],
      () => reject(new Error('no answer in time')),
    )
    return await promise
  }

  takeForeign(answer: LeaseAnswer): void {
    this.#renewal?.(answer)
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
    this.#begin([() => (found = world.redis.find(hash, world.redisNow)), () => resolve(found)], () =>
      resolve(undefined),
    )
    return await promise
  }
}
