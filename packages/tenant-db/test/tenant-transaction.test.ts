import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Statement } from '../src/index.ts'
import { sqlError } from '../src/index.ts'
import type { PostgresProxy } from './postgres-proxy.ts'
import { type ProxiedTables, backend, createProxiedTables, insertParent } from './proxied-tables.ts'
import type { TenantTables } from './tenant-tables.ts'
import { addParent, names, sql } from './tenant-tables.ts'

let proxied: ProxiedTables
let tables: TenantTables
let proxy: PostgresProxy
let tenantId: string
let tenant: { readonly assertion: string }

beforeAll(async () => {
  proxied = await createProxiedTables()
  ;({ tables, proxy } = proxied)
})

afterAll(async () => await proxied[Symbol.asyncDispose]())

beforeEach(() => {
  tenantId = randomUUID()
  tenant = tables.mint(tenantId)
})

const insert = (name: string): Statement => insertParent(tenantId, name)

describe('read', () => {
  test('takes one round trip: everything is sent before the first response', async () => {
    const db = await proxied.open()
    await addParent(db, tenant, tenantId, 'first')
    await names(db, tenant)
    proxy.forget()
    proxy.hold()
    const reading = db.read(tenant, (tx) =>
      Promise.all([
        tx.query<{ count: string }>(sql('select count(*) from probe.parent where amount >= $1', 0)),
        tx.query<{ name: string }>(sql('select name from probe.parent where amount >= $1', 0)),
      ]),
    )
    await proxy.hasSent('S')
    // Parse, Bind, Describe, Execute and Sync of each statement. Named statements are already prepared.
    expect(inGroups(proxy.sent)).toEqual([
      'B postern_begin_read D E S B postern_set_assertion D E S',
      'P select count(*) from probe.parent where amount >= $1',
      'B D E S',
      'P select name from probe.parent where amount >= $1',
      'B D E S B postern_commit D E S',
    ])
    proxy.letGo()
    expect(await reading).toEqual([[{ count: '1' }], [{ name: 'first' }]])
  })

  test('takes one round trip on a new connection as well', async () => {
    const db = await proxied.open()
    await addParent(tables.open(), tenant, tenantId, 'first')
    proxy.forget()
    proxy.hold()
    const reading = names(db, tenant)
    await proxy.hasSent('B postern_commit')
    expect(inGroups(proxy.sent)).toEqual([
      'P begin isolation level repeatable read read only',
      'B postern_begin_read D E S',
      "P select set_config('postern.assertion', $1, true)",
      'B postern_set_assertion D E S',
      'P select name from probe.parent order by name',
      'B D E S',
      'P commit',
      'B postern_commit D E S',
    ])
    proxy.letGo()
    expect(await reading).toEqual(['first'])
  })

  test('rejects a statement after the first await and says what to do', async () => {
    const db = tables.open()
    const reading = db.read(tenant, async (tx) => {
      await tx.query(sql('select 1'))
      return await tx.query(sql('select 2'))
    })
    await expect(reading).rejects.toThrow('issue all of them at once')
    expect(await db.read(tenant, (tx) => tx.query(sql('select 1 as one')))).toEqual([{ one: 1 }])
  })

  test('changes nothing', async () => {
    const db = tables.open()
    await expect(db.read(tenant, (tx) => tx.execute(insert('no')))).rejects.toMatchObject({ code: '25006' })
    expect(await names(db, tenant)).toEqual([])
  })

  test('rejects with the failure of the statement, not with its consequences', async () => {
    const db = tables.open({ maxConnections: 1 })
    const before = await backend(db)
    const failing = sql('select 1 / $1::integer', 0)
    const following = sql('select 1')
    const all = db.read(tenant, (tx) => Promise.all([tx.query(following), tx.query(failing), tx.query(following)]))
    await expect(all).rejects.toMatchObject({ code: '22012' })
    const last = db.read(tenant, (tx) => {
      void tx.query(failing)
      return tx.query(following)
    })
    await expect(last).rejects.toMatchObject({ code: '22012' })
    const hidden = db.read(tenant, (tx) => Promise.allSettled([tx.query(failing), tx.query(following)]))
    await expect(hidden).rejects.toMatchObject({ code: '22012' })
    // A failing statement does not cost the connection.
    expect(await backend(db)).toEqual(before)
  })

  test('rejects with the error of the function, synchronous or not', async () => {
    const db = tables.open()
    const atOnce = db.read(tenant, () => {
      throw new Error('thrown at once')
    })
    await expect(atOnce).rejects.toThrow('thrown at once')
    const later = db.read(tenant, async (tx) => {
      await tx.query(sql('select 1'))
      throw new Error('thrown later')
    })
    await expect(later).rejects.toThrow('thrown later')
  })

  test('returns the connection when PostgreSQL has finished, even if the function still works', async () => {
    const db = tables.open({ maxConnections: 1 })
    const slow = Promise.withResolvers<string>()
    const reading = db.read(tenant, async (tx) => {
      await tx.query(sql('select 1'))
      return await slow.promise
    })
    expect(await names(db, tenant)).toEqual([])
    slow.resolve('done')
    expect(await reading).toBe('done')
  })

  test('uses a generic plan only for statements that request it', async () => {
    const db = tables.open()
    const name = 'planned_once'
    const once = {
      ...sql('select name from probe.parent where (amount, id) < ($1, $2)', 1, tenantId),
      name,
      plannedOnce: true,
    }
    const mode = sql("select current_setting('plan_cache_mode') as mode")
    for (let count = 0; count < 7; count += 1) await db.read(tenant, (tx) => tx.query(once))
    const plans = sql('select generic_plans, custom_plans from pg_prepared_statements where name = $1', name)
    const asked = await db.read(tenant, (tx) =>
      Promise.all([tx.query(mode), tx.query({ ...mode, plannedOnce: true }), tx.query(plans)]),
    )
    const found = [{ generic_plans: '7', custom_plans: '0' }]
    expect(asked).toEqual([[{ mode: 'auto' }], [{ mode: 'force_generic_plan' }], found])
  })

  test('gives all its statements one snapshot', async () => {
    const isolation = await tables.open().read(tenant, (tx) => tx.query(sql('show transaction_isolation')))
    expect(isolation).toEqual([{ transaction_isolation: 'repeatable read' }])
  })
})

