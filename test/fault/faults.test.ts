/**
 * @promise Revocation: A confirmed revocation holds while any one process is dead, frozen, cut off, out of space or has lost its
 * data.
 * @alsoShownBy test/support/promises.test.ts, npm run test:faults
 * @promise Data: An acknowledged write is stored, exactly once, with the bytes of its file.
 * @alsoShownBy packages/tenant-db/test/idempotency.test.ts, services/findings/test/idempotency.test.ts
 */

import { setTimeout as delay } from 'node:timers/promises'
import { leaseMs } from '@postern/contracts/internal'
import { type RunningCluster, type TestStack, startTestCluster, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Churn, type Revocation, prepareChurn } from '../support/churn.ts'
import type { Ending, Fault } from '../support/fault.ts'
import { type SmallDisk, mountSmallDisk } from '../support/full-disk.ts'
import { findWrongChanges, readChanges } from '../support/key-writes.ts'
import { createLinks } from '../support/links.ts'
import { faultsOf } from '../support/nemesis.ts'
import {
  type Change,
  type Key,
  type Operation,
  type Promised,
  type Request,
  findViolations,
  findWrongWrites,
} from '../support/promises.ts'
import { type TcpProxy, startTcpProxy } from '../support/tcp-proxy.ts'
import { type Traffic, startTraffic } from '../support/traffic.ts'
import { findWrongBytes, readWrites } from '../support/writes.ts'
import { type Wrong, startWrongGateway } from '../support/wrong-gateway.ts'
import { watchMachine } from '../../verification/containers/machine.ts'
import { type StallWatch, watchStalls } from '../../verification/soak/stalls.ts'
import { keepOutcomes } from './keep.ts'
import {
  type Freeze,
  type Outcome,
  boundMs,
  describeOutcome,
  describeViolations,
  longestCallMs,
  longestWaitMs,
  outcomeOf,
  timeOf,
} from './outcome.ts'
import { type Trial, isLong, partOf, planTrials, seed } from './plan.ts'

/**
 * Every fault under a steady load while keys and tenants change. In `npm test` each fault is short; `npm run
 * test:faults` runs all of them for longer, and then in pairs.
 */
const gatewayCount = 3
/** Operations of every service; four of eleven write. */
const sequence: readonly Operation[] = [
  'whoami',
  'list',
  'create',
  'whoami',
  'upload',
  'entities',
  'whoami',
  'create',
  'connectors',
  'push',
  'list',
]
const operations = [...new Set(sequence)]
const scopes = ['read:findings', 'write:findings', 'read:universe', 'write:evidence', 'admin:sync'] as const
const narrow = [
  { scopes: ['read:findings'], only: ['list'] },
  { scopes: ['read:universe'], only: ['entities'] },
] as const
const perSecond = 100
const services = ['keys', 'findings', 'universe', 'evidence', 'sync'] as const

const links = createLinks()
const faults = faultsOf(() => {
  const { postgres } = cluster
  return { stack, links, fronts, postgres, traffic, disk: typeof disk === 'string' ? undefined : disk }
})
const planned = planTrials(faults)
const chosen = partOf(planned)
const outcomes: Outcome[] = []
const leftOut: string[] = []

/** Cleans up in reverse order even after failures. Otherwise later files would find the data here. */
const ends = new AsyncDisposableStack()

let cluster: RunningCluster
let disk: SmallDisk | string
let stack: TestStack
/** The addresses at which clients reach the gateways. */
let fronts: TcpProxy[]
let gateways: string[]
let traffic: Traffic
let churn: Churn
/** The number of requests that were already checked. */
let checked = 0
/** When a keys process was frozen. */
const keysFrozen: Freeze[] = []
/** When the host gave this machine no processor. */
let watch: StallWatch

