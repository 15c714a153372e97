import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Statement } from '../src/index.ts'
import { sqlError } from '../src/index.ts'
import type { PostgresProxy } from './postgres-proxy.ts'
import { openPostgresProxy } from './postgres-proxy.ts'
import { type ProxiedTables, backend, createProxiedTables, insertParent } from './proxied-tables.ts'
import type { TenantTables } from './tenant-tables.ts'
import { addParent, names, openClient, sql } from './tenant-tables.ts'

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

const kindOf = (outcome: Promise<unknown>): Promise<string> =>
  outcome.then(
    () => 'no error',
    (error: unknown) => sqlError(error).kind,
  )

const never = new Promise<never>(() => undefined)

describe('a database that fails', () => {
  // Long enough for a statement that responds, even on a busy machine.
  const queryTimeoutMs = 2_000

  test('that never responds: the statement times out, and its connection is closed', async () => {
    const db = await proxied.open({ queryTimeoutMs })
    proxy.hold()
    expect(await kindOf(names(db, tenant))).toBe('timeout')
    expect(db.stats()).toEqual({ total: 0, idle: 0, waiting: 0 })
    proxy.letGo()
    expect(await names(db, tenant)).toEqual([])
  })

  test('that never responds to a write: it times out, and its connection is closed', async () => {
    const db = await proxied.open({ queryTimeoutMs })
    proxy.hold()
    expect(await kindOf(db.write(tenant, (tx) => tx.execute(insert('unknown'))))).toBe('timeout')
    expect(db.stats().total).toBe(0)
    proxy.letGo()
    expect(await names(db, tenant)).toEqual([])
  })

  test('whose connection breaks in a read, a write or while idle: unavailable, then it recovers', async () => {
    const db = await proxied.open()
    proxy.forget()
    proxy.hold()
    const reading = kindOf(names(db, tenant))
    await proxy.hasSent('B postern_commit')
    proxy.cut()
    expect(await reading).toBe('unavailable')
    proxy.letGo()
    const writing = kindOf(
      db.write(tenant, async (tx) => {
        await tx.execute(insert('lost'))
        proxy.cut()
        await tx.execute(insert('lost too'))
      }),
    )
    expect(await writing).toBe('unavailable')
    await db.ping()
    proxy.cut()
    await expect.poll(() => db.stats().total).toBe(0)
    expect(await names(db, tenant)).toEqual([])
  })

  test('that ends the session while the function waits for something else: the write rejects at once', async () => {
    const db = tables.open({ maxConnections: 1 })
    await using admin = await openClient(tables.database.url('superuser'))
    const writing = db.write(tenant, async (tx) => {
      await tx.execute(insert('lost'))
      const [row] = await tx.query<{ pid: number }>(sql('select pg_backend_pid() as pid'))
      await admin.client.query('select pg_terminate_backend($1)', [row?.pid])
      return await never
    })
    expect(await kindOf(writing)).toBe('unavailable')
    expect(await names(db, tenant)).toEqual([])
  })

  test('that ends a transaction left open too long: timeout', async () => {
    const db = tables.open({ maxConnections: 1 })
    const writing = db.write(tenant, async (tx) => {
      await tx.execute(insert('forgotten'))
      await tx.execute(sql("set local idle_in_transaction_session_timeout = '20ms'"))
      return await never
    })
    expect(await kindOf(writing)).toBe('timeout')
    expect(await names(db, tenant)).toEqual([])
  })

  test('that stops a long statement: timeout, and the connection stays usable', async () => {
    const db = tables.open({ maxConnections: 1 })
    const before = await backend(db)
    const writing = db.write(tenant, async (tx) => {
      await tx.execute(sql("set local statement_timeout = '20ms'"))
      await tx.query(sql('select pg_sleep(60)'))
    })
    expect(await kindOf(writing)).toBe('timeout')
    expect(await backend(db)).toEqual(before)
  })

  test('that became read-only: unavailable, and its connection is closed; a write in a read is a bug', async () => {
    const db = tables.open({ maxConnections: 1 })
    const writing = db.write(tenant, async (tx) => {
      await tx.execute(sql('set local transaction_read_only = on'))
      // Even if the function reports another error.
      await tx.execute(insert('nowhere')).catch(() => undefined)
    })
    expect(await kindOf(writing)).toBe('unavailable')
    expect(db.stats().total).toBe(0)
    expect(await kindOf(db.read(tenant, (tx) => tx.execute(insert('no'))))).toBe('other')
    expect(await names(db, tenant)).toEqual([])
  })

  test.each(['08006', '53300', '57P01', '57P02', '57P03', '57P05'])(
    'that fails with %s: unavailable, and its connection is closed',
    async (state) => {
      const db = tables.open({ maxConnections: 1 })
      const failing = db.write(tenant, async (tx) =>
        tx.execute(sql(`do $$ begin raise exception 'away' using errcode = '${state}'; end $$`)),
      )
      expect(await kindOf(failing)).toBe('unavailable')
      expect(db.stats().total).toBe(0)
    },
  )

  test('that does not exist: unavailable, also for ping', async () => {
    const gone = await openPostgresProxy(tables.database.url('findings'))
    const connectionString = gone.through(tables.database.url('findings'))
    await gone[Symbol.asyncDispose]()
    const db = tables.open({ connectionString })
    expect(await kindOf(names(db, tenant))).toBe('unavailable')
    expect(await kindOf(db.ping())).toBe('unavailable')
  })

  test('that rejects the login: unavailable, without the password in the error', async () => {
    const url = new URL(tables.database.url('findings'))
    url.password = 'a-wrong-password-0123'
    const db = tables.open({ connectionString: url.href })
    const error: unknown = await names(db, tenant).catch((failure: unknown) => failure)
    expect(sqlError(error).kind).toBe('unavailable')
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('a-wrong-password')
  })

  test('that accepts a connection but does not respond: unavailable after the connect timeout', async () => {
    proxy.hold()
    const db = tables.open({ connectionString: proxy.through(tables.database.url('findings')), connectTimeoutMs: 100 })
    expect(await kindOf(names(db, tenant))).toBe('unavailable')
    proxy.letGo()
    proxy.cut()
  })
})

