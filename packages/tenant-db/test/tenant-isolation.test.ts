import { randomUUID } from 'node:crypto'
import { DatabaseError } from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Statement, TenantDb } from '../src/index.ts'
import { sqlError } from '../src/index.ts'
import type { TenantTables } from './tenant-tables.ts'
import { addParent, createTenantTables, names, openClient, sql } from './tenant-tables.ts'

let tables: TenantTables
let db: TenantDb
let tenantA: string
let tenantB: string
let parentOfB: string

beforeAll(async () => {
  tables = await createTenantTables()
  db = tables.open()
})

afterAll(async () => {
  await tables[Symbol.asyncDispose]()
})

// New tenants for every test, with one row each.
beforeEach(async () => {
  tenantA = randomUUID()
  tenantB = randomUUID()
  await addParent(db, tables.mint(tenantA), tenantA, 'of A')
  parentOfB = await addParent(db, tables.mint(tenantB), tenantB, 'of B')
})

const asA = (statement: Statement): Promise<number> => db.write(tables.mint(tenantA), (tx) => tx.execute(statement))
const asB = (statement: Statement): Promise<number> => db.write(tables.mint(tenantB), (tx) => tx.execute(statement))

const codeOf = (outcome: Promise<unknown>): Promise<string | undefined> =>
  outcome.then(
    () => 'no error',
    (error: unknown) => sqlError(error).sqlState,
  )

/** Inserts or replaces the row with B's id as a tenant. */
function upsert(tenant: string): Statement {
  const text = `insert into probe.parent (tenant_id, id, name) values ($1, $2, 'upserted')
                on conflict (tenant_id, id) do update set name = excluded.name`
  return sql(text, tenant, parentOfB)
}

/** Adds a child to a parent as A. Returns the error without the id. */
async function addChild(parent: string): Promise<unknown> {
  const insert = sql('insert into probe.child (tenant_id, parent_id) values ($1, $2)', tenantA, parent)
  const error: unknown = await asA(insert).catch((failure: unknown) => failure)
  if (!(error instanceof DatabaseError)) return error
  return { ...sqlError(error), message: error.message, detail: error.detail?.replace(parent, 'the id') }
}

