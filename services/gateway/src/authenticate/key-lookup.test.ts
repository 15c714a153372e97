import { type KeyRecord, recordTtlMs } from '@postern/contracts/internal'
import { describe, expect, test } from 'vitest'
import { databaseStart, fakeClocks, keyRecord, scripted, settle } from '../../test/builders.ts'
import { createDatabaseClock } from './clocks.ts'
import { createRevocationWatermarks, recordStatus } from './revocation-watermarks.ts'
import { type Lookup, type LookupLevel, createKeyLookup } from './key-lookup.ts'
import type { LookupAnswer } from './keys-client.ts'

const record = keyRecord()
const { hash } = record

function setUp({ held = true, inRedis }: { held?: boolean; inRedis?: KeyRecord } = {}) {
  const clocks = fakeClocks()
  const databaseClock = createDatabaseClock(clocks)
  databaseClock.observe(databaseStart, clocks.monotonic())
  const watermarks = createRevocationWatermarks(clocks, databaseClock)
  const keys = scripted<string, Answer>()
  const timers = new Map<() => void, number>()
  const redis = { reads: 0, record: inRedis }
  const levels: LookupLevel[] = []
  const lease = {
    isHeld: () => held,
    remainingMs: () => 0,
    gateways: () => 1,
    receive: () => undefined,
    start: () => undefined,
    stop: () => undefined,
  }
  const lookup = createKeyLookup({
    lease,
    watermarks,
    clocks,
    databaseClock,
    redis: {
      find: async () => {
        redis.reads += 1
        return redis.record
      },
    },
    keys: {
      findKey: async (asked) => {
        const sentMonotonic = clocks.monotonic()
        return { sentMonotonic, ...(await keys.call(asked)) }
      },
    },
    timers: {
      after: (ms, task) => {
        timers.set(task, ms)
        return () => timers.delete(task)
      },
    },
    maxEntries: 100,
    count: (level) => void levels.push(level),
  })
  return {
    clocks,
    databaseClock,
    watermarks,
    keys,
    redis,
    levels,
    lookup,
    timers,
    setHeld: (value: boolean) => void (held = value),
  }
}

/** Sent immediately by default. */
type Answer = Omit<LookupAnswer, 'sentMonotonic'> & Partial<LookupAnswer>

function answerOf(found: KeyRecord | null): Answer {
  return { record: found, now: databaseStart }
}

function versionOf(found: Lookup): number | string {
  return found.kind === 'found' ? found.entry.record.version : found.kind
}

