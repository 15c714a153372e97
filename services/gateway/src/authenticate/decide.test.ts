import type { KeyRecord } from '@postern/contracts/internal'
import { describe, expect, test } from 'vitest'
import { databaseStart, fakeClocks, keyRecord } from '../../test/builders.ts'
import { createDatabaseClock } from './clocks.ts'
import { type KeyDecision, decideKey } from './decide.ts'
import { createRevocationWatermarks } from './revocation-watermarks.ts'
import { keyPrincipal } from './principal.ts'

function setUp() {
  const clocks = fakeClocks()
  const clock = createDatabaseClock(clocks)
  const watermarks = createRevocationWatermarks(clocks, clock)
  clock.observe(databaseStart, clocks.monotonic())
  const decide = (given: Partial<KeyRecord>, address = '192.0.2.1'): KeyDecision => {
    const record = keyRecord(given)
    return decideKey({ record, principal: keyPrincipal(record), validAt: -1 }, watermarks, clock, address)
  }
  return { clocks, watermarks, clock, decide }
}

describe('a key is refused', () => {
  test('as revoked, although it has also expired and its tenant is suspended', () => {
    expect(setUp().decide({ revoked: true, expiresAt: 0, tenantStatus: 'suspended' })).toBe('key_revoked')
  })

  test('as revoked when a revocation is known that its record lacks', () => {
    const { decide, watermarks } = setUp()
    const record = keyRecord()
    watermarks.apply({ kind: 'key', seq: 1, hash: record.hash, version: 2, revoked: true })
    expect(decide(record)).toBe('key_revoked')
  })

  test('from the moment of its expiry', () => {
    const { decide, clocks } = setUp()
    const record = keyRecord({ expiresAt: databaseStart + 1000 })
    clocks.pass(999)
    expect(decide(record)).toBe('accepted')
    clocks.pass(1)
    expect(decide(record)).toBe('key_expired')
  })

  test('when its tenant is suspended', () => {
    expect(setUp().decide({ tenantStatus: 'suspended' })).toBe('tenant_suspended')
  })

  test('from an address outside its list', () => {
    const { decide } = setUp()
    expect(decide({ allowedAddresses: ['10.0.0.0/8'] }, '192.0.2.1')).toBe('address_not_allowed')
    expect(decide({ allowedAddresses: ['10.0.0.0/8'] }, '10.1.2.3')).toBe('accepted')
    expect(decide({ allowedAddresses: ['10.0.0.0/8'] }, '')).toBe('address_not_allowed')
  })
})

describe('a key is neither accepted nor expired', () => {
  test.each([
    ['the clock of the database was set back', -3_600_000, 0],
    ['the clock of the database was set forward', 3_600_000, 1000],
  ])('while %s, and our clock says the opposite', (_what, byMs, leftMs) => {
    const { decide, clocks, clock } = setUp()
    const record = keyRecord({ expiresAt: databaseStart + leftMs })
    clock.observe(databaseStart + byMs, clocks.monotonic())
    expect(decide(record)).toBe('outdated')
    // Both clocks agree.
    expect(decide({ expiresAt: databaseStart - 3_600_001 })).toBe('key_expired')
    expect(decide({ expiresAt: databaseStart + 3_600_001 })).toBe('accepted')
    clock.observe(databaseStart, clocks.monotonic())
    expect(decide(record)).toBe(leftMs > 0 ? 'accepted' : 'key_expired')
  })

  test('but if the clocks are close enough, the database decides', () => {
    const { decide, clocks } = setUp()
    clocks.jumpWall(9000)
    expect(decide({ expiresAt: databaseStart + 5000 })).toBe('accepted')
    clocks.jumpWall(-18_000)
    expect(decide({ expiresAt: databaseStart - 5000 })).toBe('key_expired')
  })
})

describe('a key is read again', () => {
  test('when it or its tenant has changed since', () => {
    const { decide, watermarks } = setUp()
    const record = keyRecord()
    watermarks.apply({ kind: 'tenant', seq: 1, tenantId: record.tenantId, version: 2 })
    expect(decide(record)).toBe('outdated')
    expect(decide({ ...record, tenantVersion: 2 })).toBe('accepted')
  })

  test('when the time of the database is not known', () => {
    const clocks = fakeClocks()
    const databaseClock = createDatabaseClock(clocks)
    const record = keyRecord()
    const entry = { record, principal: keyPrincipal(record), validAt: -1 }
    expect(decideKey(entry, createRevocationWatermarks(clocks, databaseClock), databaseClock, '192.0.2.1')).toBe(
      'outdated',
    )
  })
})
