import { randomUUID } from 'node:crypto'
import {
  type LeaseAnswer,
  type LeaseRequest,
  type Revocation,
  leaseMarginMs,
  leaseMs,
  renewalsPerLease,
} from '@postern/contracts/internal'
import { type Logger, createLogger } from '@postern/service-kit'
import { describe, expect, test, vi } from 'vitest'
import { databaseStart, fakeClocks, fakeTimers, keyRecord, leaseAnswer, scripted, silent } from '../../test/builders.ts'
import { createDatabaseClock } from './clocks.ts'
import { createRevocationWatermarks } from './revocation-watermarks.ts'
import { createLease, systemTimers } from './lease.ts'
import { nextMark } from './log-mark.ts'

const usableMs = leaseMs - leaseMarginMs
const { hash } = keyRecord()

function revocation(seq: number): Revocation {
  return { kind: 'key', seq, hash, version: 2, revoked: true }
}

function setUp(logger: Logger = silent) {
  const clocks = fakeClocks()
  const timers = fakeTimers()
  const keys = scripted<LeaseRequest, LeaseAnswer>()
  const databaseClock = createDatabaseClock(clocks)
  const watermarks = createRevocationWatermarks(clocks, databaseClock)
  const onReset = vi.fn<() => void>()
  const gateway = randomUUID()
  const lease = createLease({
    gateway,
    name: 'test',
    clocks,
    timers,
    watermarks,
    databaseClock,
    renew: keys.call,
    usageIsLate: () => false,
    onReset,
    logger,
  })
  return { clocks, timers, keys, watermarks, databaseClock, onReset, gateway, lease }
}

async function setUpHeld(cursor = 7, logger?: Logger) {
  const parts = setUp(logger)
  parts.lease.start()
  await parts.keys.answer(leaseAnswer({ granted: false, cursor }))
  parts.timers.fire()
  await parts.keys.answer(leaseAnswer({ cursor }))
  return parts
}

describe('a lease is not held', () => {
  test('before the keys service has granted it', async () => {
    const { lease, keys } = setUp()
    expect(lease.isHeld()).toBe(false)
    lease.start()
    expect(lease.isHeld()).toBe(false)
    await keys.answer(leaseAnswer({ granted: false }))
    expect(lease.isHeld()).toBe(false)
  })

  test('longer than its duration from the request, however late the answer is', async () => {
    const { lease, keys, clocks } = setUp()
    lease.start()
    clocks.pass(900)
    await keys.answer(leaseAnswer())
    expect(lease.remainingMs()).toBe(usableMs - 900)
    clocks.pass(usableMs - 901)
    expect(lease.isHeld()).toBe(true)
    clocks.pass(1)
    expect(lease.isHeld()).toBe(false)
  })

  test('longer than its duration from the request by either clock', async () => {
    for (const jump of ['jumpMonotonic', 'jumpWall'] as const) {
      const { lease, keys, clocks } = setUp()
      lease.start()
      clocks[jump](900)
      await keys.answer(leaseAnswer())
      expect(lease.remainingMs()).toBe(usableMs - 900)
    }
  })

  test('when the answer came after its end, as in a frozen process', async () => {
    const { lease, keys, clocks } = setUp()
    lease.start()
    clocks.pass(60_000)
    await keys.answer(leaseAnswer())
    expect(lease.isHeld()).toBe(false)
  })

  test('when only the monotonic clock has passed its end', async () => {
    const { lease, clocks } = await setUpHeld()
    expect(lease.isHeld()).toBe(true)
    clocks.jumpMonotonic(usableMs)
    expect(lease.isHeld()).toBe(false)
  })

  test('when only the wall clock has passed its end, as on a suspended machine', async () => {
    const { lease, clocks } = await setUpHeld()
    clocks.jumpWall(usableMs)
    expect(lease.isHeld()).toBe(false)
  })

  test('any longer because the wall clock was set back', async () => {
    const { lease, clocks } = await setUpHeld()
    clocks.jumpWall(-3_600_000)
    clocks.jumpMonotonic(usableMs)
    expect(lease.isHeld()).toBe(false)
  })

  test('after it was stopped, even if its last renewal is still answered', async () => {
    const { lease, keys, timers } = await setUpHeld()
    timers.fire()
    lease.stop()
    expect(lease.isHeld()).toBe(false)
    await keys.answer(leaseAnswer({ cursor: 7 }))
    expect(lease.isHeld()).toBe(false)
    expect(timers.due()).toBeUndefined()
  })
})

