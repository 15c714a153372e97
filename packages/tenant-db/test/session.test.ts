import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { randomUUID } from 'node:crypto'
import { DatabaseError } from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { DatabaseTimeoutError, DatabaseUnavailableError, type TenantDb } from '../src/index.ts'
import { FakeClient } from './fake-client.ts'
import { type TenantTables, addParent, createTenantTables, sql } from './tenant-tables.ts'

const stateOf = (code: string): DatabaseError =>
  Object.assign(new DatabaseError('said by the server', 1, 'error'), { code, severity: 'ERROR' })

describe('a session that waits for a response', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  test('is closed with a timeout error if none arrives in time', async () => {
    const client = new FakeClient()
    const asked = client.session().execute(sql('select 1'))
    vi.advanceTimersByTime(999)
    expect(client.isDestroyed).toBe(false)
    vi.advanceTimersByTime(1)
    expect(client.isDestroyed).toBe(true)
    client.asked[0]?.answer(new Error('Connection terminated'))
    const failure = await asked.catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(DatabaseTimeoutError)
    expect(failure).toMatchObject({ message: 'no answer from the database in 1000 ms' })
  })

  test('gives each response the same time, and waits for none after the last', async () => {
    const client = new FakeClient()
    const session = client.session()
    const all = [session.execute(sql('select 1')), session.execute(sql('select 2'))]
    vi.advanceTimersByTime(900)
    client.answer(0, { rowCount: 1, command: 'SELECT' })
    vi.advanceTimersByTime(999)
    expect(client.isDestroyed).toBe(false)
    client.answer(1, { rowCount: null, command: 'SELECT' })
    expect(await Promise.all(all)).toEqual([1, 0])
    expect(vi.getTimerCount()).toBe(0)
    void session.execute(sql('select 3'))
    vi.advanceTimersByTime(999)
    expect(client.isDestroyed).toBe(false)
    vi.advanceTimersByTime(1)
    expect(client.isDestroyed).toBe(true)
  })

  test('is closed if the last of several responses does not arrive', () => {
    const client = new FakeClient()
    const session = client.session()
    for (const text of ['select 1', 'select 2']) void session.execute(sql(text))
    vi.advanceTimersByTime(900)
    client.answer(0, { command: 'SELECT' })
    vi.advanceTimersByTime(1000)
    expect(client.isDestroyed).toBe(true)
  })

  test.each([
    [1, 1000],
    [2, 2000],
    [3, 3000],
  ])('gives %d concurrent statements %d ms in total', (count, ms) => {
    const client = new FakeClient()
    const session = client.session()
    session.pipeline(() => {
      session.begin('read', 'v1.a')
      for (let one = 0; one < count; one += 1) void session.execute(sql('select 1'))
    })
    vi.advanceTimersByTime(ms - 1)
    expect(client.isDestroyed).toBe(false)
    vi.advanceTimersByTime(1)
    expect(client.isDestroyed).toBe(true)
  })

  test('gives BEGIN the time of one response', () => {
    const client = new FakeClient()
    const session = client.session()
    session.pipeline(() => session.begin('read', 'v1.a'))
    vi.advanceTimersByTime(999)
    expect(client.isDestroyed).toBe(false)
  })

  test('does not wait if all concurrent statements have responses', () => {
    const session = new FakeClient(() => ({ command: 'SELECT' })).session()
    session.pipeline(() => {
      for (const name of ['one', 'other']) void session.execute({ ...sql('select 1'), name })
    })
    expect(vi.getTimerCount()).toBe(0)
  })

  test('keeps the error that PostgreSQL reports late', async () => {
    const client = new FakeClient()
    const asked = client.session().execute(sql('select 1'))
    vi.advanceTimersByTime(1000)
    client.asked[0]?.answer(stateOf('22012'))
    await expect(asked).rejects.toMatchObject({ code: '22012' })
  })
})

