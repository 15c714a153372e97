import { type TenantRecord, recordTtlMs } from '@postern/contracts/internal'
import { describe, expect, test } from 'vitest'
import { databaseStart, fakeClocks, scripted, settle } from '../../test/builders.ts'
import { createDatabaseClock } from './clocks.ts'
import { createFloors } from './floors.ts'
import type { TenantLookupAnswer } from './keys-client.ts'
import { createTenantLookup } from './tenant-lookup.ts'

const tenantId = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'
const record: TenantRecord = {
  tenantId,
  tenantName: 'Tenant',
  tenantStatus: 'active',
  tenantVersion: 1,
  tenantLimit: 6000,
  readAt: databaseStart,
}

function setUp() {
  const clocks = fakeClocks()
  const databaseClock = createDatabaseClock(clocks)
  const floors = createFloors(clocks, databaseClock)
  const keys = scripted<string, Pick<TenantLookupAnswer, 'record' | 'now'>>()
  let held = true
  const lease = {
    isHeld: () => held,
    remainingMs: () => 0,
    receive: () => undefined,
    start: () => undefined,
    stop: () => undefined,
  }
  const tenants = createTenantLookup({
    lease,
    floors,
    databaseClock,
    keys: {
      findTenant: async (asked) => {
        const sentMonotonic = clocks.monotonic()
        return { sentMonotonic, ...(await keys.call(asked)) }
      },
    },
  })
  return {
    clocks,
    databaseClock,
    floors,
    keys,
    tenants,
    setHeld: (value: boolean) => void (held = value),
    /** Asks for the tenant while the keys service would answer this. */
    ask: async (found: TenantRecord | null, now = databaseClock.latest() ?? databaseStart) => {
      const asked = tenants.obtain(tenantId)
      await settle()
      if (keys.waiting() > 0) await keys.answer({ record: found, now })
      return await asked
    },
  }
}

const found = { kind: 'found', tenant: record }

describe('the tenant of a signed-in person', () => {
  test('is asked for once under a lease, and again when everything was forgotten', async () => {
    const { ask, keys, tenants } = setUp()
    expect(await ask(record)).toEqual(found)
    expect(await ask(null)).toEqual(found)
    expect(keys.calls).toEqual([tenantId])
    tenants.clear()
    expect(await ask(null)).toEqual({ kind: 'unknown' })
    expect(keys.calls).toHaveLength(2)
  })

  test('is asked for each time without a lease', async () => {
    const { ask, keys, setHeld } = setUp()
    setHeld(false)
    expect(await ask(record)).toEqual(found)
    const suspended: TenantRecord = { ...record, tenantStatus: 'suspended', tenantVersion: 2 }
    expect(await ask(suspended)).toEqual({ kind: 'found', tenant: suspended })
    expect(keys.calls).toHaveLength(2)
  })

  test('is asked for again when its record is too old, or was overtaken', async () => {
    const { ask, keys, clocks, floors } = setUp()
    await ask(record)
    clocks.pass(recordTtlMs)
    const later = { ...record, readAt: databaseStart + recordTtlMs }
    expect(await ask(later)).toEqual({ kind: 'found', tenant: later })
    floors.apply({ kind: 'tenant', seq: 1, tenantId, version: 2 })
    const changed = { ...later, tenantVersion: 2 }
    expect(await ask(changed)).toEqual({ kind: 'found', tenant: changed })
    expect(keys.calls).toHaveLength(3)
  })

  test('is unavailable where the answer is of before a change, too old, or does not come', async () => {
    const { ask, keys, clocks, floors, tenants } = setUp()
    floors.apply({ kind: 'tenant', seq: 1, tenantId, version: 2 })
    expect(await ask(record)).toEqual({ kind: 'unavailable' })
    const changed = { ...record, tenantVersion: 2 }
    clocks.pass(recordTtlMs)
    expect(await ask(changed, clocks.wall())).toEqual({ kind: 'unavailable' })
    const asked = tenants.obtain(tenantId)
    await settle()
    await keys.fail()
    expect(await asked).toEqual({ kind: 'unavailable' })
    // Nothing of it was kept.
    expect(await ask(null)).toEqual({ kind: 'unknown' })
    expect(keys.calls).toHaveLength(4)
  })

  test('tells what the clock of the database shows, from when it was asked', async () => {
    const { clocks, databaseClock, keys, tenants } = setUp()
    const asked = tenants.obtain(tenantId)
    await settle()
    clocks.pass(300)
    await keys.answer({ record: null, now: databaseStart + 100 })
    await asked
    expect(databaseClock.latest()).toBe(databaseStart + 400)
  })
})