describe('memory', () => {
  test('is not used without a lease, and used again with one', async () => {
    const { lookup, keys, setHeld } = setUp()
    const asked = lookup.obtain(hash)
    await settle()
    await keys.answer(answerOf(record))
    await asked
    expect(lookup.find(hash)?.record).toEqual(record)
    setHeld(false)
    expect(lookup.find(hash)).toBeUndefined()
    setHeld(true)
    expect(lookup.find(hash)).toBeDefined()
  })

  test('returns no record that was overtaken or is too old', async () => {
    const { lookup, keys, watermarks, clocks } = setUp()
    const asked = lookup.obtain(hash)
    await settle()
    await keys.answer(answerOf(record))
    await asked
    clocks.pass(recordTtlMs - 1)
    expect(lookup.find(hash)).toBeDefined()
    clocks.pass(1)
    expect(lookup.find(hash)).toBeUndefined()
    clocks.jumpMonotonic(-2)
    expect(lookup.find(hash)).toBeDefined()
    watermarks.apply({ kind: 'key', seq: 1, hash, version: 2, revoked: false })
    expect(lookup.find(hash)).toBeUndefined()
  })

  test('keeps the keys in use: an unused one is evicted for a new one', async () => {
    const { lookup, keys, clocks } = setUp()
    const use = async (used: KeyRecord) => {
      const asked = lookup.obtain(used.hash)
      await settle()
      await keys.answer({ record: used, now: databaseStart + passed })
      expect((await asked).kind).toBe('found')
    }
    let passed = 0
    for (let old = 0; old < 20; old += 1) await use(keyRecord())
    await use(record)
    passed = recordTtlMs
    clocks.pass(passed)
    // Asked for again, so it is read again.
    await use({ ...record, readAt: databaseStart + passed })
    expect(lookup.size).toBe(21)
    // Two for each that comes.
    await use(keyRecord({ readAt: databaseStart + passed }))
    expect(lookup.size).toBe(20)
    for (let fresh = 1; fresh < 20; fresh += 1) await use(keyRecord({ readAt: databaseStart + passed }))
    expect(lookup.size).toBe(21)
    expect(lookup.find(hash)).toBeDefined()
  })

  test('returns no record from before the database’s clock was set back, but newly read ones', async () => {
    const { lookup, keys, databaseClock, clocks } = setUp()
    const read = async (found: KeyRecord, now: number) => {
      const asked = lookup.obtain(hash)
      await settle()
      await keys.answer({ ...answerOf(found), now })
      await asked
    }
    await read(record, databaseStart)
    const before = databaseStart - 3_600_000
    databaseClock.observe(before, clocks.monotonic())
    expect(lookup.find(hash)).toBeUndefined()
    await read({ ...record, readAt: before }, before)
    expect(lookup.find(hash)?.record.readAt).toBe(before)
  })

  test('does not consider a new record checked, whatever was revoked before it was read', async () => {
    const { lookup, keys, watermarks } = setUp()
    for (const version of [1, 2]) {
      watermarks.apply({ kind: 'key', seq: version, hash, version, revoked: true })
      const asked = lookup.obtain(hash)
      await settle()
      await keys.answer(answerOf({ ...record, version, readAt: record.readAt + version }))
      const found = await asked
      expect(found.kind === 'found' ? recordStatus(found.entry, watermarks) : found.kind).toBe('revoked')
    }
  })

  test('keeps a revoked key as long as it fits: it stays revoked', async () => {
    const { lookup, keys, clocks } = setUp()
    const asked = lookup.obtain(hash)
    await settle()
    await keys.answer(answerOf({ ...record, revoked: true }))
    await asked
    clocks.pass(2 * recordTtlMs)
    expect(lookup.find(hash)?.record.revoked).toBe(true)
  })

  test('does not exceed its limit', async () => {
    const { lookup, keys } = setUp()
    for (let count = 0; count < 101; count += 1) {
      const asked = lookup.obtain(`${count}`)
      await settle()
      await keys.answer(answerOf({ ...record, hash: `${count}` }))
      await asked
    }
    expect([lookup.size, lookup.find('0'), lookup.find('1')?.record.hash]).toEqual([100, undefined, '1'])
  })

  test('is empty after it was cleared', async () => {
    const { lookup, keys } = setUp()
    const asked = lookup.obtain(hash)
    await settle()
    await keys.answer(answerOf(record))
    await asked
    lookup.clear()
    expect(lookup.find(hash)).toBeUndefined()
  })

  test('forgets unknown keys when it is cleared', async () => {
    const { lookup, keys } = setUp()
    for (let times = 0; times < 2; times += 1) {
      const asked = lookup.obtain(hash)
      await settle()
      await keys.answer(answerOf(null))
      expect(await asked).toEqual({ kind: 'unknown' })
      lookup.clear()
    }
    expect(keys.calls).toHaveLength(2)
  })
})

