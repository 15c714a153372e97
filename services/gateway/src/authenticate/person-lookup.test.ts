import { type PersonRecord, recordTtlMs } from '@postern/contracts/internal'
import { describe, expect, test } from 'vitest'
import { databaseStart, fakeClocks, scripted, settle } from '../../test/builders.ts'
import { createDatabaseClock } from './clocks.ts'
import type { PersonLookupAnswer } from './keys-client.ts'
import { createPersonLookup } from './person-lookup.ts'
import { createRevocationWatermarks } from './revocation-watermarks.ts'

const query = { tenantId: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001', attribute: 'externalId', name: 'ada "x" y' } as const
const hash = 'a'.repeat(64)
const record: PersonRecord = { hash, version: 7, status: 'active', readAt: databaseStart }
const inactive: PersonRecord = { ...record, status: 'inactive', version: 8 }

function setUp() {
  const clocks = fakeClocks()
  const databaseClock = createDatabaseClock(clocks)
  const watermarks = createRevocationWatermarks(clocks, databaseClock)
  const keys = scripted<unknown, Pick<PersonLookupAnswer, 'record' | 'now'>>()
  const timers: (() => void)[] = []
  let held = true
  const people = createPersonLookup({
    lease: { isHeld: () => held },
    watermarks,
    clocks,
    timers: {
      after: (_ms, task) => {
        timers.push(task)
        return () => undefined
      },
    },
    databaseClock,
    keys: {
      findPerson: async (asked) => {
        const sentMonotonic = clocks.monotonic()
        return { sentMonotonic, ...(await keys.call(asked)) }
      },
    },
  })
  return {
    clocks,
    watermarks,
    keys,
    people,
    timers,
    setHeld: (value: boolean) => void (held = value),
    /** Asks while the keys service would answer this. */
    ask: async (found: PersonRecord) => {
      const asked = people.obtain(query)
      await settle()
      const now = databaseClock.latest() ?? databaseStart
      if (keys.waiting() > 0) await keys.answer({ record: { ...found, readAt: now }, now })
      return await asked
    },
  }
}

const outcome = (status: PersonRecord['status']) => ({ kind: 'found', person: expect.objectContaining({ status }) })

describe('what the directory says about a person', () => {
  test('is looked up once under a lease, and again after an entry of the log', async () => {
    const { ask, keys, watermarks, clocks } = setUp()
    expect(await ask(record)).toEqual(outcome('active'))
    clocks.pass(60_000)
    expect(await ask(inactive)).toEqual(outcome('active'))
    expect(keys.calls).toEqual([query])
    watermarks.apply({ kind: 'key', seq: 8, hash, version: 8, revoked: false })
    expect(await ask(inactive)).toEqual(outcome('inactive'))
    expect(keys.calls).toHaveLength(2)
  })

  test('is looked up each time without a lease, and again if it is too old or the cache was cleared', async () => {
    const { ask, keys, setHeld, clocks, people } = setUp()
    await ask(record)
    clocks.pass(recordTtlMs)
    expect(await ask(record)).toEqual(outcome('active'))
    setHeld(false)
    expect(await ask(inactive)).toEqual(outcome('inactive'))
    setHeld(true)
    clocks.pass(1001)
    people.clear()
    expect(await ask(record)).toEqual(outcome('active'))
    expect(keys.calls).toHaveLength(4)
  })

  test.each(['inactive', 'unknown'] as const)('is looked up again a second after it was %s', async (status) => {
    const { ask, keys, clocks } = setUp()
    expect(await ask({ ...record, status })).toEqual(outcome(status))
    clocks.pass(900)
    expect(await ask(record)).toEqual(outcome(status))
    clocks.pass(101)
    expect(await ask(record)).toEqual(outcome('active'))
    expect(keys.calls).toHaveLength(2)
  })

  test('is unavailable if the answer is outdated, fails or does not arrive', async () => {
    const { ask, keys, people, timers, watermarks, setHeld } = setUp()
    watermarks.apply({ kind: 'key', seq: 9, hash, version: 9, revoked: false })
    expect(await ask(record)).toEqual({ kind: 'unavailable' })
    const failing = people.obtain(query)
    await settle()
    await keys.fail(new Error('away'))
    expect(await failing).toEqual({ kind: 'unavailable' })
    setHeld(false)
    const late = people.obtain(query)
    await settle()
    timers.at(-1)?.()
    expect(await late).toEqual({ kind: 'unavailable' })
  })
})
