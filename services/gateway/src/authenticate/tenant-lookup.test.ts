import { type TenantRecord, recordTtlMs } from '@postern/contracts/internal'
import { describe, expect, test } from 'vitest'
import { databaseStart, fakeClocks, scripted, settle } from '../../test/builders.ts'
import { createDatabaseClock } from './clocks.ts'
import { createRevocationWatermarks } from './revocation-watermarks.ts'
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
  const watermarks = createRevocationWatermarks(clocks, databaseClock)
  const keys = scripted<string, Pick<TenantLookupAnswer, 'record' | 'now'>>()
  const timers = new Map<() => void, number>()
  let held = true
  const lease = {
    isHeld: () => held,
    remainingMs: () => 0,
    gateways: () => 1,
    receive: () => undefined,
    start: () => undefined,
    stop: () => undefined,
  }
  const tenants = createTenantLookup({
    lease,
    watermarks,
    clocks,
    timers: {
      after: (ms, task) => {
        timers.set(task, ms)
        return () => timers.delete(task)
      },
    },
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
    watermarks,
    keys,
    tenants,
    timers,
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
  test('is looked up once under a lease, and again after the cache was cleared', async () => {
    const { ask, keys, tenants } = setUp()
    expect(await ask(record)).toEqual(found)
    expect(await ask(null)).toEqual(found)
    expect(keys.calls).toEqual([tenantId])
    tenants.clear()
    expect(await ask(null)).toEqual({ kind: 'unknown' })
    expect(keys.calls).toHaveLength(2)
  })

  test('that is named by its slug is looked up again after a change of the tenant', async () => {
    const { keys, tenants, watermarks } = setUp()
    const obtain = async (answer: TenantRecord) => {
      const asked = tenants.obtain('harbourline')
      await settle()
      if (keys.waiting() > 0) await keys.answer({ record: answer, now: databaseStart })
      return await asked
    }
    expect(await obtain(record)).toEqual(found)
    watermarks.apply({ kind: 'tenant', seq: 1, tenantId, version: 2 })
    const suspended: TenantRecord = { ...record, tenantStatus: 'suspended', tenantVersion: 2 }
    expect(await obtain(suspended)).toEqual({ kind: 'found', tenant: suspended })
    expect(keys.calls).toEqual(['harbourline', 'harbourline'])
  })

  test('is looked up each time without a lease', async () => {
    const { ask, keys, setHeld } = setUp()
    setHeld(false)
    expect(await ask(record)).toEqual(found)
    const suspended: TenantRecord = { ...record, tenantStatus: 'suspended', tenantVersion: 2 }
    expect(await ask(suspended)).toEqual({ kind: 'found', tenant: suspended })
    expect(keys.calls).toHaveLength(2)
  })

  test('is looked up again if its record is too old or a newer version is known', async () => {
    const { ask, keys, clocks, watermarks } = setUp()
    await ask(record)
    clocks.pass(recordTtlMs)
    const later = { ...record, readAt: databaseStart + recordTtlMs }
    expect(await ask(later)).toEqual({ kind: 'found', tenant: later })
    watermarks.apply({ kind: 'tenant', seq: 1, tenantId, version: 2 })
    const changed = { ...later, tenantVersion: 2 }
    expect(await ask(changed)).toEqual({ kind: 'found', tenant: changed })
    expect(keys.calls).toHaveLength(3)
  })

  test('is unavailable if the answer is from before a change, too old or missing', async () => {
    const { ask, keys, clocks, watermarks, tenants, timers } = setUp()
    watermarks.apply({ kind: 'tenant', seq: 1, tenantId, version: 2 })
    expect(await ask(record)).toEqual({ kind: 'unavailable' })
    const changed = { ...record, tenantVersion: 2 }
    clocks.pass(recordTtlMs)
    expect(await ask(changed, clocks.wall())).toEqual({ kind: 'unavailable' })
    const asked = tenants.obtain(tenantId)
    await settle()
    await keys.fail()
    expect(await asked).toEqual({ kind: 'unavailable' })
    // No timer is left.
    expect(timers.size).toBe(0)
    expect(await ask(null)).toEqual({ kind: 'unknown' })
    expect(keys.calls).toHaveLength(4)
  })

  test('reports the clock of the database, as of the moment of sending', async () => {
    const { clocks, databaseClock, keys, tenants } = setUp()
    const asked = tenants.obtain(tenantId)
    await settle()
    clocks.pass(300)
    await keys.answer({ record: null, now: databaseStart + 100 })
    await asked
    expect(databaseClock.latest()).toBe(databaseStart + 400)
  })
})