describe('Redis', () => {
  test('is not used without a lease', async () => {
    const { lookup, keys, redis } = setUp({ held: false, inRedis: record })
    const asked = lookup.obtain(hash)
    await settle()
    expect(keys.calls).toEqual([hash])
    expect(redis.reads).toBe(0)
    await keys.answer(answerOf({ ...record, version: 2 }))
    expect(versionOf(await asked)).toBe(2)
  })

  test.each([
    ['was overtaken by a change', { version: 1 }],
    ['is too old, on the database’s clock', { version: 2, readAt: databaseStart - recordTtlMs }],
  ])('is not used if its record %s', async (_why, given) => {
    const { lookup, keys, watermarks } = setUp({ inRedis: { ...record, ...given } })
    watermarks.apply({ kind: 'key', seq: 1, hash, version: 2, revoked: false })
    const asked = lookup.obtain(hash)
    await settle()
    expect(keys.calls).toEqual([hash])
    await keys.answer(answerOf({ ...record, version: 3 }))
    expect(versionOf(await asked)).toBe(3)
  })

  test('is not used if the lease ended meanwhile', async () => {
    const { lookup, keys, setHeld } = setUp({ inRedis: record })
    const asked = lookup.obtain(hash)
    setHeld(false)
    await settle()
    expect(keys.calls).toEqual([hash])
    await keys.answer(answerOf({ ...record, version: 2 }))
    expect(versionOf(await asked)).toBe(2)
  })

  test('replaces the keys service under a lease', async () => {
    const { lookup, keys, levels } = setUp({ inRedis: record })
    expect(versionOf(await lookup.obtain(hash))).toBe(1)
    expect(keys.calls).toEqual([])
    expect(levels).toEqual(['redis'])
    expect(lookup.find(hash)).toBeDefined()
  })

  test('never replaces a newer record in memory with an older one', async () => {
    const { lookup, keys, redis } = setUp()
    const asked = lookup.obtain(hash)
    await settle()
    await keys.answer(answerOf({ ...record, version: 5 }))
    await asked
    redis.record = record
    expect(versionOf(await lookup.obtain(hash))).toBe(5)
    expect(lookup.find(hash)?.record.version).toBe(5)
  })
})

describe('of two records of a key', () => {
  const known = { ...record, version: 5, tenantVersion: 5 }

  test.each([
    ['a lower version, whatever else is later', { version: 4, tenantVersion: 9, readAt: databaseStart + 1 }, true],
    ['a higher version, whatever else is earlier', { version: 6, tenantVersion: 1, readAt: databaseStart - 1 }, false],
    ['a lower version of the tenant', { tenantVersion: 4, readAt: databaseStart + 1 }, true],
    ['a higher version of the tenant', { tenantVersion: 6, readAt: databaseStart - 1 }, false],
    ['been read earlier', { readAt: databaseStart - 1 }, true],
    ['been read later', { readAt: databaseStart + 1 }, false],
  ])('the newer one is kept: the other has %s', async (_what, given, stays) => {
    const { lookup, keys, redis } = setUp()
    const asked = lookup.obtain(hash)
    await settle()
    await keys.answer(answerOf(known))
    await asked
    redis.record = { ...known, ...given }
    const expected = stays ? known : redis.record
    expect(await lookup.obtain(hash)).toMatchObject({ entry: { record: expected } })
    expect(lookup.find(hash)?.record).toEqual(expected)
  })

  test.each([
    ['version', { version: 4 }],
    ['version of the tenant', { tenantVersion: 4 }],
  ])('one of a lower %s is not used even if the other is too old', async (_what, given) => {
    const { lookup, keys, redis, clocks } = setUp()
    const asked = lookup.obtain(hash)
    await settle()
    await keys.answer(answerOf(known))
    await asked
    clocks.pass(recordTtlMs)
    redis.record = { ...known, ...given, readAt: databaseStart + recordTtlMs }
    expect(await lookup.obtain(hash)).toMatchObject({ entry: { record: known } })
  })
})