describe('rows of another tenant', () => {
  test('cannot be read, with or without naming the tenant', async () => {
    expect(await names(db, tables.mint(tenantA))).toEqual(['of A'])
    expect(await asA(sql('select from probe.parent where tenant_id = $1', tenantB))).toBe(0)
    expect(await asA(sql('select from probe.parent where tenant_id = $1 or true', tenantB))).toBe(1)
    expect(await asB(sql('select from probe.parent where tenant_id = $1', tenantB))).toBe(1)
  })

  test('are not inserted', async () => {
    const insert = sql('insert into probe.parent (tenant_id, name) values ($1, $2)', tenantB, 'planted')
    expect(await codeOf(asA(insert))).toBe('42501')
    expect(await names(db, tables.mint(tenantB))).toEqual(['of B'])
    expect(await asB(insert)).toBe(1)
  })

  test('cannot be updated, deleted or moved to another tenant', async () => {
    expect(await asA(sql('update probe.parent set amount = 1 where id = $1', parentOfB))).toBe(0)
    expect(await asA(sql('delete from probe.parent where id = $1', parentOfB))).toBe(0)
    expect(await codeOf(asA(sql('update probe.parent set tenant_id = $1', tenantB)))).toBe('42501')
    expect(await asB(sql('update probe.parent set amount = 1 where id = $1', parentOfB))).toBe(1)
    expect(await asB(sql('delete from probe.parent where id = $1', parentOfB))).toBe(1)
    expect(await names(db, tables.mint(tenantA))).toEqual(['of A'])
  })

  test.each([
    ['select for update', 'select from probe.parent where id = $1 for update'],
    ['a data-changing with', 'with gone as (delete from probe.parent where id = $1 returning 1) select from gone'],
    [
      'merge',
      `merge into probe.parent as p using (select $1::uuid as id) as s on p.id = s.id
         when matched then update set name = 'merged'`,
    ],
    ['update from', 'update probe.parent as p set amount = 2 from (select $1::uuid as id) as s where p.id = s.id'],
    ['delete using', 'delete from probe.parent as p using (select $1::uuid as id) as s where p.id = s.id'],
  ])('cannot be reached by %s', async (_what, text) => {
    expect(await asA(sql(text, parentOfB))).toBe(0)
    expect(await names(db, tables.mint(tenantB))).toEqual(['of B'])
    expect(await asB(sql(text, parentOfB))).toBe(1)
  })

  test('cannot be overwritten by insert on conflict, which sees no conflict', async () => {
    expect(await codeOf(asA(upsert(tenantB)))).toBe('42501')
    expect(await asA(upsert(tenantA))).toBe(1)
    expect(await names(db, tables.mint(tenantB))).toEqual(['of B'])
    expect(await asB(upsert(tenantB))).toBe(1)
    expect(await names(db, tables.mint(tenantB))).toEqual(['upserted'])
  })

  test('cannot be copied out', async () => {
    const rows = await db.write(tables.mint(tenantA), async (tx) => {
      await tx.execute(sql('declare every_row cursor for select name from probe.parent'))
      return await tx.query<{ name: string }>(sql('fetch all from every_row'))
    })
    expect(rows).toEqual([{ name: 'of A' }])
  })

  test('cannot be counted, summed or ranked', async () => {
    const [row] = await db.read(tables.mint(tenantA), (tx) =>
      tx.query(
        sql(`select count(*) as count, max(name) as last,
                    (select count(*) from (select rank() over (order by name) from probe.parent) as r) as ranks
               from probe.parent`),
      ),
    )
    expect(row).toEqual({ count: '1', last: 'of A', ranks: '1' })
  })

  test('are never evaluated by a condition', async () => {
    const fails = sql('select from probe.parent where 1 / (length(name) - 4 + (name = $1)::integer) > 0', 'of A')
    expect(await asA(fails)).toBe(1)
    // Control: the same condition fails on A's own row.
    expect(await codeOf(asB(fails))).toBe('22012')
  })

  test('are not visible in planner statistics', async () => {
    await using connection = await openClient(tables.database.url('superuser'))
    await connection.client.query('analyze probe.parent')
    const statistics = sql("select from pg_stats where schemaname = 'probe' and tablename = 'parent'")
    expect(await asA(statistics)).toBe(0)
    expect((await connection.client.query(statistics.text)).rowCount).toBeGreaterThan(0)
  })

  test('do not conflict: A can use a name that B uses', async () => {
    expect(await asA(sql('insert into probe.parent (tenant_id, name) values ($1, $2)', tenantA, 'of B'))).toBe(1)
    expect(await codeOf(asA(sql('insert into probe.parent (tenant_id, name) values ($1, $2)', tenantA, 'of B')))).toBe(
      '23505',
    )
  })

  test('cannot be referenced: their id fails exactly like an unknown one', async () => {
    const unknown = await addChild(randomUUID())
    expect(unknown).toMatchObject({ kind: 'foreign-key', constraint: 'child_parent_fk' })
    expect(await addChild(parentOfB)).toEqual(unknown)
    expect(await asB(sql('insert into probe.child (tenant_id, parent_id) values ($1, $2)', tenantB, parentOfB))).toBe(1)
  })

  test('stay if rows of another tenant are deleted in cascade', async () => {
    await asB(sql('insert into probe.child (tenant_id, parent_id) values ($1, $2)', tenantB, parentOfB))
    const twin = sql('insert into probe.parent (tenant_id, id, name) values ($1, $2, $3)', tenantA, parentOfB, 'twin')
    await asA(twin)
    expect(await asA(sql('delete from probe.parent where id = $1', parentOfB))).toBe(1)
    expect(await asB(sql('select from probe.child'))).toBe(1)
    await asB(sql('delete from probe.parent'))
    expect(await asB(sql('select from probe.child'))).toBe(0)
  })
})