beforeAll(async () => {
  watch = await watchStalls()
  ends.defer(async () => await watch.stop())
  // Its own server, which is killed and frozen, and whose commits are durable like in an installation.
  cluster = await startTestCluster({ durable: true })
  ends.defer(async () => await cluster.stop())
  disk = await mountSmallDisk()
  ends.defer(async () => {
    if (typeof disk !== 'string') await disk.close()
  })
  ends.defer(async () => await links.close())
  const env = typeof disk === 'string' ? {} : { POSTERN_BLOB_DIRECTORY: disk.folder }
  stack = await startTestStack({ gateways: gatewayCount, twice: services, route: links.route, env })
  ends.defer(async () => await stack.stop())
  fronts = await Promise.all(stack.gateways.map(async (url) => await startTcpProxy([Number(new URL(url).port)])))
  ends.defer(async () => void (await Promise.all(fronts.map(async (front) => await front.close()))))
  gateways = fronts.map(({ port }) => `http://127.0.0.1:${port}`)
  traffic = startTraffic({ gateways, perSecond, sequence, pushesNew: true })
  // With a wrong clock, every signature has a wrong time.
  churn = await prepareChurn({ ...stack, gateways }, traffic, { scopes, narrow, repeated: [401] })
  // Newly started processes open all their connections at once.
  await recovered(performance.now())
  await churn.start()
})

afterAll(async () => await ends.disposeAsync())

/** Checks all requests that ended since the last call. */
function expectPromisesKept(): void {
  const { keys, changes } = churn
  const requests = traffic.requests.slice(checked)
  checked = traffic.requests.length
  expect(describeViolations(findViolations({ requests, keys, changes }), changes)).toEqual([])
}

/** Resolves when every gateway has completed every operation that `isMeant` in a request started after `since`. */
async function succeeded(since: number, isMeant: Fault['spares'] = () => true): Promise<void> {
  const streams = gateways.flatMap((gateway, index) =>
    operations.flatMap((operation) => (isMeant(index, operation) ? [{ gateway, operation }] : [])),
  )
  await Promise.all(
    streams.map(
      async ({ gateway, operation }) =>
        await traffic.ended(`${operation} succeeds at ${gateway}`, (request) => {
          const isOfStream = request.gateway === gateway && request.operation === operation
          return isOfStream && request.startedAt > since && request.status >= 200 && request.status < 300
        }),
    ),
  )
}

async function recovered(healedAt: number): Promise<void> {
  await succeeded(healedAt)
  let inARow = 0
  await traffic.ended('failures cease', ({ status }) => {
    inARow = status === 0 || status >= 500 ? 0 : inARow + 1
    return inARow >= 30
  })
}

/**
 * While a gateway is frozen: revokes a key that it has in memory, and waits until requests with that key are queued.
 */
async function revokeBeforeFrozen(gateway: string, revoke: () => Promise<Revocation>): Promise<Revocation> {
  const revocation = await revoke()
  for (let count = 0; count < 2; count += 1) {
    await traffic.sent('a revoked key at the frozen gateway', (sent) => {
      return sent.gateway === gateway && sent.keyId === revocation.change.of
    })
  }
  return revocation
}

/**
 * Starts the faults, keeps them for their time, and ends them. Returns the revocation of a key that a frozen gateway
 * had, if any.
 */
async function goThrough(
  { applied, lastsMs, isExact }: Trial,
  frozen: string | undefined,
): Promise<Revocation | undefined> {
  const revoke = frozen === undefined ? undefined : await churn.takeVictim()
  const from = performance.now()
  try {
    for (const fault of applied) await fault.apply()
    const appliedAt = performance.now()
    const [revocation] = await Promise.all([
      frozen === undefined || revoke === undefined ? undefined : revokeBeforeFrozen(frozen, revoke),
      // Operations unrelated to the fault must continue, however long that takes to observe.
      isExact
        ? undefined
        : succeeded(appliedAt, (gateway, operation) => applied.every(({ spares }) => spares(gateway, operation))),
      // One of two simultaneous faults may prevent the other.
      ...(applied.length === 1 ? applied.map(async ({ seen }) => await seen()) : []),
      delay(lastsMs),
    ])
    return revocation
  } finally {
    const healingFrom = performance.now()
    await Promise.all(applied.toReversed().map(async ({ heal }) => await heal()))
    if (applied.some(({ freezes }) => freezes === 'keys')) keysFrozen.push({ from, healingFrom, to: performance.now() })
  }
}

