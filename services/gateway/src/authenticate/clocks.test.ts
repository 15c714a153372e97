import { recordTtlMs } from '@postern/contracts/internal'
import { describe, expect, test } from 'vitest'
import { databaseStart, fakeClocks } from '../../test/builders.ts'
import { createDatabaseClock, isFresh, systemClocks } from './clocks.ts'

test('the system clocks are the monotonic one of the process and the clock of the host', () => {
  const before = [performance.now(), Date.now()] as const
  const [monotonic, wall] = [systemClocks.monotonic(), systemClocks.wall()]
  const after = [performance.now(), Date.now()] as const
  expect(before[0] <= monotonic && monotonic <= after[0]).toBe(true)
  expect(before[1] <= wall && wall <= after[1]).toBe(true)
})

describe('the database clock', () => {
  test('is unknown before the first answer', () => {
    expect(createDatabaseClock(fakeClocks()).latest()).toBeUndefined()
  })

  test('is never behind the real one, even after a slow answer', () => {
    const clocks = fakeClocks()
    const clock = createDatabaseClock(clocks)
    const sent = clocks.monotonic()
    clocks.pass(800)
    clock.observe(databaseStart, sent)
    expect(clock.latest()).toBe(databaseStart + 800)
  })

  test('is not moved by a slow answer that agrees with it', () => {
    const clocks = fakeClocks()
    const clock = createDatabaseClock(clocks)
    clock.observe(databaseStart, clocks.monotonic())
    const sent = clocks.monotonic()
    clocks.pass(3000)
    clock.observe(databaseStart + 2900, sent)
    expect(clock.latest()).toBe(databaseStart + 3000)
  })

  test.each([
    ['earlier than it was when the request was sent', -1],
    ['later than it is when the answer comes', 3001],
  ])('follows a slow answer that says %s', (_name, difference) => {
    const clocks = fakeClocks()
    const clock = createDatabaseClock(clocks)
    clock.observe(databaseStart, clocks.monotonic())
    const sent = clocks.monotonic()
    clocks.pass(3000)
    clock.observe(databaseStart + difference, sent)
    expect(clock.latest()).toBe(databaseStart + difference + 3000)
  })

  test('follows every quick answer', () => {
    const clocks = fakeClocks()
    const clock = createDatabaseClock(clocks)
    clock.observe(databaseStart, clocks.monotonic())
    const sent = clocks.monotonic()
    clocks.pass(500)
    clock.observe(databaseStart + 100, sent)
    expect(clock.latest()).toBe(databaseStart + 600)
  })

  test('follows the monotonic clock, whatever the wall clock does', () => {
    const clocks = fakeClocks()
    const clock = createDatabaseClock(clocks)
    clock.observe(databaseStart, clocks.monotonic())
    clocks.jumpWall(-3_600_000)
    clocks.jumpMonotonic(1000)
    expect(clock.latest()).toBe(databaseStart + 1000)
  })
})

test('decides whether a moment has passed while the gateway’s clock is within ten seconds of it', () => {
  const clocks = fakeClocks()
  const clock = createDatabaseClock(clocks)
  clock.observe(databaseStart, clocks.monotonic())
  clocks.jumpWall(-10_000)
  expect(clock.hasPassed(databaseStart)).toBe(true)
  clocks.jumpWall(-1)
  expect(clock.hasPassed(databaseStart)).toBeUndefined()
})

describe('whether a moment has passed', () => {
  test('is not known before the first answer', () => {
    const clock = createDatabaseClock(fakeClocks())
    expect([clock.hasPassed(0), clock.hasPassed(Infinity), clock.highest()]).toEqual([undefined, undefined, undefined])
  })

  test('is true from its millisecond on', () => {
    const clocks = fakeClocks()
    const clock = createDatabaseClock(clocks)
    clock.observe(databaseStart, clocks.monotonic())
    expect([clock.hasPassed(databaseStart), clock.hasPassed(databaseStart + 1)]).toEqual([true, false])
  })

  test('is known if both clocks agree on it, however different they are', () => {
    const clocks = fakeClocks()
    const clock = createDatabaseClock(clocks)
    clock.observe(clocks.wall() + 3_600_000, clocks.monotonic())
    const [here, there] = [clocks.wall(), clocks.wall() + 3_600_000]
    const moments = [here - 1, here, here + 1, there, there + 1]
    expect(moments.map((moment) => clock.hasPassed(moment))).toEqual([true, true, undefined, undefined, false])
  })
})

test('the highest time stays when the clock is set back, until it is reached again', () => {
  const clocks = fakeClocks()
  const clock = createDatabaseClock(clocks)
  clock.observe(databaseStart, clocks.monotonic())
  expect(clock.highest()).toBe(databaseStart)
  clock.observe(databaseStart - 60_000, clocks.monotonic())
  expect([clock.latest(), clock.highest()]).toEqual([databaseStart - 60_000, databaseStart])
  clock.observe(databaseStart - 90_000, clocks.monotonic())
  expect(clock.highest()).toBe(databaseStart)
  clocks.pass(90_001)
  expect(clock.highest()).toBe(databaseStart + 1)
})

function watched() {
  const clocks = fakeClocks()
  let told = 0
  const clock = createDatabaseClock(clocks, () => (told += 1))
  clock.observe(databaseStart, clocks.monotonic())
  return { clocks, clock, told: () => told }
}

describe('a clock that was set back is reported', () => {
  test('when it shows more than seconds less than it did', () => {
    const { clocks, clock, told } = watched()
    clocks.pass(10_000)
    clock.observe(databaseStart + 5000, clocks.monotonic())
    expect(told()).toBe(0)
    clock.observe(databaseStart + 4999, clocks.monotonic())
    expect(told()).toBe(1)
    clocks.pass(10_000)
    clock.observe(databaseStart + 14_999, clocks.monotonic())
    expect(told()).toBe(1)
  })

  test('when it happened in many small steps', () => {
    const { clocks, clock, told } = watched()
    for (let step = 1; step <= 15; step += 1) {
      clocks.pass(100)
      clock.observe(databaseStart - step * 500, clocks.monotonic())
    }
    expect(told()).toBe(1)
  })

  test('but not after a slow answer, or when the clock is set forward', () => {
    const { clocks, clock, told } = watched()
    const sent = clocks.monotonic()
    clocks.pass(2500)
    clock.observe(databaseStart + 2500, sent)
    clock.observe(databaseStart + 2500, clocks.monotonic())
    clock.observe(databaseStart + 3_600_000, clocks.monotonic())
    expect(told()).toBe(0)
  })
})

describe('a record is fresh', () => {
  test.each([
    ['just after it was read', -1, true],
    ['until it has lived its time', 1 - recordTtlMs, true],
    ['and not from then on', -recordTtlMs, false],
    ['when another server’s clock was a little ahead', 5000, true],
    ['and not when it is from the future: the clock was set back since', 5001, false],
  ])('%s', (_when, age, expected) => {
    const clock = { latest: () => databaseStart }
    expect(isFresh(databaseStart + age, clock)).toBe(expected)
  })

  test('never before the database’s time is known', () => {
    expect(isFresh(databaseStart, { latest: () => undefined })).toBe(false)
  })
})