describe('write', () => {
  test('sends its first statement together with BEGIN and the assertion', async () => {
    const db = await proxied.open()
    await addParent(db, tenant, tenantId, 'before')
    proxy.forget()
    proxy.hold()
    const writing = db.write(tenant, (tx) => tx.execute(insert('first')))
    await proxy.hasSent('S')
    expect(inGroups(proxy.sent)).toEqual([
      'B postern_begin_write D E S B postern_set_assertion D E S',
      'P insert into probe.parent (tenant_id, name) values ($1, $2)',
      'B D E S',
    ])
    proxy.letGo()
    expect(await writing).toBe(1)
    expect(inGroups(proxy.sent).at(-1)).toBe('B D E S B postern_commit D E S')
    expect(await names(db, tenant)).toEqual(['before', 'first'])
  })

  test('is rolled back if the function rejects', async () => {
    const db = tables.open()
    const writing = db.write(tenant, async (tx) => {
      await tx.execute(insert('gone'))
      throw new Error('not after all')
    })
    await expect(writing).rejects.toThrow('not after all')
    expect(await names(db, tenant)).toEqual([])
  })

  test('never resolves after a failed statement, even if the function catches the error', async () => {
    const db = tables.open({ maxConnections: 1 })
    const before = await backend(db)
    const writing = db.write(tenant, async (tx) => {
      await tx.execute(insert('twice'))
      await tx.execute(insert('twice')).catch(() => 0)
      return 'stored'
    })
    await expect(writing).rejects.toMatchObject({ code: '23505', constraint: 'parent_name_unique' })
    expect(await names(db, tenant)).toEqual([])
    expect(await backend(db)).toEqual(before)
  })

  test("rejects with the function's own error if it converts a failure", async () => {
    const writing = tables.open().write(tenant, async (tx) => {
      await tx.execute(insert('twice'))
      await tx.execute(insert('twice')).catch((error: unknown) => {
        throw new Error(`conflict on ${sqlError(error).constraint}`)
      })
    })
    await expect(writing).rejects.toThrow('conflict on parent_name_unique')
  })

  test('commits after a rollback to a savepoint', async () => {
    const db = tables.open()
    await db.write(tenant, async (tx) => {
      await tx.execute(insert('kept'))
      await tx.execute(sql('savepoint before'))
      await tx.execute(insert('kept')).catch(() => tx.execute(sql('rollback to savepoint before')))
    })
    expect(await names(db, tenant)).toEqual(['kept'])
  })

  test('waits for statements that the function did not await', async () => {
    const db = tables.open()
    await db.write(tenant, async (tx) => {
      void tx.execute(insert('unawaited'))
    })
    expect(await names(db, tenant)).toEqual(['unawaited'])
    const failing = db.write(tenant, async (tx) => {
      void tx.execute(insert('unawaited'))
    })
    await expect(failing).rejects.toMatchObject({ code: '23505' })
  })

  test('rejects if a constraint fails only at the commit', async () => {
    await tables.asOwner(`
      create table probe.deferred (tenant_id uuid not null, id uuid not null, other uuid not null,
        constraint deferred_pk primary key (tenant_id, id),
        constraint deferred_fk foreign key (tenant_id, other) references probe.deferred deferrable initially deferred);
      call tenancy.protect_table('probe.deferred', 'postern_findings', array['select', 'insert'])`)
    const db = tables.open()
    const point = (id: string, other: string): Promise<number> =>
      db.write(tenant, (tx) => tx.execute(sql('insert into probe.deferred values ($1, $2, $3)', tenantId, id, other)))
    const id = randomUUID()
    await expect(point(id, randomUUID())).rejects.toMatchObject({ code: '23503', constraint: 'deferred_fk' })
    expect(await point(id, id)).toBe(1)
  })

  test('rejects a statement after its end', async () => {
    const db = tables.open()
    const tx = await db.write(tenant, async (open) => open)
    await expect(tx.execute(insert('too late'))).rejects.toThrow('after its transaction')
    expect(await names(db, tenant)).toEqual([])
  })
})