const answerOf = (given: TenantRecord | null) => ({ record: given, now: databaseStart })

describe('a tenant that does not exist', () => {
  test.each([
    ['under', true],
    ['without', false],
  ])('is asked for once a second, %s a lease', async (_what, held) => {
    const { ask, keys, clocks, tenants, setHeld } = setUp()
    setHeld(held)
    expect(await ask(null)).toEqual({ kind: 'unknown' })
    clocks.pass(1000)
    expect(await tenants.obtain(tenantId)).toEqual({ kind: 'unknown' })
    expect(keys.calls).toHaveLength(1)
    clocks.pass(1)
    expect(await ask(record)).toEqual(found)
    expect(keys.calls).toHaveLength(2)
  })

  test('does not delay another one', async () => {
    const { ask, keys, tenants } = setUp()
    await ask(null)
    const other = { ...record, tenantId: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be002' }
    const asked = tenants.obtain(other.tenantId)
    await settle()
    await keys.answer(answerOf(other))
    expect(await asked).toEqual({ kind: 'found', tenant: other })
  })
})

describe('look-ups of one tenant at the same time', () => {
  test('are shared under a lease, even if it is unknown or cannot be looked up', async () => {
    const { keys, tenants } = setUp()
    for (const [end, expected] of [
      [async () => await keys.fail(), { kind: 'unavailable' }],
      [async () => await keys.answer(answerOf(record)), found],
    ] as const) {
      const asked = Promise.all([tenants.obtain(tenantId), tenants.obtain(tenantId), tenants.obtain(tenantId)])
      await settle()
      expect(keys.waiting()).toBe(1)
      await end()
      expect(await asked).toEqual([expected, expected, expected])
    }
    tenants.clear()
    const asked = Promise.all([tenants.obtain(tenantId), tenants.obtain(tenantId)])
    await settle()
    await keys.answer(answerOf(null))
    expect(await asked).toEqual([{ kind: 'unknown' }, { kind: 'unknown' }])
    expect(keys.calls).toHaveLength(3)
  })

  test('are not answered without a lease by one that began earlier', async () => {
    const { keys, tenants, setHeld } = setUp()
    setHeld(false)
    const first = tenants.obtain(tenantId)
    await settle()
    const later = [tenants.obtain(tenantId), tenants.obtain(tenantId)]
    await settle()
    expect(keys.calls).toHaveLength(1)
    await keys.answer(answerOf(record))
    expect(await first).toEqual(found)
    // Both who came later share the next one.
    expect(keys.calls).toHaveLength(2)
    const suspended: TenantRecord = { ...record, tenantStatus: 'suspended', tenantVersion: 2 }
    await keys.answer(answerOf(suspended))
    expect(await Promise.all(later)).toEqual([
      { kind: 'found', tenant: suspended },
      { kind: 'found', tenant: suspended },
    ])
    expect(keys.calls).toHaveLength(2)
  })

  test('are not used by a request that has seen a change since', async () => {
    const { watermarks, keys, tenants } = setUp()
    const asked = [tenants.obtain(tenantId), tenants.obtain(tenantId)]
    await settle()
    watermarks.apply({ kind: 'tenant', seq: 1, tenantId, version: 2 })
    await keys.answer(answerOf(record))
    expect(await Promise.all(asked)).toEqual([{ kind: 'unavailable' }, { kind: 'unavailable' }])
  })

  test.each([
    ['for an answer', true],
    ['for a look-up that began before them, and for their own', false],
  ])('wait for 2.5 s and no longer, %s', async (_what, held) => {
    const { keys, tenants, timers, setHeld } = setUp()
    setHeld(held)
    const asked = [tenants.obtain(tenantId), tenants.obtain(tenantId)]
    await settle()
    expect([...timers.values()]).toEqual([2500, 2500])
    for (const runOut of timers.keys()) runOut()
    expect(await Promise.all(asked)).toEqual([{ kind: 'unavailable' }, { kind: 'unavailable' }])
    // The answer that comes too late for them is there for whoever comes next.
    await keys.answer(answerOf(record))
    if (held) expect(await tenants.obtain(tenantId)).toEqual(found)
  })
})