async function expectWithstood(trial: Trial): Promise<void> {
  const { name, applied, lastsMs } = trial
  const from = performance.now()
  const machine = watchMachine()
  const canBeFenced = applied.length === 1 && lastsMs >= boundMs
  const frozen = canBeFenced ? gateways.find((_url, index) => index === applied[0]?.freezesGateway) : undefined
  const beforeFrozen = await goThrough(trial, frozen)
  const healedAt = performance.now()
  await recovered(healedAt)
  await churn.revoked(2, from)
  const span = { name, from, healedAt, to: performance.now(), served: machine() }
  const { stalls } = watch
  const outcome = outcomeOf(span, traffic, churn, { stalls, keysFrozen })
  process.stdout.write(describeOutcome(outcome))

  expectPromisesKept()
  // Without stalls of the host. Load from the product or this suite is not subtracted.
  expect(outcome.longest_wait_ms).toBeLessThanOrEqual(longestWaitMs)
  expect(outcome.longest_call_ms).toBeLessThanOrEqual(longestCallMs)
  const ended = applied.flatMap(({ endsGateway }) => (endsGateway === undefined ? [] : [gateways[endsGateway]]))
  const unanswered = traffic.requests.filter(({ status, startedAt }) => status === 0 && startedAt >= from)
  expect(unanswered.filter(({ gateway }) => !ended.includes(gateway))).toEqual([])
  for (const { ending } of applied) if (ending !== undefined) expectOrderly(ending(), unanswered)
  if (beforeFrozen !== undefined) {
    const { change, enforcement } = beforeFrozen
    // On a very busy machine, a frozen gateway may have had no lease and needs no fencing.
    if (enforcement?.gateways === gatewayCount) {
      expect(enforcement.confirmed + enforcement.fenced).toBe(gatewayCount)
      // Other gateways may lose their lease while no processor is free.
      if (outcome.no_processor_ms < leaseMs) expect(enforcement.fenced).toBe(1)
    }
    expect(enforcement?.confirmed).toBeLessThan(gatewayCount)
    const revoked = { calledAt: change.calledAt, endedAt: change.returnedAt ?? Infinity }
    expect(timeOf(revoked, { stalls, keysFrozen: [] })).toBeLessThanOrEqual(longestWaitMs)
    const woken = traffic.requests.filter(
      ({ keyId, gateway, startedAt, endedAt }) =>
        keyId === change.of &&
        gateway === frozen &&
        startedAt > (change.returnedAt ?? Infinity) &&
        startedAt < healedAt &&
        endedAt > healedAt,
    )
    expect(woken.length).toBeGreaterThanOrEqual(2)
    // Rejected, or undecided while it could ask nobody.
    const refusals = new Set(woken.map(({ code }) => code ?? 'accepted'))
    expect([...refusals].filter((code) => code !== 'key_revoked' && code !== 'auth_unavailable')).toEqual([])
  }
  outcomes.push(outcome)
}

/** Every process ended without an error and completed its earlier requests. */
function expectOrderly({ askedAt, exits }: Ending, unanswered: readonly Request[]): void {
  expect(exits.length).toBeGreaterThan(0)
  expect(exits.filter((exit) => exit !== 0)).toEqual([])
  expect(unanswered.filter(({ startedAt }) => startedAt < askedAt)).toEqual([])
}

const longestTestMs = 300_000

describe('every promise holds, no write is lost, and the system recovers from', () => {
  test.for(chosen)('$name', { timeout: longestTestMs }, async (trial, { skip }) => {
    const reasons = await Promise.all(trial.applied.map(async ({ prepare }) => await prepare?.()))
    const reason = reasons.find((one) => one !== undefined)
    if (reason !== undefined) {
      for (const [index, { heal }] of trial.applied.entries()) if (reasons[index] === undefined) await heal()
      leftOut.push(`${trial.name}: ${reason}`)
      skip(reason)
    }
    if (trial.applied.some(({ prepare }) => prepare !== undefined)) await recovered(performance.now())
    await expectWithstood(trial)
  })
})

function isUntouched({ id }: Key): boolean {
  return churn.changes.every(({ of }) => of !== id)
}