describe('a renewal', () => {
  test('starts without a cursor, with the id of this process', () => {
    const { lease, keys, gateway } = setUp()
    lease.start()
    expect(keys.calls).toEqual([{ gateway, name: 'test', cursor: null, mark: null, counts: true }])
  })

  test('is sent several times a lease, counted from the one before', async () => {
    const { lease, keys, timers, clocks } = await setUpHeld()
    expect(timers.due()).toBe(leaseMs / renewalsPerLease)
    timers.fire()
    clocks.pass(120)
    await keys.answer(leaseAnswer({ cursor: 7 }))
    expect(timers.due()).toBe(leaseMs / renewalsPerLease - 120)
    expect(lease.remainingMs()).toBe(usableMs - 120)
  })

  test('applies its revocations before its lease is held', async () => {
    const { lease, keys, watermarks, timers } = await setUpHeld()
    timers.fire()
    await keys.answer(leaseAnswer({ cursor: 8, revocations: [revocation(8)] }))
    expect(lease.isHeld()).toBe(true)
    expect(watermarks.isRevoked(hash)).toBe(true)
  })

  test('with revocations is followed at once by one that acknowledges them', async () => {
    const { keys, timers } = await setUpHeld()
    timers.fire()
    await keys.answer(leaseAnswer({ cursor: 8, revocations: [revocation(8)] }))
    expect(timers.due()).toBe(0)
    timers.fire()
    expect(keys.calls.at(-1)).toMatchObject({ cursor: 8 })
    await keys.answer(leaseAnswer({ cursor: 8 }))
    expect(timers.due()).toBe(leaseMs / renewalsPerLease)
  })

  test('that is not granted leaves the current lease unchanged, and is repeated at once', async () => {
    const { lease, keys, timers, clocks } = await setUpHeld()
    clocks.pass(500)
    timers.fire()
    await keys.answer(leaseAnswer({ granted: false, cursor: 9 }))
    expect(lease.remainingMs()).toBe(usableMs - 500)
    expect(timers.due()).toBe(0)
  })

  test('that fails is repeated soon, and does not extend the lease', async () => {
    const { lease, keys, timers, clocks } = await setUpHeld()
    timers.fire()
    await keys.fail()
    expect(timers.due()).toBe(100)
    expect(lease.isHeld()).toBe(true)
    clocks.pass(usableMs)
    expect(lease.isHeld()).toBe(false)
    timers.fire()
    await keys.answer(leaseAnswer({ cursor: 7 }))
    expect(lease.isHeld()).toBe(true)
  })

  test('that is due after a slow one is not delayed further', async () => {
    const { keys, timers, clocks } = await setUpHeld()
    timers.fire()
    clocks.pass(leaseMs)
    await keys.answer(leaseAnswer({ cursor: 7 }))
    expect(timers.due()).toBe(0)
  })

  test('that fails is logged once, and so is the end of failures with their number', async () => {
    const lines: Record<string, unknown>[] = []
    const logger = createLogger({
      service: 'gateway',
      level: 'info',
      write: (line) => void lines.push(JSON.parse(line)),
    })
    const { keys, timers } = await setUpHeld(7, logger)
    for (let times = 0; times < 3; times += 1) {
      timers.fire()
      await keys.fail(new Error('away'))
    }
    for (let times = 0; times < 2; times += 1) {
      timers.fire()
      await keys.answer(leaseAnswer({ cursor: 7 }))
    }
    timers.fire()
    await keys.answer(leaseAnswer({ reset: true, granted: false, cursor: 3 }))
    expect(lines).toMatchObject([
      { event: 'lease_renewal_failed', err: { message: 'away' } },
      { event: 'lease_renewal_recovered', failures: 3 },
      { event: 'revocation_log_reset', had: 7, log: 3 },
    ])
  })

  test('is not sent before the start or after the stop', async () => {
    const { lease, keys, timers } = setUp()
    lease.receive(revocation(1))
    expect(keys.calls).toEqual([])
    lease.start()
    lease.stop()
    await keys.fail()
    expect(timers.due()).toBeUndefined()
  })

  test('reports the time of the database', async () => {
    const { databaseClock } = await setUpHeld()
    expect(databaseClock.latest()).toBe(databaseStart)
  })

  test('that finds another log empties the caches, ends the lease and starts over, but forgets no revocation', async () => {
    const { lease, keys, timers, onReset, watermarks } = await setUpHeld()
    lease.receive(revocation(8))
    await keys.answer(leaseAnswer({ reset: true, granted: false, cursor: 3 }))
    expect(onReset).toHaveBeenCalledOnce()
    expect(lease.isHeld()).toBe(false)
    expect(watermarks.isRevoked(hash)).toBe(true)
    timers.fire()
    expect(keys.calls.at(-1)).toMatchObject({ cursor: null })
  })
})