describe('the keys service', () => {
  test('that does not answer leaves the key neither known nor unknown', async () => {
    const { lookup, keys, levels } = setUp()
    const asked = lookup.obtain(hash)
    await settle()
    await keys.fail()
    expect(await asked).toEqual({ kind: 'unavailable' })
    const again = lookup.obtain(hash)
    await settle()
    await keys.answer(answerOf(record))
    expect(versionOf(await again)).toBe(1)
    expect(levels).toEqual(['unavailable', 'keys'])
  })

  test('is asked again if its record was overtaken on the way', async () => {
    const { lookup, keys, watermarks } = setUp()
    const asked = lookup.obtain(hash)
    await settle()
    watermarks.apply({ kind: 'key', seq: 1, hash, version: 2, revoked: false })
    await keys.answer(answerOf(record))
    expect(lookup.find(hash)).toBeUndefined()
    expect(keys.calls).toHaveLength(2)
    await keys.answer(answerOf({ ...record, version: 2 }))
    expect(versionOf(await asked)).toBe(2)
  })

  test('that returns only overtaken records is not used, and not asked forever', async () => {
    const { lookup, keys, watermarks, levels } = setUp()
    watermarks.apply({ kind: 'key', seq: 1, hash, version: 2, revoked: false })
    const asked = lookup.obtain(hash)
    await settle()
    for (let times = 0; times < 3; times += 1) await keys.answer(answerOf(record))
    expect(await asked).toEqual({ kind: 'unavailable' })
    expect(keys.calls).toHaveLength(3)
    expect(levels).toEqual(['unavailable'])
  })

  test('is asked once for concurrent requests under a lease', async () => {
    const { lookup, keys } = setUp()
    const asked = [lookup.obtain(hash), lookup.obtain(hash), lookup.obtain(hash)]
    await settle()
    expect(keys.calls).toHaveLength(1)
    await keys.answer(answerOf(record))
    expect((await Promise.all(asked)).map(versionOf)).toEqual([1, 1, 1])
  })

  test('is asked again without a lease: no request gets an earlier answer', async () => {
    const { lookup, keys } = setUp({ held: false })
    const first = lookup.obtain(hash)
    await settle()
    const later = [lookup.obtain(hash), lookup.obtain(hash)]
    await settle()
    expect(keys.calls).toHaveLength(1)
    await keys.answer(answerOf(record))
    expect(versionOf(await first)).toBe(1)
    // Both who came later share the next look-up.
    expect(keys.calls).toHaveLength(2)
    const latest = lookup.obtain(hash)
    await keys.answer(answerOf({ ...record, version: 2, revoked: true }))
    expect((await Promise.all(later)).map(versionOf)).toEqual([2, 2])
    expect(keys.calls).toHaveLength(3)
    await keys.answer(answerOf({ ...record, version: 3, revoked: true }))
    expect(versionOf(await latest)).toBe(3)
  })

  test('is asked again without a lease also if the earlier request failed', async () => {
    const { lookup, keys } = setUp({ held: false })
    const first = lookup.obtain(hash)
    await settle()
    const later = lookup.obtain(hash)
    await keys.fail()
    expect(await first).toEqual({ kind: 'unavailable' })
    await keys.answer(answerOf(record))
    expect(versionOf(await later)).toBe(1)
  })

  test('that knows no such key is asked again only after a moment', async () => {
    const { lookup, keys, levels, clocks } = setUp()
    const asked = lookup.obtain(hash)
    await settle()
    await keys.answer(answerOf(null))
    expect(await asked).toEqual({ kind: 'unknown' })
    clocks.pass(1000)
    expect(await lookup.obtain(hash)).toEqual({ kind: 'unknown' })
    expect(keys.calls).toHaveLength(1)
    expect(levels).toEqual(['unknown'])
    clocks.pass(1)
    const again = lookup.obtain(hash)
    await settle()
    await keys.answer(answerOf(record))
    expect(versionOf(await again)).toBe(1)
  })
})

describe('a request waits for 2.5 s and no longer', () => {
  test.each([
    ['for an answer', true],
    ['for a look-up that began before it, and for its own', false],
  ])('%s', async (_what, held) => {
    const { lookup, keys, timers } = setUp({ held })
    const first = lookup.obtain(hash)
    await settle()
    const second = lookup.obtain(hash)
    await settle()
    expect([...timers.values()]).toEqual([2500, 2500])
    for (const runOut of timers.keys()) runOut()
    expect(await Promise.all([first, second])).toEqual([{ kind: 'unavailable' }, { kind: 'unavailable' }])
    // The answer that comes too late for them is there for whoever comes next.
    await keys.answer(answerOf(record))
    if (held) expect(lookup.find(hash)?.record).toEqual(record)
  })

  test('and leaves no timer', async () => {
    const { lookup, keys, timers } = setUp()
    const asked = lookup.obtain(hash)
    await settle()
    await keys.answer(answerOf(record))
    expect(versionOf(await asked)).toBe(1)
    expect(timers.size).toBe(0)
  })
})

test('the wait of a look-up does not move the database’s clock forward', async () => {
  const { lookup, keys, clocks, databaseClock } = setUp()
  const asked = lookup.obtain(hash)
  await settle()
  clocks.pass(15_000)
  const sentMonotonic = clocks.monotonic()
  clocks.pass(100)
  await keys.answer({ record, now: databaseStart + 20_000, sentMonotonic })
  expect(versionOf(await asked)).toBe(1)
  expect(databaseClock.latest()).toBe(databaseStart + 20_100)
})