describe('the pool', () => {
  test('a caller without a free connection in time is rejected', async () => {
    const db = tables.open({ maxConnections: 1, connectTimeoutMs: 300 })
    // Creating one may take longer on a busy machine; the next caller then gets it.
    await expect.poll(() => kindOf(db.ping())).toBe('no error')
    const release = Promise.withResolvers<void>()
    const holding = db.write(tenant, async (tx) => {
      await tx.execute(insert('held'))
      await release.promise
    })
    expect(await kindOf(names(db, tenant))).toBe('unavailable')
    release.resolve()
    await holding
    expect(await names(db, tenant)).toEqual(['held'])
  })

  test('a prepared statement with a changed table closes its connection and works on the next', async () => {
    await tables.asOwner(`
      create table probe.widening (tenant_id uuid not null, id uuid not null, constraint widening_pk primary key (tenant_id, id));
      call tenancy.protect_table('probe.widening', 'postern_findings', array['select'])`)
    const db = tables.open({ maxConnections: 1 })
    const named: Statement = { name: 'widening', text: 'select * from probe.widening', values: [] }
    const before = await backend(db)
    await db.read(tenant, (tx) => tx.query(named))
    await tables.asOwner('alter table probe.widening add column more integer')
    await expect(db.read(tenant, (tx) => tx.query(named))).rejects.toMatchObject({ code: '0A000' })
    expect(await db.read(tenant, (tx) => tx.query(named))).toEqual([])
    expect(await backend(db)).not.toEqual(before)
  })

  test('a value that cannot be sent rejects and closes the connection', async () => {
    const db = tables.open({ maxConnections: 1 })
    const before = await backend(db)
    const circle: { self?: unknown } = {}
    circle.self = circle
    const writing = db.write(tenant, (tx) => tx.execute(sql('select $1::jsonb', circle)))
    await expect(writing).rejects.toThrow('circular')
    expect(await backend(db)).not.toEqual(before)
    const hiding = db.write(tenant, async (tx) => {
      await tx.execute(insert('half'))
      await tx.execute(sql('select $1::jsonb', circle)).catch(() => 0)
    })
    await expect(hiding).rejects.toThrow('circular')
    expect(await names(db, tenant)).toEqual([])
  })

  test('close waits for running transactions', async () => {
    const db = tables.open({ maxConnections: 1 })
    const release = Promise.withResolvers<void>()
    const writing = db.write(tenant, async (tx) => {
      await tx.execute(insert('last'))
      await release.promise
    })
    await expect.poll(() => db.stats()).toEqual({ total: 1, idle: 0, waiting: 0 })
    const closing = db.close()
    release.resolve()
    await writing
    await closing
    expect(await kindOf(names(db, tenant))).toBe('unavailable')
    expect(await names(tables.open(), tenant)).toEqual(['last'])
  })
})