describe('a session with a lost connection', () => {
  test('reports PostgreSQL’s last error, or the cause of the lost connection', async () => {
    const reset = new Error('reset')
    for (const [lost, expected] of [
      [stateOf('57P01'), { code: '57P01' }],
      [reset, { message: 'the database connection broke', cause: reset }],
    ] as const) {
      const client = new FakeClient().ofPool()
      const asked = client.session().execute(sql('select 1'))
      client.emit('error', lost)
      client.asked[0]?.answer(new Error('Connection terminated'))
      await expect(asked).rejects.toMatchObject(expected)
    }
  })

  test('does not return it to the pool, even without an open transaction', () => {
    const client = new FakeClient().ofPool()
    client.emit('error', new Error('reset'))
    client.session().release()
    expect([client.released, client.isDestroyed]).toEqual([[true], true])
  })
})

describe('a session without a started transaction', () => {
  test('reports that the database is unavailable, whatever later statements returned', async () => {
    for (const state of ['25006', '58030']) {
      const client = new FakeClient()
      const session = client.session()
      session.begin('read', '')
      client.asked[0]?.answer(stateOf(state))
      const reason = session.findRootError(stateOf('28000'))
      expect(reason).toBeInstanceOf(DatabaseUnavailableError)
      expect(reason).toMatchObject({ message: 'the database begins no transaction', cause: { code: state } })
    }
  })

  test('reports a known cause', () => {
    const client = new FakeClient()
    const session = client.session()
    session.begin('read', '')
    client.asked[0]?.answer(stateOf('57P01'))
    expect(session.findRootError(undefined)).toMatchObject({ code: '57P01' })
  })

  test('differs from one with a started transaction', () => {
    const client = new FakeClient()
    const session = client.session()
    session.begin('read', '')
    client.answer(0, { command: 'BEGIN' })
    expect(session.findRootError(stateOf('42P01'))).toMatchObject({ code: '42P01' })
  })
})

describe('concurrent statements', () => {
  test('are written to the socket at once, after the last one', () => {
    const client = new FakeClient()
    const session = client.session()
    const issued = session.pipeline(() => {
      session.begin('write', 'v1.a')
      void session.execute(sql('select 1'))
      return 'issued'
    })
    expect(issued).toBe('issued')
    const begin = 'begin isolation level read committed read write'
    const assertion = "select set_config('postern.assertion', $1, true)"
    expect(client.traffic).toEqual(['cork', begin, assertion, 'select 1', 'uncork'])
    void session.execute(sql('select 2'))
    expect(client.traffic.at(-1)).toBe('select 2')
  })

  test('are sent even if their function throws, and later ones separately', () => {
    const client = new FakeClient()
    const session = client.session()
    const throwing = (): never => {
      void session.execute(sql('select 1'))
      throw new Error('thrown')
    }
    expect(() => session.pipeline(throwing)).toThrow('thrown')
    void session.execute(sql('select 2'))
    expect(client.traffic).toEqual(['cork', 'select 1', 'uncork', 'select 2'])
  })

  test('are prepared by name, except unnamed ones and the end of a transaction', () => {
    const client = new FakeClient()
    const session = client.session()
    session.begin('read', 'v1.a')
    const once = { ...sql('select 1'), plannedOnce: true }
    for (const statement of [once, once, sql('select 2'), once]) void session.query(statement)
    void session.end('commit')
    void session.end('rollback')
    expect(client.asked.map(({ name }) => name)).toEqual([
      'postern_begin_read',
      'postern_set_assertion_plan_once',
      undefined,
      undefined,
      'postern_plan_as_usual',
      undefined,
      'postern_plan_once',
      undefined,
      'postern_commit',
      undefined,
    ])
  })
})

describe('a caller that waits for something else', () => {
  test('is rejected if the connection is lost, but not afterwards', async () => {
    const client = new FakeClient()
    const session = client.session()
    expect(await session.rejectIfLost(Promise.resolve('there'))).toBe('there')
    expect(client.listenerCount('error')).toBe(0)
    const waiting = session.rejectIfLost(new Promise<never>(() => undefined))
    client.emit('error', new Error('reset'))
    await expect(waiting).rejects.toThrow('reset')
    expect(client.listenerCount('error')).toBe(0)
  })
})

