/**
 * @promise Revocation: The gateway and the keys service behave as the model of the revocation protocol does.
 * @alsoShownBy services/keys/test/conformance.test.ts, services/gateway/test/rare-schedules.test.ts,
 * verification/model/model-map.test.ts
 */

import { randomInt } from 'node:crypto'
import { leaseMarginMs } from '@postern/contracts/internal'
import type { ChangeKind } from '@postern/local-stack/testing'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import type { KeyLookup, Lookup } from '../src/authenticate/key-lookup.ts'
import { settle } from './builders.ts'
import { type Sabotage, World, seen } from './conformance-world.ts'

/*
 * Random schedules from the alphabet of verification/model/revocation.pml, against the modules of the gateway themselves: what that
 * model says of the protocol holds for this code only as long as the code does what the model says.
 */

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

const spans = [1, 40, 100, 300, 500, 900, 1000, 1940, 1960, 2000, 2060, 400_000, 1_300_000, 2_500_000]
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
      world.pass(pick(other % 16 === 0 ? spans : spans.slice(0, -3), one) ?? 0)
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
      world.redis.store(record, world.redisNow)
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
      for (const each of world.gateways) each.watermarks.prune()
      break
    default:
      name satisfies never
  }
  await settle()
}

/** One change and the events around it. */
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

/** A broken promise. Other failures do not count as found. */
class ViolationError extends Error {
  override readonly name = 'ViolationError'
}

async function explore(numRuns: number, { ofSeed = seed, ...sabotage }: Sabotage & { readonly ofSeed?: number } = {}) {
  return await fc.check(
    fc.asyncProperty(schedules, async (schedule) => {
      const violations = await play(schedule, sabotage)
      if (violations.length > 0) throw new ViolationError(violations.join('\n'))
    }),
    { seed: ofSeed, numRuns, endOnFailure: Object.keys(sabotage).length > 0 },
  )
}

afterAll(() => {
  process.stdout.write(`schedules of revocation: POSTERN_SEED=${seed} ${JSON.stringify(seen)}\n`)
})

describe('no request is accepted after the success of a change that forbids it', () => {
  test(
    'even if messages are late, lost or repeated, or processes restart or freeze',
    { timeout: 180_000 },
    async () => {
      const run = await explore(800)
      expect(run.failed, `${String(run.errorInstance)}: ${fc.defaultReportMessage(run)}`).toBe(false)
      // Each way of the protocol was gone.
      for (const [name, count] of Object.entries(seen)) expect(count, name).toBeGreaterThan(50)
    },
  )
})

function joinOlder(lookup: KeyLookup): KeyLookup {
  const underWay = new Map<string, Promise<Lookup>>()
  return {
    ...lookup,
    obtain: async (hash) => {
      const answer = underWay.get(hash) ?? lookup.obtain(hash).finally(() => underWay.delete(hash))
      underWay.set(hash, answer)
      return await answer
    },
  }
}

// Always the same schedules: what they find once they find each time. Three more are found by too few schedules: rare-schedules.test.ts.
describe('the schedules find a gateway', () => {
  const sabotages: Readonly<Record<string, Sabotage>> = {
    'without watermarks': {
      watermarks: (watermarks) => ({ ...watermarks, statusOf: () => 'valid', isRevoked: () => false }),
    },
    'that never loses its lease': { lease: (lease) => ({ ...lease, isHeld: () => true }) },
    'that is not waited for': { waits: 'never' },
    'whose lease is judged by a clock that may be set': { waits: 'by the wall clock' },
    'that acknowledges what it does not apply': {
      watermarks: (watermarks) => ({ ...watermarks, apply: () => undefined }),
    },
    'whose lease is counted from the answer': {
      lease: (lease, _clocks, tookMs) => ({ ...lease, isHeld: () => lease.remainingMs() + tookMs() > 0 }),
    },
    'whose lease has no margin': {
      lease: (lease) => ({ ...lease, isHeld: () => lease.remainingMs() + leaseMarginMs > 0 }),
    },
    'that lets a request without a lease join an older look-up': { lookup: joinOlder },
    'whose cursor skips a message that is missing': {
      request: (request, heard) => ({
        ...request,
        cursor: request.cursor === null ? null : Math.max(request.cursor, heard),
        // With its mark the keys service would see it.
        mark: null,
      }),
    },
    'that starts without the past': {
      answer: (answer, { cursor }) => (cursor === null ? { ...answer, revocations: [] } : answer),
    },
  }
  test.each(Object.entries(sabotages))('%s', { timeout: 180_000 }, async (_title, sabotage) => {
    const { errorInstance } = await explore(1000, { ofSeed: 7, ...sabotage })
    expect(errorInstance).toBeInstanceOf(ViolationError)
    // More than that the gateway crashes.
    expect(String(errorInstance)).toMatch(/accepted|outlived/)
  })
})