describe('after all faults', () => {
  let areWritesFound = false

  test('every accepted write is stored once, and no rejected one is', { timeout: longestTestMs }, async () => {
    await churn.stop()
    await traffic.stop()
    expectPromisesKept()
    const stored = await readWrites(stack)
    expect(findWrongWrites(traffic, stored)).toEqual([])
    if (typeof disk !== 'string') expect(await findWrongBytes(stack, disk.folder)).toEqual([])
    const changed = await readChanges(stack)
    expect(findWrongChanges(churn, changed)).toEqual([])
    const of = (operation: Operation): number =>
      traffic.requests.filter((request) => request.operation === operation && [200, 201].includes(request.status))
        .length
    process.stdout.write(
      `faults: ${traffic.requests.length} requests, ${of('create')} findings, ${of('upload')} files and ` +
        `${of('push')} entities accepted, ${stored.size} stored, ${churn.changes.length} changes of ${churn.keys.length} keys\n`,
    )
    expect(of('create')).toBeGreaterThan(100)
    expect(of('upload')).toBeGreaterThan(50)
    expect(of('push')).toBeGreaterThan(50)
    // Control: with one revocation added and one removed, the same check reports violations.
    const [first, second] = [churn.changes.find(({ kind }) => kind === 'revoked'), churn.keys.find(isUntouched)]
    const extra: Change = { kind: 'revoked', of: second?.id ?? '', calledAt: 0, returnedAt: 1 }
    const others = churn.changes.filter((change) => change !== first)
    expect(findWrongChanges({ keys: churn.keys, changes: [...others, extra] }, changed).toSorted()).toEqual(
      [
        `key ${extra.of} was revoked and is not`,
        `key ${first?.of ?? ''} is revoked, and nobody has asked for it`,
      ].toSorted(),
    )
    areWritesFound = true
  })

  test('no process reported an unexpected error', async () => {
    const logs = await stack.logs()
    const crashes = logs.split('\n').filter((line) => /"event":"(?:request_crashed|answer_not_in_contract)"/.test(line))
    expect(crashes).toEqual([])
    if (!isLong || !areWritesFound) return
    const { missing } = await keepOutcomes(planned, {
      seed,
      load: { perSecond, gateways: gatewayCount },
      outcomes,
      leftOut,
    })
    process.stdout.write(
      `faults: ${outcomes.length} kept in .results/faults.json; ${missing.length} are missing there\n`,
    )
  })
})

describe('the checks detect', () => {
  const expected: Readonly<Record<Wrong, readonly Promised[]>> = {
    remembers: [
      'no revoked key is accepted',
      'no narrowed key does what it was narrowed from',
      'no expired key is accepted',
      'no suspended tenant is accepted',
    ],
    'mixes up': ['no answer holds data of another tenant'],
    loses: ['no key does what it has no scope for', 'no accepted write is lost or doubled'],
    lies: ['no key is refused for what it is not', 'no refused write happens'],
    crashes: ['no failure but that of a service that is away'],
  }
  const kinds = Object.keys(expected) as Wrong[]

  test('each fault of a gateway, and none of a correct one', { timeout: longestTestMs }, async () => {
    const [right = ''] = gateways
    const wrongs = await Promise.all(kinds.map(async (kind) => await startWrongGateway(right, kind)))
    const hostile = startTraffic({
      gateways: [...wrongs.map(({ url }) => url), right],
      perSecond: 90,
      prefix: 'control',
      sequence: ['whoami', 'create'],
    })
    // Waits only for the correct one, because the others may never finish.
    const changes = await prepareChurn({ ...stack, gateways: [right] }, hostile, { scopes, narrow, restMs: 300 })
    await changes.start()
    const from = performance.now()
    const found = (stored: Awaited<ReturnType<typeof readWrites>>) => {
      const { keys } = changes
      const history = { requests: hostile.requests, keys, changes: changes.changes }
      const all = [...findViolations(history), ...findWrongWrites(hostile, stored)]
      const of = (url: string): Promised[] => {
        const promised = all.flatMap((one) => (one.request.gateway === url ? [one.promised] : []))
        return [...new Set(promised)]
      }
      return { right: of(right), wrong: wrongs.map(({ url }) => of(url)) }
    }
    try {
      await expect
        .poll(async () => found(await readWrites(stack)).wrong, { timeout: longestTestMs / 3, interval: 500 })
        .toEqual(kinds.map((kind) => expect.arrayContaining([...expected[kind]])))
      const tookMs = Math.round(performance.now() - from)
      process.stdout.write(`faults: wrong gateways found out in ${hostile.requests.length} requests, ${tookMs} ms\n`)
    } finally {
      await changes.stop()
      await hostile.stop()
      await Promise.all(wrongs.map(async (wrong) => await wrong.close()))
    }
    expect(found(await readWrites(stack)).right).toEqual([])
  })
})
