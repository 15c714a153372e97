import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DatabaseTimeoutError, DatabaseUnavailableError, ResultTooLargeError, type TenantDb } from '../src/index.ts'
import { openPool } from '../src/pool.ts'
import { Session } from '../src/session.ts'
import { openPostgresProxy } from './postgres-proxy.ts'
import { type TenantTables, addParent, createTenantTables, names, sql } from './tenant-tables.ts'

let tables: TenantTables
const tenantId = randomUUID()

beforeAll(async () => {
  tables = await createTenantTables()
})
afterAll(async () => await tables[Symbol.asyncDispose]())

/** One connection that has prepared the statements that begin and end a transaction. */
async function openWarm(connectionString = tables.database.url('findings')): Promise<TenantDb> {
  const db = tables.open({ connectionString, maxConnections: 1 })
  await names(db, tables.mint(tenantId))
  return db
}

const backend = async (db: TenantDb): Promise<unknown> =>
  await db.read(tables.mint(tenantId), (tx) => tx.query(sql('select pg_backend_pid() as pid')))

/** Returns the rows of each concurrent statement, or its SQLSTATE or message. */
async function outcomes(db: TenantDb, ...statements: Parameters<typeof sql>[]): Promise<unknown[]> {
  let told: unknown[] = []
  await db
    .read(tables.mint(tenantId), async (tx) => {
      const settled = await Promise.allSettled(statements.map((one) => tx.query(sql(...one))))
      told = settled.map((one) => (one.status === 'fulfilled' ? one.value : (one.reason.code ?? one.reason.message)))
    })
    .catch(() => undefined)
  return told
}

/** Rows of 100 bytes: 90 letters, and ten bytes of PostgreSQL's protocol. */
const rows = (count: number) => sql(`select repeat('x', 90) as text from generate_series(1, $1::integer)`, count)

describe('a statement with a limit of bytes', () => {
  test('returns rows up to the limit', async () => {
    const db = await openWarm()
    const found = await db.read(tables.mint(tenantId), (tx) => tx.query({ ...rows(3), maxBytes: 300 }))
    expect(found).toEqual(Array.from({ length: 3 }, () => ({ text: 'x'.repeat(90) })))
  })

  test('is rejected beyond the limit; concurrent and later statements are not', async () => {
    const db = await openWarm()
    const pid = await backend(db)
    for (const [count, maxBytes] of [
      [3, 299],
      [1, 1],
      [5000, 300],
    ] as const) {
      const beside: unknown[] = []
      const refused = db.read(tables.mint(tenantId), async (tx) => {
        const [one, other] = await Promise.allSettled([
          tx.query({ ...rows(count), maxBytes }),
          tx.query(sql('select 1 as n')),
        ])
        beside.push(other.status === 'fulfilled' && other.value)
        if (one.status === 'rejected') throw one.reason
      })
      await expect(refused).rejects.toBeInstanceOf(ResultTooLargeError)
      expect(beside).toEqual([[{ n: 1 }]])
    }
    // The same connection continues.
    expect(await backend(db)).toEqual(pid)
  })

  test('can be rejected without ending a write transaction', async () => {
    const db = await openWarm()
    const name = await db.write(tables.mint(tenantId), async (tx) => {
      await expect(tx.query({ ...rows(3), maxBytes: 10 })).rejects.toBeInstanceOf(ResultTooLargeError)
      return await tx.query({ ...rows(1), maxBytes: 100 })
    })
    expect(name).toHaveLength(1)
  })
})