describe('a compromised service', () => {
  test('cannot become another tenant by setting the assertion', async () => {
    const asOther = (text: string): Promise<unknown> =>
      db.write(tables.mint(tenantA), async (tx) => {
        await tx.query(sql("select set_config('postern.assertion', $1, true)", text))
        return await tx.query(sql('select name from probe.parent'))
      })
    const ofA = tables.mint(tenantA).assertion
    expect(await codeOf(asOther(tenantB))).toBe('28000')
    expect(await codeOf(asOther(ofA.replace(tenantA, tenantB)))).toBe('28000')
    expect(await codeOf(asOther(''))).toBe('28000')
    // Control: the MAC decides, and the gateway's assertion is accepted.
    expect(await asOther(ofA)).toEqual([{ name: 'of A' }])
    expect(await asOther(tables.mint(tenantB).assertion)).toEqual([{ name: 'of B' }])
  })

  test.each([
    ['become the owner', 'set role postern_owner'],
    ['become the migrator', 'set session authorization postern_migrator'],
    ['become a definer', 'set role postern_tenancy'],
    ['become another service', 'set role postern_keys'],
    ['read the secrets', 'select secret from tenancy.assertion_secret'],
    ['read derived secrets', 'select inner_pad from tenancy.assertion_secret'],
    [
      'add a secret of its own',
      "insert into tenancy.assertion_secret (key_id, secret) values ('mine', repeat('x', 32)::bytea)",
    ],
    ['verify an assertion with its own key', "select tenancy.is_valid('', '', '')"],
    [
      'replace the verifying function',
      "create or replace function tenancy.tenant_id() returns uuid language sql as 'select gen_random_uuid()'",
    ],
    [
      'grant itself access to a table',
      "call tenancy.protect_table('probe.parent', 'postern_findings', array['select'])",
    ],
    ['admit itself as a definer', "call tenancy.admit_definer('probe.parent', 'postern_findings', array['select'])"],
    ['switch row security off', 'alter table probe.parent disable row level security'],
    ['unforce row security', 'alter table probe.parent no force row level security'],
    ['drop the policy', 'drop policy tenant_only on probe.parent'],
    ['add a policy', 'create policy mine on probe.parent using (true)'],
    ['empty a table', 'truncate probe.parent cascade'],
    [
      'add a trigger',
      'create trigger mine before insert on probe.parent for each row execute function tenancy.refuse_change()',
    ],
    ['make a table', 'create table probe.mine (id uuid)'],
    ['make a temporary table', 'create temporary table mine (id uuid)'],
    ['make a function', "create function extensions.mine() returns void language sql as ''"],
    ['make a schema', 'create schema mine'],
    ['make a role', 'create role mine'],
    ['give itself BYPASSRLS', 'alter role postern_findings bypassrls'],
    ['read the passwords', 'select rolpassword from pg_authid'],
    ['read files of the server', "select pg_read_file('pg_hba.conf')"],
    ['run programs on the server', "copy probe.parent (name) to program 'cat'"],
  ])('cannot %s', async (_what, text) => {
    expect(await codeOf(asA(sql(text)))).toBe('42501')
    expect(await names(db, tables.mint(tenantA))).toEqual(['of A'])
  })

  test('cannot switch off row security for its session, because its statements then fail', async () => {
    const outcome = db.write(tables.mint(tenantA), async (tx) => {
      await tx.execute(sql('set local row_security = off'))
      return await tx.query(sql('select name from probe.parent'))
    })
    expect(await codeOf(outcome)).toBe('42501')
  })
})

describe('the owner of the tables', () => {
  test('sees and changes no rows without a tenant, because row security is forced', async () => {
    await using connection = await openClient(tables.database.url('migrator'))
    const { client } = connection
    await expect(client.query('select from probe.parent')).rejects.toMatchObject({ code: '42501' })
    await client.query('set role postern_owner')
    expect((await client.query('select from probe.parent')).rowCount).toBe(0)
    expect((await client.query('delete from probe.parent')).rowCount).toBe(0)
    const insert = client.query('insert into probe.parent (tenant_id, name) values ($1, $2)', [tenantA, 'by owner'])
    await expect(insert).rejects.toMatchObject({ code: '42501' })
    expect(await names(db, tables.mint(tenantA))).toEqual(['of A'])
  })
})

