import type { Pool, PoolClient } from 'pg'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { DatabaseUnavailableError, type Tx } from '../src/index.ts'
import { follow } from '../src/follow.ts'
import { acquire } from '../src/pool.ts'
import { Session } from '../src/session.ts'
import { FakeClient, type FakeQuery } from './fake-client.ts'
import { sql } from './tenant-tables.ts'

// Minutes and hours pass at once.
beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const ordinary = (text: string) =>
  text.startsWith('fetch')
    ? { command: 'FETCH', rows: [{ n: 1 }, { n: 2 }], rowCount: 2 }
    : { command: text.startsWith('declare') ? 'DECLARE CURSOR' : 'SELECT', rows: [], rowCount: 0 }

/** Also records the values of each text. */
class ValuedClient extends FakeClient {
  readonly values: unknown[] = []

  override query(query: FakeQuery): void {
    this.values.push(query.values)
    super.query(query)
  }
}

/** A pool of connections that respond at once with full batches, without end. */
function fakePool(max: number) {
  const clients: ValuedClient[] = []
  const connect = async (): Promise<PoolClient> => {
    const client = new ValuedClient(ordinary)
    clients.push(client)
    return client.asPoolClient()
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the part of a pool that is used
  return { pool: { options: { max }, connect } as unknown as Pool, clients }
}

const list = async (tx: Tx): Promise<unknown[]> => await tx.query(sql('select n from numbers where n > $1', 0))
const opener = (pool: Pool) => async () => new Session(await acquire(pool), 600_000)
let readers = 0
/** Reads for a tenant; for a new one each time by default. */
const read = (pool: Pool, tenant = `t${(readers += 1)}`): AsyncGenerator<readonly unknown[]> =>
  follow(pool, opener(pool), `v1.a.${tenant}.1.m`, list, 2)

describe('a list that is followed', () => {
  test('uses one cursor for all batches, and its connection is not reused', async () => {
    const { pool, clients } = fakePool(4)
    const rows = read(pool)
    expect(await rows.next()).toEqual({ done: false, value: [{ n: 1 }, { n: 2 }] })
    await rows.next()
    expect(clients[0]?.texts).toEqual([
      'begin isolation level repeatable read read only',
      "select set_config('postern.assertion', $1, true)",
      'set local cursor_tuple_fraction = 0.00001',
      'declare following no scroll cursor for select n from numbers where n > $1',
      'fetch forward 2 from following',
      'fetch forward 2 from following',
    ])
    await rows.return(undefined)
    expect([clients[0]?.isDestroyed, clients[0]?.released]).toEqual([true, [true]])
  })

  test.each([
    ['a text', (text: string) => ({ text, more: { n: 1 }, none: null })],
    ['JSON', (text: string) => ({ n: 1, none: null, more: { text } })],
  ])('is fetched in batches that fit into memory, with rows of %s', async (_of, rowOf) => {
    const { pool, clients } = fakePool(4)
    let length = 1_000_000
    const long = follow(pool, opener(pool), 'v1.a.b.1.m', list, 100)
    const known = (text: string) => {
      const count = Number(/^fetch forward (\d+)/.exec(text)?.[1] ?? 0)
      const found = Array.from({ length: count }, () => rowOf('x'.repeat(length)))
      return count === 0 ? ordinary(text) : { command: 'FETCH', rows: found, rowCount: count }
    }
    const { connect } = pool
    Object.assign(pool, {
      connect: async () => {
        const client = await connect()
        Object.assign(clients.at(-1) ?? {}, { known })
        return client
      },
    })
    const counts: number[] = []
    for (const next of [1_000_000, 10, 10, 10, 10, 10, 10, 10]) {
      counts.push(((await long.next()).value ?? []).length)
      length = next
    }
    expect(counts).toEqual([8, 4, 4, 8, 16, 32, 64, 100])
    await long.return(undefined)
  })

  test('keeps its transaction alive only while it is read', async () => {
    const { pool, clients } = fakePool(4)
    const rows = read(pool)
    await rows.next()
    const before = clients[0]?.texts.length ?? 0
    await vi.advanceTimersByTimeAsync(9000)
    expect(clients[0]?.texts.slice(before)).toEqual(['select 1', 'select 1', 'select 1'])
    expect(clients[0]?.values.slice(before)).toEqual([[], [], []])
    const timers = vi.getTimerCount()
    await rows.return(undefined)
    expect(vi.getTimerCount()).toBeLessThan(timers)
    await vi.advanceTimersByTimeAsync(9000)
    expect(clients[0]?.texts).toHaveLength(before + 3)
  })

  test('continues if the keep-alive fails', async () => {
    const { pool, clients } = fakePool(4)
    const rows = read(pool)
    await rows.next()
    const client = clients[0]
    if (client === undefined) throw new Error('no connection')
    client.known = () => undefined
    await vi.advanceTimersByTimeAsync(3000)
    client.asked.at(-1)?.answer(new Error('gone'))
    client.known = ordinary
    expect((await rows.next()).done).toBe(false)
    await rows.return(undefined)
  })

  test('is read for an hour at most', async () => {
    const { pool } = fakePool(4)
    const rows = read(pool)
    await rows.next()
    await vi.advanceTimersByTimeAsync(3_600_000)
    expect((await rows.next()).done).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    await expect(rows.next()).rejects.toThrow('a list was read for more than an hour')
  })
})

describe('the connections of a pool', () => {
  test.each([
    [1, 2],
    [4, 2],
    [7, 2],
    [8, 2],
    [12, 3],
    [20, 5],
  ])('of size %i: %i can be used by followed lists', async (max, places) => {
    const { pool, clients } = fakePool(max)
    const all = Array.from({ length: places + 1 }, () => read(pool))
    const first = all.map(async (rows) => await rows.next())
    await vi.advanceTimersByTimeAsync(100)
    expect(clients).toHaveLength(places)
    await all[0]?.return(undefined)
    await vi.advanceTimersByTimeAsync(100)
    expect(clients).toHaveLength(places + 1)
    expect((await Promise.all(first)).map(({ done }) => done)).toEqual(all.map(() => false))
    for (const rows of all) await rows.return(undefined)
  })

  test('are awaited in order for 15 seconds, and then the list is rejected', async () => {
    const { pool, clients } = fakePool(1)
    const other = read(pool)
    await other.next()
    const [first, second, third] = [read(pool), read(pool), read(pool)]
    await first.next()
    const late = second.next().catch((error: unknown) => error)
    await vi.advanceTimersByTimeAsync(10_000)
    const inTime = third.next()
    await vi.advanceTimersByTimeAsync(5000)
    const failure = await late
    expect(failure).toBeInstanceOf(DatabaseUnavailableError)
    expect(failure).toMatchObject({ message: 'too many lists are followed at once' })
    // A caller that gave up takes no slot.
    await first.return(undefined)
    expect((await inTime).done).toBe(false)
    expect(clients).toHaveLength(3)
    await vi.advanceTimersByTimeAsync(20_000)
    expect((await third.next()).done).toBe(false)
    await third.return(undefined)
    const fourth = read(pool)
    expect((await fourth.next()).done).toBe(false)
    await fourth.return(undefined)
    await other.return(undefined)
  })

  test('a served caller removes no other one when its time limit passes', async () => {
    const { pool } = fakePool(1)
    const other = read(pool)
    await other.next()
    const [first, second, third] = [read(pool), read(pool), read(pool)]
    await first.next()
    const inTime = second.next()
    await vi.advanceTimersByTimeAsync(10_000)
    await first.return(undefined)
    await inTime
    const last = third.next()
    await vi.advanceTimersByTimeAsync(5000)
    await second.return(undefined)
    expect((await last).done).toBe(false)
    await third.return(undefined)
    await other.return(undefined)
  })

  test('are used at most half by one tenant, and other waiting tenants go first', async () => {
    const { pool, clients } = fakePool(1)
    const [slow, again, other] = [read(pool, 'a'), read(pool, 'a'), read(pool, 'b')]
    await slow.next()
    const late = again.next()
    await vi.advanceTimersByTimeAsync(1000)
    expect((await other.next()).done).toBe(false)
    expect(clients).toHaveLength(2)
    await other.return(undefined)
    await vi.advanceTimersByTimeAsync(1000)
    expect(clients).toHaveLength(2)
    await slow.return(undefined)
    expect((await late).done).toBe(false)
    await again.return(undefined)
  })

  test('are counted correctly for a tenant that releases and waits for several', async () => {
    // Four places, two of one tenant.
    const { pool, clients } = fakePool(16)
    const [first, second, third, fourth] = [read(pool, 'a'), read(pool, 'a'), read(pool, 'a'), read(pool, 'a')]
    await first.next()
    await second.next()
    const [next, last] = [third.next(), fourth.next()]
    await vi.advanceTimersByTimeAsync(1000)
    expect(clients).toHaveLength(2)
    await first.return(undefined)
    expect((await next).done).toBe(false)
    await vi.advanceTimersByTimeAsync(1000)
    // It has two again.
    expect(clients).toHaveLength(3)
    await second.return(undefined)
    expect((await last).done).toBe(false)
    await third.return(undefined)
    await fourth.return(undefined)
    const both = [read(pool, 'a'), read(pool, 'a')]
    for (const one of both) expect((await one.next()).done).toBe(false)
    for (const one of both) await one.return(undefined)
  })

  test('a slot is free again if no connection was available', async () => {
    const { pool, clients } = fakePool(1)
    const { connect } = pool
    Object.assign(pool, { connect: async () => await Promise.reject(new Error('away')) })
    await expect(read(pool).next()).rejects.toThrow('no database connection')
    Object.assign(pool, { connect })
    const rows = read(pool)
    await rows.next()
    expect(clients).toHaveLength(1)
    await rows.return(undefined)
  })
})
