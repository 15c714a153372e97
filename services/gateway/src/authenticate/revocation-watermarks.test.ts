import { type Revocation, watermarkTtlMs } from '@postern/contracts/internal'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { databaseStart, fakeClocks, keyRecord } from '../../test/builders.ts'
import { createDatabaseClock, isFresh } from './clocks.ts'
import { createRevocationWatermarks, recordStatus } from './revocation-watermarks.ts'

const record = keyRecord({ version: 3, tenantVersion: 5 })
const { hash, tenantId } = record

function watermarksWith(clocks = fakeClocks()) {
  const databaseClock = createDatabaseClock(clocks)
  databaseClock.observe(databaseStart, clocks.monotonic())
  return { clocks, databaseClock, watermarks: createRevocationWatermarks(clocks, databaseClock) }
}

function keyChange(version: number, revoked: boolean): Revocation {
  return { kind: 'key', seq: 1, hash, version, revoked }
}

describe('watermarks', () => {
  test('a revoked key is revoked in every record, also one of a higher version', () => {
    const { watermarks } = watermarksWith()
    watermarks.apply(keyChange(3, true))
    expect(watermarks.isRevoked(hash)).toBe(true)
    expect(watermarks.statusOf(record)).toBe('revoked')
    expect(watermarks.statusOf({ ...record, version: 99 })).toBe('revoked')
  })

  test('a record from before a change is outdated; the record of the change itself is valid', () => {
    const { watermarks } = watermarksWith()
    watermarks.apply(keyChange(4, false))
    expect(watermarks.statusOf(record)).toBe('outdated')
    expect(watermarks.statusOf({ ...record, version: 4 })).toBe('valid')
  })

  test('judge an entry until it is valid, and again after each change', () => {
    const { watermarks } = watermarksWith()
    const entry = { record, validAt: -1 }
    let asked = 0
    const judge = () => {
      asked = 0
      const status = () =>
        recordStatus(entry, { ...watermarks, statusOf: (of) => ((asked += 1), watermarks.statusOf(of)) })
      return [status(), status(), asked]
    }
    expect(judge()).toEqual(['valid', 'valid', 1])
    watermarks.apply({ kind: 'tenant', seq: 1, tenantId: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be002', version: 6 })
    expect(judge()).toEqual(['valid', 'valid', 1])
    watermarks.apply({ kind: 'tenant', seq: 2, tenantId, version: 6 })
    expect(judge()).toEqual(['outdated', 'outdated', 2])
    watermarks.apply(keyChange(4, true))
    expect(judge()).toEqual(['revoked', 'revoked', 2])
  })

  test('judge a new entry, however many changes there were', () => {
    const { watermarks } = watermarksWith()
    for (const version of [4, 5]) {
      watermarks.apply(keyChange(version, false))
      expect(recordStatus({ record, validAt: -1 }, watermarks)).toBe('outdated')
    }
  })

  test('a change that arrives late does not lower the watermark of a later one', () => {
    const { watermarks } = watermarksWith()
    watermarks.apply(keyChange(4, false))
    watermarks.apply(keyChange(2, false))
    expect(watermarks.statusOf(record)).toBe('outdated')
    watermarks.apply({ kind: 'tenant', seq: 1, tenantId, version: 9 })
    watermarks.apply({ kind: 'tenant', seq: 2, tenantId, version: 2 })
    expect(watermarks.isTenantOutdated(tenantId, 8)).toBe(true)
  })

  test('a change of the tenant outdates the records of all its keys, and of no other tenant’s', () => {
    const { watermarks } = watermarksWith()
    watermarks.apply({ kind: 'tenant', seq: 1, tenantId, version: 6 })
    expect(watermarks.statusOf(record)).toBe('outdated')
    expect(watermarks.statusOf({ ...record, tenantVersion: 6 })).toBe('valid')
    expect(watermarks.statusOf({ ...record, tenantId: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be002' })).toBe('valid')
    expect(watermarks.isTenantOutdated(tenantId, 5)).toBe(true)
    expect(watermarks.isTenantOutdated(tenantId, 6)).toBe(false)
  })

  test('outlive every older record, and are then deleted', () => {
    const { clocks, watermarks } = watermarksWith()
    watermarks.apply(keyChange(4, true))
    watermarks.apply({ kind: 'tenant', seq: 2, tenantId, version: 6 })
    clocks.pass(watermarkTtlMs)
    watermarks.prune()
    expect([watermarks.isRevoked(hash), watermarks.isTenantOutdated(tenantId, 5)]).toEqual([true, true])
    clocks.pass(1)
    watermarks.prune()
    expect([watermarks.isRevoked(hash), watermarks.isTenantOutdated(tenantId, 5)]).toEqual([false, false])
  })

  test('are kept after the database’s clock was set back, until it has caught up', () => {
    const { clocks, databaseClock, watermarks } = watermarksWith()
    watermarks.apply(keyChange(4, true))
    watermarks.apply({ kind: 'tenant', seq: 2, tenantId, version: 6 })
    clocks.pass(watermarkTtlMs + 1)
    databaseClock.observe(databaseStart - 3_600_000, clocks.monotonic())
    watermarks.prune()
    expect([watermarks.isRevoked(hash), watermarks.isTenantOutdated(tenantId, 5)]).toEqual([true, true])
    clocks.pass(3_600_000 + watermarkTtlMs + 1)
    watermarks.prune()
    expect([watermarks.isRevoked(hash), watermarks.isTenantOutdated(tenantId, 5)]).toEqual([false, false])
  })

  test('overrule a record from before the clock was set back for as long as it could be fresh again', () => {
    const { clocks, databaseClock, watermarks } = watermarksWith()
    // Read, then set back, then revoked.
    const { readAt } = record
    databaseClock.observe(databaseStart - 3_600_000, clocks.monotonic())
    watermarks.apply(keyChange(4, true))
    for (let minute = 0; minute < 75; minute += 1) {
      watermarks.prune()
      expect(isFresh(readAt, databaseClock) && !watermarks.isRevoked(hash)).toBe(false)
      clocks.pass(60_000)
    }
    expect(isFresh(readAt, databaseClock)).toBe(false)
  })

  test('count from the first known database time if they were raised before', () => {
    const clocks = fakeClocks()
    const databaseClock = createDatabaseClock(clocks)
    const watermarks = createRevocationWatermarks(clocks, databaseClock)
    watermarks.apply(keyChange(4, true))
    clocks.pass(watermarkTtlMs + 1)
    databaseClock.observe(databaseStart, clocks.monotonic())
    watermarks.prune()
    expect(watermarks.isRevoked(hash)).toBe(true)
    clocks.pass(watermarkTtlMs + 1)
    watermarks.prune()
    expect(watermarks.isRevoked(hash)).toBe(false)
  })

  test('live their full time by the gateway’s own clock, however far the database’s is set ahead', () => {
    const { clocks, databaseClock, watermarks } = watermarksWith()
    watermarks.apply(keyChange(4, true))
    databaseClock.observe(databaseStart + 3_600_000, clocks.monotonic())
    clocks.pass(watermarkTtlMs)
    watermarks.prune()
    expect(watermarks.isRevoked(hash)).toBe(true)
    clocks.pass(1)
    watermarks.prune()
    expect(watermarks.isRevoked(hash)).toBe(false)
  })

  test('live their full time by the database’s clock if the gateway’s own is faster', () => {
    const { clocks, databaseClock, watermarks } = watermarksWith()
    watermarks.apply(keyChange(4, true))
    clocks.pass(watermarkTtlMs + 10)
    databaseClock.observe(databaseStart + watermarkTtlMs, clocks.monotonic())
    watermarks.prune()
    expect(watermarks.isRevoked(hash)).toBe(true)
    clocks.pass(1)
    watermarks.prune()
    expect(watermarks.isRevoked(hash)).toBe(false)
  })

  test('follow only the gateway’s own clock until the database’s is known', () => {
    const clocks = fakeClocks()
    const watermarks = createRevocationWatermarks(clocks, createDatabaseClock(clocks))
    watermarks.apply(keyChange(4, true))
    clocks.pass(watermarkTtlMs)
    watermarks.prune()
    expect(watermarks.isRevoked(hash)).toBe(true)
    clocks.pass(1)
    watermarks.prune()
    expect(watermarks.isRevoked(hash)).toBe(false)
  })

  test('only rise: the highest change counts, in whatever order and however often changes arrive', () => {
    const change = fc.record({ version: fc.integer({ min: 1, max: 9 }), revoked: fc.boolean() })
    fc.assert(
      fc.property(
        fc.array(change, { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 1, max: 9 }),
        (changes, version) => {
          const { watermarks } = watermarksWith()
          for (const { version: changed, revoked } of changes) watermarks.apply(keyChange(changed, revoked))
          const highest = Math.max(...changes.map((one) => one.version))
          const expected = changes.some((one) => one.revoked) ? 'revoked' : version < highest ? 'outdated' : 'valid'
          expect(watermarks.statusOf({ ...record, version })).toBe(expected)
        },
      ),
    )
  })
})