describe('a renewal says which log it knows', () => {
  const [mark, other] = ['a'.repeat(64), 'b'.repeat(64)]

  async function setUpMarked() {
    const parts = setUp()
    parts.lease.start()
    await parts.keys.answer(leaseAnswer({ granted: false, cursor: 7, mark }))
    parts.timers.fire()
    return parts
  }

  test('by the mark of its cursor', async () => {
    const { keys, timers } = await setUpMarked()
    expect(keys.calls.at(-1)).toMatchObject({ cursor: 7, mark })
    await keys.answer(leaseAnswer({ cursor: 8, mark: other, revocations: [revocation(8)] }))
    timers.fire()
    expect(keys.calls.at(-1)).toMatchObject({ cursor: 8, mark: other })
  })

  test('by the mark that follows from later announcements', async () => {
    const { lease, keys } = await setUpMarked()
    await keys.answer(leaseAnswer({ cursor: 7, mark }))
    lease.receive(revocation(8))
    expect(keys.calls.at(-1)).toMatchObject({ cursor: 8, mark: nextMark(mark, revocation(8)) })
  })

  test('by the mark of the keys service if an announcement and an answer have the same number', async () => {
    const { lease, keys, timers } = await setUpMarked()
    lease.receive(revocation(8))
    await keys.answer(leaseAnswer({ cursor: 8, mark: other, revocations: [revocation(8)] }))
    timers.fire()
    expect(keys.calls.at(-1)).toMatchObject({ cursor: 8, mark: other })
  })

  test('without a mark if the keys service sends none', async () => {
    const { lease, keys } = await setUpHeld()
    lease.receive(revocation(8))
    expect(keys.calls.at(-1)).toMatchObject({ cursor: 8, mark: null })
  })

  test('without a mark after the log was replaced', async () => {
    const { keys, timers } = await setUpMarked()
    await keys.answer(leaseAnswer({ reset: true, granted: false, cursor: 7, mark: other }))
    timers.fire()
    expect(keys.calls.at(-1)).toMatchObject({ cursor: null, mark: null })
  })
})

test('a new gateway that learns that its log was replaced asks again from the start', async () => {
  const { lease, keys, timers, onReset } = setUp()
  lease.start()
  await keys.answer(leaseAnswer({ reset: true, granted: false, cursor: 3 }))
  expect(onReset).toHaveBeenCalledOnce()
  timers.fire()
  expect(keys.calls.at(-1)).toMatchObject({ cursor: null })
})

describe('a revocation from the fast path', () => {
  test('is in force in the same tick, and acknowledged at once', async () => {
    const { lease, keys, watermarks } = await setUpHeld()
    lease.receive(revocation(8))
    expect(watermarks.isRevoked(hash)).toBe(true)
    expect(keys.calls.at(-1)).toMatchObject({ cursor: 8 })
  })

  test('after a gap is in force, but only what came before the gap is acknowledged', async () => {
    const { lease, keys, watermarks } = await setUpHeld()
    lease.receive(revocation(10))
    expect(watermarks.isRevoked(hash)).toBe(true)
    expect(keys.calls.at(-1)).toMatchObject({ cursor: 7 })
  })

  test('during a renewal is acknowledged by one that follows at once', async () => {
    const { lease, keys, timers } = await setUpHeld()
    timers.fire()
    lease.receive(revocation(8))
    expect(keys.waiting()).toBe(1)
    await keys.answer(leaseAnswer({ cursor: 7 }))
    timers.fire()
    expect(keys.calls.at(-1)).toMatchObject({ cursor: 8 })
  })

  test('after a gap during a renewal is requested by exactly one that follows at once', async () => {
    const { lease, keys, timers } = await setUpHeld()
    timers.fire()
    lease.receive(revocation(10))
    await keys.answer(leaseAnswer({ cursor: 7 }))
    expect(timers.due()).toBe(0)
    timers.fire()
    await keys.answer(leaseAnswer({ cursor: 7 }))
    expect(timers.due()).toBe(leaseMs / renewalsPerLease)
  })

  test('before the log is known is in force, and acknowledges nothing', async () => {
    const { lease, keys, watermarks, timers } = setUp()
    lease.start()
    lease.receive(revocation(1))
    expect(watermarks.isRevoked(hash)).toBe(true)
    await keys.fail()
    timers.fire()
    expect(keys.calls.at(-1)).toMatchObject({ cursor: null })
  })

  test('replaces the due renewal', async () => {
    const { lease, timers } = await setUpHeld()
    lease.receive(revocation(8))
    expect(timers.due()).toBeUndefined()
  })

  test('that is already known stays in force and causes no renewal', async () => {
    const { lease, keys, watermarks } = await setUpHeld()
    const before = keys.calls.length
    lease.receive(revocation(7))
    expect(watermarks.isRevoked(hash)).toBe(true)
    expect(keys.calls).toHaveLength(before)
  })

  test('never moves the cursor back', async () => {
    const { lease, keys, timers } = await setUpHeld()
    lease.receive(revocation(8))
    await keys.answer(leaseAnswer({ cursor: 7 }))
    timers.fire()
    expect(keys.calls.at(-1)).toMatchObject({ cursor: 8 })
  })
})

test('system timers run their task once unless cancelled, and keep no process alive', async () => {
  const set = vi.spyOn(globalThis, 'setTimeout')
  try {
    const ran = Promise.withResolvers<string>()
    const callOff = systemTimers.after(1, () => ran.resolve('called off'))
    systemTimers.after(2, () => ran.resolve('ran'))
    callOff()
    const timers = set.mock.results.map(({ value }) => value.hasRef())
    // Somebody else must wait, since they do not.
    const waiting = setInterval(() => undefined, 1000)
    expect(await ran.promise).toBe('ran')
    clearInterval(waiting)
    expect(timers).toEqual([false, false])
    expect(set.mock.calls.map(([, ms]) => ms)).toEqual([1, 2])
  } finally {
    set.mockRestore()
  }
})