describe('sqlError', () => {
  test.each([
    ['unique', 'parent_name_unique', (t: string) => [insertNamed(t, 'same'), insertNamed(t, 'same')]],
    [
      'check',
      'parent_amount_positive',
      (t: string) => [sql('insert into probe.parent (tenant_id, name, amount) values ($1, $2, -1)', t, 'n')],
    ],
    [
      'foreign-key',
      'child_parent_fk',
      (t: string) => [sql('insert into probe.child (tenant_id, parent_id) values ($1, $2)', t, randomUUID())],
    ],
    ['not-null', undefined, (t: string) => [sql('insert into probe.parent (tenant_id, name) values ($1, null)', t)]],
    ['rls', undefined, () => [insertNamed(randomUUID(), 'n')]],
    ['other', undefined, () => [sql('select 1 / 0')]],
  ])('tells %s apart', async (kind, constraint, statements) => {
    const writing = tables.open().write(tenant, async (tx) => {
      for (const statement of statements(tenantId)) await tx.execute(statement)
    })
    const error = sqlError(await writing.catch((failure: unknown) => failure))
    expect(error.kind).toBe(kind)
    expect(error.constraint).toBe(constraint)
    expect(error.sqlState).toMatch(/^[0-9A-Z]{5}$/)
  })

  test('recognizes a deadlock, which can be retried', async () => {
    const db = tables.open({ maxConnections: 2 })
    await addParent(db, tenant, tenantId, 'one')
    await addParent(db, tenant, tenantId, 'two')
    const both = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
    const cross = (first: string, second: string, mine: 0 | 1): Promise<unknown> =>
      db.write(tenant, async (tx) => {
        await tx.execute(touch(first))
        both[mine].resolve()
        await Promise.all(both.map((each) => each.promise))
        await tx.execute(touch(second))
      })
    const kinds = await Promise.all([kindOf(cross('one', 'two', 0)), kindOf(cross('two', 'one', 1))])
    expect(kinds.toSorted()).toEqual(['no error', 'serialization'])
  })

  test('returns `other` for errors from elsewhere', () => {
    expect(sqlError(new Error('anything'))).toEqual({ kind: 'other' })
    expect(sqlError(undefined)).toEqual({ kind: 'other' })
    expect(sqlError({ code: '23505' })).toEqual({ kind: 'other' })
  })
})

function insertNamed(tenantOfRow: string, name: string): Statement {
  return sql('insert into probe.parent (tenant_id, name) values ($1, $2)', tenantOfRow, name)
}

function touch(name: string): Statement {
  return sql('update probe.parent set amount = 1 where name = $1', name)
}