describe('the reason of a failed transaction', () => {
  test('is the first failure if the others are consequences', async () => {
    const client = new FakeClient()
    const session = client.session()
    const all = [session.execute(sql('select 1')), session.execute(sql('select 2'))]
    client.asked[0]?.answer(stateOf('22012'))
    client.asked[1]?.answer(stateOf('25P02'))
    expect((await Promise.allSettled(all)).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(session.findRootError(stateOf('25P02'))).toMatchObject({ code: '22012' })
    expect(session.findRootError(undefined)).toMatchObject({ code: '22012' })
    expect(session.findRootError(stateOf('23505'))).toMatchObject({ code: '23505' })
    const ours = Object.assign(new Error('ours'), { code: '25P02' })
    expect(session.findRootError(ours)).toBe(ours)
  })

  test('is the rollback if there is no other', () => {
    const reason = new FakeClient().session().findRootError(undefined)
    expect(reason).toBeInstanceOf(DatabaseUnavailableError)
    expect(reason).toMatchObject({ message: 'the transaction was rolled back' })
  })
})

describe('a connection is returned to the pool', () => {
  test('if every statement has a response and no transaction is open', async () => {
    const client = new FakeClient()
    const session = client.session()
    const ending = session.end('commit')
    client.answer(0, { command: 'COMMIT' })
    // A repeated response means that a value could not be sent.
    client.asked[0]?.answer(new Error('twice'))
    expect(await ending).toBe('COMMIT')
    session.release()
    expect([client.released, client.isDestroyed]).toEqual([[undefined], false])
  })

  test.each(['T', 'E', null])('and closed if a transaction may be open: %j', (status) => {
    const client = Object.assign(new FakeClient(), { status })
    client.session().release()
    expect([client.released, client.isDestroyed]).toEqual([[true], true])
  })

  test('and closed if a response is outstanding', () => {
    const client = new FakeClient()
    const session = client.session()
    void session.end('commit')
    session.release()
    expect([client.released, client.isDestroyed]).toEqual([[true], true])
  })

  test.each([
    ['a refusal', stateOf('28000'), false],
    ['a consequence of another error', stateOf('25P02'), false],
    ['an error that ends the session', Object.assign(stateOf('28000'), { severity: 'FATAL' }), true],
    ['a failure without a state', Object.assign(stateOf(''), { code: undefined }), true],
    ['an error from elsewhere', Object.assign(new Error('ours'), { code: '28000', severity: 'ERROR' }), true],
  ])('after %s, and closed if its state is unknown', async (_what, failure, isDestroyed) => {
    const client = new FakeClient()
    const session = client.session()
    const asked = session.execute(sql('select 1')).catch(() => 'failed')
    client.asked[0]?.answer(failure)
    expect(await asked).toBe('failed')
    session.release()
    expect([session.hasUnusualError, client.isDestroyed]).toEqual([isDestroyed, isDestroyed])
  })

  test('and accepts no further statements', async () => {
    const client = new FakeClient()
    const session = client.session()
    session.release()
    await expect(session.query(sql('select 1'))).rejects.toThrow('in a read, issue all of them at once')
    expect(client.asked).toEqual([])
  })
})

const onlyListen = (): void => undefined

test('a tracer need not set `ended`', async () => {
  subscribe('postern:statement', onlyListen)
  try {
    const client = new FakeClient()
    const asked = client.session().execute(sql('select 1'))
    client.answer(0, { rowCount: 1, command: 'SELECT' })
    expect(await asked).toBe(1)
  } finally {
    unsubscribe('postern:statement', onlyListen)
  }
})

async function pidOf(db: TenantDb): Promise<unknown> {
  return await db.system((tx) => tx.query(sql('select pg_backend_pid() as pid')))
}

describe('in PostgreSQL', () => {
  let tables: TenantTables
  const tenantId = randomUUID()

  beforeAll(async () => {
    tables = await createTenantTables()
    await tables.asOwner(`
      create function probe.fail(state text) returns integer language plpgsql as
        $$ begin raise exception 'as asked' using errcode = state; end $$;
      grant usage on schema probe to postern_findings;
      grant execute on function probe.fail(text) to postern_findings`)
    await addParent(tables.open(), tables.mint(tenantId), tenantId, 'one')
  })
  afterAll(async () => await tables[Symbol.asyncDispose]())

  /** Returns whether the session is the same after a failing statement. */
  async function isKept(...texts: readonly string[]): Promise<boolean> {
    const db = tables.open({ maxConnections: 1 })
    const before = await pidOf(db)
    const done = db.write(tables.mint(tenantId), async (tx) => {
      for (const text of texts) await tx.execute(sql(text))
    })
    await done.catch(() => undefined)
    return JSON.stringify(await pidOf(db)) === JSON.stringify(before)
  }

  // Errors caused by the data or the tenant leave the session usable; after any other error its state is unknown.
  test.each([
    ...['22012', '23505', '40001', '28000', '42501', '55000', '55P03', '57014', 'P0001'].map((state) => [state, true]),
    ...['0A000', '42601', '42P01', '54000', '58030', 'XX000', '53200'].map((state) => [state, false]),
  ] as const)('after a failure with %s the session continues: %s', async (state, goesOn) => {
    expect(await isKept(`select probe.fail('${state}')`)).toBe(goesOn)
  })

  test('the session continues after each kind of statement that services run', async () => {
    expect(
      await isKept(
        `insert into probe.parent (tenant_id, name) values ('${tenantId}', 'two')`,
        "delete from probe.parent where name = 'two'",
        'merge into probe.parent as p using (select 1) as s on false when matched then delete',
        'savepoint a',
        'rollback to savepoint a',
        'release savepoint a',
        "update probe.parent set name = 'one'",
      ),
    ).toBe(true)
  })

  test('plans as usual after a statement with a generic plan', async () => {
    const mode = sql("select current_setting('plan_cache_mode') as mode")
    const once = { ...mode, plannedOnce: true }
    const modes = await tables
      .open()
      .read(
        tables.mint(tenantId),
        async (tx) => await Promise.all([once, once, mode, mode, once].map((each) => tx.query<{ mode: string }>(each))),
      )
    const [generic, usual] = ['force_generic_plan', 'auto']
    expect(modes.flat().map((row) => row.mode)).toEqual([generic, generic, usual, usual, generic])
  })

  test('tracers receive the text and name of each statement, and its end', async () => {
    const told: unknown[] = []
    const listen = (message: unknown): void => {
      const { text, name } = message as { text: string; name?: string }
      told.push([text, name])
      Object.assign(message as object, {
        ended: (error: unknown) => told.push(['ended', text, error instanceof Error]),
      })
    }
    const db = tables.open({ maxConnections: 1 })
    await db.ping()
    subscribe('postern:statement', listen)
    try {
      const named = { ...sql('select $1::text as secret', 'never told'), name: 'named' }
      await db.read(tables.mint(tenantId), async (tx) => await tx.query(named))
      await db.write(tables.mint(tenantId), async (tx) => await tx.query(sql('select 1 / 0'))).catch(() => undefined)
    } finally {
      unsubscribe('postern:statement', listen)
    }
    const assertion = "select set_config('postern.assertion', $1, true)"
    const beginRead = 'begin isolation level repeatable read read only'
    const beginWrite = 'begin isolation level read committed read write'
    expect(told.slice(0, 4)).toEqual([
      [beginRead, 'postern_begin_read'],
      [assertion, 'postern_set_assertion'],
      ['select $1::text as secret', 'named'],
      ['commit', 'postern_commit'],
    ])
    expect(told).toContainEqual([beginWrite, 'postern_begin_write'])
    expect(told).toContainEqual(['ended', 'select $1::text as secret', false])
    expect(told).toContainEqual(['ended', 'select 1 / 0', true])
    expect(told).toContainEqual(['ended', 'rollback', false])
    await db.ping()
    expect(told.filter((one) => JSON.stringify(one).includes('"select 1"'))).toEqual([])
  })
})
