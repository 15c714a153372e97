/**
 * @promise Tenants: A request leaves nothing in a pooled database session for the next tenant.
 */

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Statement, TenantDb } from '../src/index.ts'
import { type TenantTables, addParent, createTenantTables, names, openClient, sql } from './tenant-tables.ts'

// An attacker runs SQL in a request of tenant A and tries to leave something in the session for later requests of
// tenant B.
let tables: TenantTables
const tenantA = randomUUID()
const tenantB = randomUUID()

beforeAll(async () => {
  tables = await createTenantTables()
  const db = tables.open()
  await addParent(db, tables.mint(tenantA), tenantA, 'of A')
  await addParent(db, tables.mint(tenantB), tenantB, 'of B')
})

afterAll(async () => {
  await tables[Symbol.asyncDispose]()
})

/** A statement that services run for every tenant, prepared once per connection. */
const list: Statement = { name: 'list', text: 'select name from probe.parent where amount >= $1', values: [0] }
/** Does the same, but stores the rows where the next user of the session finds them. */
const poisoned = `prepare list (integer) as
  select name, set_config('loot.rows', name, false) from probe.parent where amount >= $1`
const loot = sql("select current_setting('loot.rows', true) as loot")

const pidOf = async (db: TenantDb): Promise<unknown> =>
  await db.system((tx) => tx.query(sql('select pg_backend_pid() as pid')))

const readAsB = async (db: TenantDb): Promise<unknown> => await db.read(tables.mint(tenantB), (tx) => tx.query(list))

/** Runs hostile statements in a transaction of A and ignores errors. */
async function attack(db: TenantDb, ...texts: readonly string[]): Promise<void> {
  await db
    .write(tables.mint(tenantA), async (tx) => {
      for (const text of texts) await tx.execute(sql(text))
    })
    .catch(() => undefined)
}

test('the control: within one session, a replaced prepared statement passes B’s rows to A', async () => {
  await using connection = await openClient(tables.database.url('findings'))
  const { client } = connection
  const as = async (tenant: string, query: () => Promise<unknown>): Promise<void> => {
    await client.query('begin')
    await client.query("select set_config('postern.assertion', $1, true)", [tables.mint(tenant).assertion])
    await query()
    await client.query('commit')
  }
  await as(tenantB, async () => await client.query({ ...list, values: [0] }))
  await client.query('deallocate list')
  await client.query(poisoned)
  await as(tenantB, async () => await client.query({ ...list, values: [0] }))
  await as(tenantA, async () => expect((await client.query(loot.text)).rows).toEqual([{ loot: 'of B' }]))
})

describe('a connection with possible leftovers in its session is closed', () => {
  test.each([
    ['a replaced prepared statement', ['deallocate list', poisoned]],
    ['the same from a block', [`do $do$ begin execute 'deallocate list'; execute '${quoted(poisoned)}'; end $do$`]],
    [
      'the same from a failing block, which does not undo it',
      [`do $do$ begin execute 'deallocate list'; execute '${quoted(poisoned)}'; perform 1 / 0; end $do$`],
    ],
    ['the time zone', ["set time zone 'Asia/Tokyo'"]],
    ['the time zone, by a function in a query', ["select set_config('TimeZone', 'Asia/Tokyo', false)"]],
    ['the form of dates, by a function in a query', ["select set_config('DateStyle', 'SQL, DMY', false)"]],
    ['the search path', ["select set_config('search_path', 'probe', false)"]],
    ['a limit of time', ['set statement_timeout = 1']],
    ['a cursor with the rows of this tenant', ['declare kept cursor with hold for select name from probe.parent']],
    ['a listener for notifications', ['listen loot']],
    ['a library', ["load '$libdir/plugins/none'"]],
    ['a discarded session', ['discard all']],
  ])('%s', async (_what, texts) => {
    const db = tables.open({ maxConnections: 1 })
    expect(await readAsB(db)).toEqual([{ name: 'of B' }])
    const before = await pidOf(db)
    await attack(db, ...texts)
    expect(await pidOf(db)).not.toEqual(before)
    expect(await readAsB(db)).toEqual([{ name: 'of B' }])
    expect(await db.write(tables.mint(tenantA), (tx) => tx.query(loot))).toEqual([{ loot: null }])
    const [zone] = await db.system((tx) => tx.query(sql("select current_setting('TimeZone') as zone")))
    expect(zone).toEqual({ zone: 'UTC' })
  })

  test('a connection after ordinary use, with transaction settings and savepoints, is reused', async () => {
    const db = tables.open({ maxConnections: 1 })
    const before = await pidOf(db)
    await db.write(tables.mint(tenantA), async (tx) => {
      await tx.execute(sql('set local enable_seqscan = off'))
      await tx.execute(sql('savepoint part'))
      await tx.execute(sql("update probe.parent set amount = amount where name = 'none'"))
      await tx.execute(sql('rollback to savepoint part'))
      await tx.execute(sql('release savepoint part'))
    })
    await attack(db, 'select 1 / 0')
    expect(await names(db, tables.mint(tenantB))).toEqual(['of B'])
    expect(await pidOf(db)).toEqual(before)
  })
})

test('a second statement behind a semicolon is never run', async () => {
  const db = tables.open({ maxConnections: 1 })
  const stacked = db.write(tables.mint(tenantA), (tx) =>
    tx.execute(sql("select 1; update probe.parent set name = 'stacked'")),
  )
  await expect(stacked).rejects.toMatchObject({ code: '42601' })
  expect(await names(db, tables.mint(tenantA))).toEqual(['of A'])
})

function quoted(text: string): string {
  return text.replaceAll("'", "''")
}
