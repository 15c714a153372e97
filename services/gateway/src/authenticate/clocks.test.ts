import { describe, expect, test } from 'vitest'
import { databaseStart, fakeClocks } from '../../test/builders.ts'
import { createDatabaseClock } from './clocks.ts'

describe('the database clock', () => {
  test('is unknown before the first answer', () => {
    expect(createDatabaseClock(fakeClocks()).latest()).toBeUndefined()
  })

  test('is never behind the real one, however long the answer took', () => {
    const clocks = fakeClocks()
    const clock = createDatabaseClock(clocks)
    const sent = clocks.monotonic()
    clocks.pass(800)
    clock.observe(databaseStart, sent)
    expect(clock.latest()).toBe(databaseStart + 800)
  })

  test('goes on with the monotonic clock, whatever the wall clock does', () => {
    const clocks = fakeClocks()
    const clock = createDatabaseClock(clocks)
    clock.observe(databaseStart, clocks.monotonic())
    clocks.jumpWall(-3_600_000)
    clocks.jumpMonotonic(1000)
    expect(clock.latest()).toBe(databaseStart + 1000)
  })
})
