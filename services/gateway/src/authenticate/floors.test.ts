import { type Revocation, floorTtlMs } from '@postern/contracts/internal'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { databaseStart, fakeClocks, keyRecord } from '../../test/builders.ts'
import { createDatabaseClock, isFresh } from './clocks.ts'
import { createFloors, standingOf } from './floors.ts'

const record = keyRecord({ version: 3, tenantVersion: 5 })
const { hash, tenantId } = record

function floorsWith(clocks = fakeClocks()) {
  const databaseClock = createDatabaseClock(clocks)
  databaseClock.observe(databaseStart, clocks.monotonic())
  return { clocks, databaseClock, floors: createFloors(clocks, databaseClock) }
}

function keyChange(version: number, revoked: boolean): Revocation {
  return { kind: 'key', seq: 1, hash, version, revoked }
}

describe('floors', () => {
  test('a revoked key is revoked in every record, also one of a higher version', () => {
    const { floors } = floorsWith()
    floors.apply(keyChange(3, true))
    expect(floors.isRevoked(hash)).toBe(true)
    expect(floors.standing(record)).toBe('revoked')
    expect(floors.standing({ ...record, version: 99 })).toBe('revoked')
  })

  test('a record of before a change is outdated, the record of the change itself is valid', () => {
    const { floors } = floorsWith()
    floors.apply(keyChange(4, false))
    expect(floors.standing(record)).toBe('outdated')
    expect(floors.standing({ ...record, version: 4 })).toBe('valid')
  })

  test('are asked how an entry stands until it is valid, and again after each change', () => {
    const { floors } = floorsWith()
    const entry = { record, validAt: -1 }
    let asked = 0
    const judge = () => {
      asked = 0
      const standing = () => standingOf(entry, { ...floors, standing: (of) => ((asked += 1), floors.standing(of)) })
      return [standing(), standing(), asked]
    }
    expect(judge()).toEqual(['valid', 'valid', 1])
    floors.apply({ kind: 'tenant', seq: 1, tenantId: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be002', version: 6 })
    expect(judge()).toEqual(['valid', 'valid', 1])
    floors.apply({ kind: 'tenant', seq: 2, tenantId, version: 6 })
    expect(judge()).toEqual(['outdated', 'outdated', 2])
    floors.apply(keyChange(4, true))
    expect(judge()).toEqual(['revoked', 'revoked', 2])
  })

  test('are asked how an entry stands that nobody has judged, however many changes there were', () => {
    const { floors } = floorsWith()
    for (const version of [4, 5]) {
      floors.apply(keyChange(version, false))
      expect(standingOf({ record, validAt: -1 }, floors)).toBe('outdated')
    }
  })

  test('a change that comes late does not lower what a later one has raised', () => {
    const { floors } = floorsWith()
    floors.apply(keyChange(4, false))
    floors.apply(keyChange(2, false))
    expect(floors.standing(record)).toBe('outdated')
    floors.apply({ kind: 'tenant', seq: 1, tenantId, version: 9 })
    floors.apply({ kind: 'tenant', seq: 2, tenantId, version: 2 })
    expect(floors.isTenantOutdated(tenantId, 8)).toBe(true)
  })

  test('a change of the tenant outdates the records of all its keys, and of no other tenant’s', () => {
    const { floors } = floorsWith()
    floors.apply({ kind: 'tenant', seq: 1, tenantId, version: 6 })
    expect(floors.standing(record)).toBe('outdated')
    expect(floors.standing({ ...record, tenantVersion: 6 })).toBe('valid')
    expect(floors.standing({ ...record, tenantId: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be002' })).toBe('valid')
    expect(floors.isTenantOutdated(tenantId, 5)).toBe(true)
    expect(floors.isTenantOutdated(tenantId, 6)).toBe(false)
  })

  test('are remembered for longer than any record of before can live, and then forgotten', () => {
    const { clocks, floors } = floorsWith()
    floors.apply(keyChange(4, true))
    floors.apply({ kind: 'tenant', seq: 2, tenantId, version: 6 })
    clocks.pass(floorTtlMs)
    floors.prune()
    expect([floors.isRevoked(hash), floors.isTenantOutdated(tenantId, 5)]).toEqual([true, true])
    clocks.pass(1)
    floors.prune()
    expect([floors.isRevoked(hash), floors.isTenantOutdated(tenantId, 5)]).toEqual([false, false])
  })

  test('are remembered for as long as the database’s clock is behind where it was, when it is set back', () => {
    const { clocks, databaseClock, floors } = floorsWith()
    floors.apply(keyChange(4, true))
    floors.apply({ kind: 'tenant', seq: 2, tenantId, version: 6 })
    clocks.pass(floorTtlMs + 1)
    databaseClock.observe(databaseStart - 3_600_000, clocks.monotonic())
    floors.prune()
    expect([floors.isRevoked(hash), floors.isTenantOutdated(tenantId, 5)]).toEqual([true, true])
    clocks.pass(3_600_000 + floorTtlMs + 1)
    floors.prune()
    expect([floors.isRevoked(hash), floors.isTenantOutdated(tenantId, 5)]).toEqual([false, false])
  })

  test('overrule a record of before the clock was set back for as long as it can be young again', () => {
    const { clocks, databaseClock, floors } = floorsWith()
    // Read, then set back, then revoked.
    const { readAt } = record
    databaseClock.observe(databaseStart - 3_600_000, clocks.monotonic())
    floors.apply(keyChange(4, true))
    for (let minute = 0; minute < 75; minute += 1) {
      floors.prune()
      expect(isFresh(readAt, databaseClock) && !floors.isRevoked(hash)).toBe(false)
      clocks.pass(60_000)
    }
    expect(isFresh(readAt, databaseClock)).toBe(false)
  })

  test('count from when the database is heard of, where they were raised before', () => {
    const clocks = fakeClocks()
    const databaseClock = createDatabaseClock(clocks)
    const floors = createFloors(clocks, databaseClock)
    floors.apply(keyChange(4, true))
    clocks.pass(floorTtlMs + 1)
    databaseClock.observe(databaseStart, clocks.monotonic())
    floors.prune()
    expect(floors.isRevoked(hash)).toBe(true)
    clocks.pass(floorTtlMs + 1)
    floors.prune()
    expect(floors.isRevoked(hash)).toBe(false)
  })

  test('are remembered for as long by the gateway’s own clock, however far the database’s is set ahead', () => {
    const { clocks, databaseClock, floors } = floorsWith()
    floors.apply(keyChange(4, true))
    databaseClock.observe(databaseStart + 3_600_000, clocks.monotonic())
    clocks.pass(floorTtlMs)
    floors.prune()
    expect(floors.isRevoked(hash)).toBe(true)
    clocks.pass(1)
    floors.prune()
    expect(floors.isRevoked(hash)).toBe(false)
  })

  test('are remembered for as long by the database’s clock, where the gateway’s own is faster', () => {
    const { clocks, databaseClock, floors } = floorsWith()
    floors.apply(keyChange(4, true))
    clocks.pass(floorTtlMs + 10)
    databaseClock.observe(databaseStart + floorTtlMs, clocks.monotonic())
    floors.prune()
    expect(floors.isRevoked(hash)).toBe(true)
    clocks.pass(1)
    floors.prune()
    expect(floors.isRevoked(hash)).toBe(false)
  })

  test('go by the gateway’s own clock alone while nothing is known of the database’s', () => {
    const clocks = fakeClocks()
    const floors = createFloors(clocks, createDatabaseClock(clocks))
    floors.apply(keyChange(4, true))
    clocks.pass(floorTtlMs)
    floors.prune()
    expect(floors.isRevoked(hash)).toBe(true)
    clocks.pass(1)
    floors.prune()
    expect(floors.isRevoked(hash)).toBe(false)
  })

  test('only rise: in whatever order changes come, and however often, the result is that of the highest', () => {
    const change = fc.record({ version: fc.integer({ min: 1, max: 9 }), revoked: fc.boolean() })
    fc.assert(
      fc.property(
        fc.array(change, { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 1, max: 9 }),
        (changes, version) => {
          const { floors } = floorsWith()
          for (const { version: changed, revoked } of changes) floors.apply(keyChange(changed, revoked))
          const highest = Math.max(...changes.map((one) => one.version))
          const expected = changes.some((one) => one.revoked) ? 'revoked' : version < highest ? 'outdated' : 'valid'
          expect(floors.standing({ ...record, version })).toBe(expected)
        },
      ),
    )
  })
})