describe('pipelined statements', () => {
  test('each return their own rows, also those without rows', async () => {
    const db = await openWarm()
    expect(
      await outcomes(
        db,
        ['select n from generate_series(1, $1::integer) as n', 3],
        ['select 1 as n where false'],
        [''],
        ['set local lock_timeout = 1000'],
        ["select current_setting('lock_timeout') as lock, $1::text as text", 'last'],
      ),
    ).toEqual([[{ n: 1 }, { n: 2 }, { n: 3 }], [], [], [], [{ lock: '1s', text: 'last' }]])
  })

  test('with names are prepared once, each for its own text', async () => {
    const db = await openWarm()
    const one = { ...sql('select $1::integer as n', 1), name: 'pipelined_one' }
    const other = { ...sql('select $1::integer + 1 as n', 1), name: 'pipelined_other' }
    for (let time = 0; time < 3; time += 1) {
      const both = await db.read(tables.mint(tenantId), (tx) => Promise.all([tx.query(one), tx.query(other)]))
      expect(both).toEqual([[{ n: 1 }], [{ n: 2 }]])
    }
    const prepared = await outcomes(db, [
      "select name from pg_prepared_statements where name like 'pipelined%' order by 1",
    ])
    expect(prepared).toEqual([[{ name: 'pipelined_one' }, { name: 'pipelined_other' }]])
  })

  test('end as if sent one by one if one fails: those before it succeed, those behind it fail with its transaction', async () => {
    const db = await openWarm()
    const before = await backend(db)
    const all = await outcomes(
      db,
      ['select 1 as n'],
      ['select 1 / $1::integer', 0],
      ['select 2 as n'],
      ['select 3 as n'],
    )
    expect(all).toEqual([[{ n: 1 }], '22012', '25P02', '25P02'])
    expect(await backend(db)).toEqual(before)
    expect(await outcomes(db, ['select 4 as n'], ['select 5 as n'])).toEqual([[{ n: 4 }], [{ n: 5 }]])
  })

  test('a value that cannot be sent fails its own statement; those behind it return their own rows', async () => {
    const db = await openWarm()
    const before = await backend(db)
    const round: { self?: unknown } = {}
    round.self = round
    const all = await outcomes(db, ['select 1 as n'], ['select $1::text as n', round], ['select 3 as n'])
    expect(all).toEqual([[{ n: 1 }], expect.stringContaining('circular'), [{ n: 3 }]])
    // The outcome in PostgreSQL is unknown, so the connection is not used again.
    expect(await backend(db)).not.toEqual(before)
  })

  test('a statement that waits for data fails without the others, and its connection is closed', async () => {
    await tables.asOwner('create table probe.copied (n integer); grant insert on probe.copied to postern_findings')
    const db = await openWarm()
    const all = await outcomes(db, ['select 1 as n'], ['copy probe.copied from stdin'], ['select 3 as n'])
    expect(all[0]).toEqual([{ n: 1 }])
    expect(all[1]).toEqual(expect.any(String))
    expect(await outcomes(db, ['select 4 as n'], ['select 5 as n'])).toEqual([[{ n: 4 }], [{ n: 5 }]])
  })

  test('share their time limits, because PostgreSQL may send the first response with the last', async () => {
    const connectionString = tables.database.url('findings')
    const db = tables.open({ connectionString, maxConnections: 1, queryTimeoutMs: 1000 })
    await names(db, tables.mint(tenantId))
    const nap = 'select pg_sleep(0.6)'
    const all = await db.read(tables.mint(tenantId), (tx) =>
      Promise.all([tx.query(sql(nap)), tx.query(sql(nap)), tx.query(sql('select 3 as n'))]),
    )
    expect(all.at(-1)).toEqual([{ n: 3 }])
    await expect(db.read(tables.mint(tenantId), (tx) => tx.query(sql('select pg_sleep(4)')))).rejects.toBeInstanceOf(
      DatabaseTimeoutError,
    )
  })

  test('store nothing if the transaction cannot begin', async () => {
    const pool = openPool({
      connectionString: tables.database.url('findings'),
      maxConnections: 1,
      connectTimeoutMs: 10_000,
      applicationName: 'pipelined-test',
    })
    const { assertion } = tables.mint(tenantId)
    const insert = sql('insert into probe.parent (tenant_id, name) values ($1, $2)', tenantId, 'without a transaction')
    const write = (session: Session) =>
      session.pipeline(() => {
        session.begin('write', assertion)
        return [session.execute(insert), session.end('rollback')]
      })
    try {
      const client = await pool.connect()
      const control = await Promise.all(write(new Session(client, 10_000)))
      expect(control).toEqual([1, 'ROLLBACK'])
      // BEGIN was prepared, and now fails.
      await client.query('deallocate all')
      const session = new Session(client, 10_000)
      const [inserted] = await Promise.allSettled(write(session))
      expect(inserted).toMatchObject({ status: 'rejected', reason: { code: '28000' } })
      expect(session.findRootError(undefined)).toBeInstanceOf(DatabaseUnavailableError)
      session.release()
      expect(await names(await openWarm(), tables.mint(tenantId))).not.toContain('without a transaction')
    } finally {
      await pool.end()
    }
  })

  test('all fail if the connection breaks before their responses', async () => {
    await using proxy = await openPostgresProxy(tables.database.url('findings'))
    const db = await openWarm(proxy.through(tables.database.url('findings')))
    proxy.forget()
    proxy.hold()
    const ended: unknown[] = []
    const reading = db.read(tables.mint(tenantId), async (tx) => {
      const all = [tx.query(sql('select 1')), tx.query(sql('select 2'))]
      for (const one of all) one.catch((error: unknown) => ended.push(error))
      return await Promise.all(all)
    })
    await proxy.hasSent('S')
    proxy.cut()
    await expect(reading).rejects.toBeInstanceOf(DatabaseUnavailableError)
    expect(ended).toEqual([expect.any(DatabaseUnavailableError), expect.any(DatabaseUnavailableError)])
    proxy.letGo()
    expect(await outcomes(db, ['select 4 as n'], ['select 5 as n'])).toEqual([[{ n: 4 }], [{ n: 5 }]])
  })

  test('of a write store nothing if one of them fails', async () => {
    const db = await openWarm()
    await addParent(db, tables.mint(tenantId), tenantId, 'kept')
    const insert = 'insert into probe.parent (tenant_id, name) values ($1, $2)'
    const twice = db.write(tables.mint(tenantId), (tx) =>
      Promise.all(['new', 'kept', 'newer'].map((name) => tx.execute(sql(insert, tenantId, name)))),
    )
    await expect(twice).rejects.toMatchObject({ code: '23505' })
    expect(await names(db, tables.mint(tenantId))).toEqual(['kept'])
  })
})