describe('values', () => {
  test('bigint, numeric and date are text, timestamptz is a Date, in any time zone', async () => {
    const [row] = await tables.open().read(tenant, (tx) =>
      tx.query(
        sql(`select 9007199254740993::bigint as big, 0.1::numeric as exact, date '2026-03-31' as day,
                    timestamptz '2026-03-31 12:00:00+02' as at, null as nothing`),
      ),
    )
    expect(row).toEqual({
      big: '9007199254740993',
      exact: '0.1',
      day: '2026-03-31',
      at: new Date('2026-03-31T10:00:00Z'),
      nothing: null,
    })
  })

  test('every runtime role has its limits', async () => {
    const [row] = await tables.open().read(tenant, (tx) =>
      tx.query(
        sql(`select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock,
                    current_setting('idle_in_transaction_session_timeout') as idle,
                    current_setting('search_path') as path`),
      ),
    )
    expect(row).toEqual({ statement: '5s', lock: '2s', idle: '10s', path: 'extensions' })
  })
})

/** Groups the messages of each prepared statement: Bind, Describe, Execute, Sync. */
function inGroups(messages: readonly string[]): string[] {
  const groups: string[] = []
  let isOpen = false
  for (const message of messages) {
    const isText = message.startsWith('P ') || message.startsWith('Q ')
    if (isOpen && !isText) groups.push(`${groups.pop()} ${message}`)
    else groups.push(message)
    isOpen = !isText
  }
  return groups
}