describe('one connection used for tenant after tenant', () => {
  test('prepared statements return each tenant’s own rows, even with a cached plan', async () => {
    const single = tables.open({ maxConnections: 1 })
    const named: Statement = { name: 'names', text: 'select name from probe.parent where amount >= $1', values: [0] }
    for (let turn = 0; turn < 8; turn += 1) {
      expect(await single.read(tables.mint(tenantA), (tx) => tx.query(named))).toEqual([{ name: 'of A' }])
      expect(await single.read(tables.mint(tenantB), (tx) => tx.query(named))).toEqual([{ name: 'of B' }])
    }
    expect(single.stats().total).toBe(1)
  })

  test('the assertion ends with its transaction, committed or rolled back', async () => {
    const single = tables.open({ maxConnections: 1 })
    const left = async (): Promise<unknown> =>
      await single.system((tx) => tx.query(sql("select current_setting('postern.assertion', true) as left")))
    const select = sql('select name from probe.parent')
    await single.read(tables.mint(tenantA), (tx) => tx.query(select))
    expect(await left()).toEqual([{ left: '' }])
    await expect(single.system((tx) => tx.query(select))).rejects.toMatchObject({ code: '28000' })
    await single.write(tables.mint(tenantA), (tx) => tx.query(select))
    expect(await left()).toEqual([{ left: '' }])
    const failing = single.write(tables.mint(tenantA), async (tx) => {
      await tx.query(select)
      throw new Error('changed my mind')
    })
    await expect(failing).rejects.toThrow('changed my mind')
    expect(await left()).toEqual([{ left: '' }])
    await expect(single.system((tx) => tx.query(select))).rejects.toMatchObject({ code: '28000' })
    expect(single.stats().total).toBe(1)
  })

  test('an assertion left in the session does not apply to later transactions', async () => {
    const single = tables.open({ maxConnections: 1 })
    const pid = sql('select pg_backend_pid() as pid')
    const select = sql('select name from probe.parent')
    const first = await single.write(tables.mint(tenantA), async (tx) => {
      await tx.query(sql("select set_config('postern.assertion', $1, false)", tables.mint(tenantA).assertion))
      return await tx.query(pid)
    })
    expect(await single.system((tx) => tx.query(pid))).toEqual(first)
    await expect(single.system((tx) => tx.query(select))).rejects.toMatchObject({ code: '28000' })
    await expect(single.read({ assertion: '' }, (tx) => tx.query(select))).rejects.toMatchObject({ code: '28000' })
    expect(await single.read(tables.mint(tenantB), (tx) => tx.query(select))).toEqual([{ name: 'of B' }])
  })

  test('200 transactions of 20 tenants over two connections, some failing, return only their own rows', async () => {
    const tenants = Array.from({ length: 20 }, () => randomUUID())
    await Promise.all(tenants.map((tenant) => addParent(db, tables.mint(tenant), tenant, tenant)))
    const seen = await Promise.all(
      Array.from({ length: 200 }, async (_, turn) => {
        const tenant = tenants[turn % tenants.length] ?? ''
        const kind = turn % 4
        if (kind === 0) {
          const doomed = db.write(tables.mint(tenant), async (tx) => {
            await tx.execute(sql("update probe.parent set name = 'doomed'"))
            throw new Error('given up')
          })
          await expect(doomed).rejects.toThrow('given up')
        }
        if (kind === 1)
          expect(await codeOf(db.read(tables.mint(tenant), (tx) => tx.query(sql('select 1 / 0'))))).toBe('22012')
        return [tenant, await names(db, tables.mint(tenant))]
      }),
    )
    expect(seen).toHaveLength(200)
    expect(seen.filter(([tenant, rows]) => !(Array.isArray(rows) && rows.length === 1 && rows[0] === tenant))).toEqual(
      [],
    )
  })
})
