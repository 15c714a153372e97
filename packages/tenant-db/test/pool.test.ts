import { randomUUID } from 'node:crypto'
import { Socket } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { FakeClient } from './fake-client.ts'
import { openPostgresProxy } from './postgres-proxy.ts'
import { type TenantTables, addParent, createTenantTables, names, openClient, sql } from './tenant-tables.ts'
import { destroy } from '../src/pool.ts'
import { NotMigratedError } from '../src/sql-error.ts'

let tables: TenantTables
let tenant: { readonly assertion: string }

beforeAll(async () => {
  tables = await createTenantTables()
})
afterAll(async () => await tables[Symbol.asyncDispose]())
beforeEach(() => {
  tenant = tables.mint(randomUUID())
})

describe('the readiness check', () => {
  test('checks the database, and the tables of a schema if given', async () => {
    const db = tables.open({ maxConnections: 1 })
    await tables.asOwner('create schema hidden; create table hidden.item (id uuid)')
    await tables.asOwner('create schema empty; grant usage on schema empty to postern_findings')
    await expect(db.ping()).resolves.toBeUndefined()
    await expect(db.ping('probe')).resolves.toBeUndefined()
    expect(await db.databaseId()).toMatch(/^[0-9a-f]{16}$/)
    for (const schema of ['nowhere', 'hidden', 'empty']) {
      await expect(db.ping(schema)).rejects.toThrow(NotMigratedError)
    }
    expect(db.stats()).toEqual({ total: 1, idle: 1, waiting: 0 })
  })
})

describe('the pool', () => {
  test('reports the numbers of connections, idle ones and waiting callers', async () => {
    const db = tables.open({ maxConnections: 1 })
    expect(db.stats()).toEqual({ total: 0, idle: 0, waiting: 0 })
    const release = Promise.withResolvers<void>()
    const holding = db.write(tenant, async (tx) => {
      await tx.execute(sql('select 1'))
      await release.promise
    })
    await expect.poll(() => db.stats()).toEqual({ total: 1, idle: 0, waiting: 0 })
    const waiting = names(db, tenant)
    await expect.poll(() => db.stats()).toEqual({ total: 1, idle: 0, waiting: 1 })
    release.resolve()
    await holding
    expect(await waiting).toEqual([])
    expect(db.stats()).toEqual({ total: 1, idle: 1, waiting: 0 })
  })

  test.each([
    [3, []],
    [1, 'no database connection'],
  ] as const)('tries %i times to get a connection while it has another one', async (connectAttempts, outcome) => {
    const connectionString = tables.database.url('findings')
    await using proxy = await openPostgresProxy(connectionString)
    const db = tables.open({ connectionString: proxy.through(connectionString), connectAttempts })
    const release = Promise.withResolvers<void>()
    const holding = db.write(tenant, async (tx) => {
      await tx.execute(sql('select 1'))
      await release.promise
    })
    await proxy.hasSent('P select 1')
    proxy.refuseNext()
    const answer = await names(db, tenant).catch((error: unknown) => (error instanceof Error ? error.message : error))
    release.resolve()
    await holding
    await db.close()
    expect(answer).toEqual(outcome)
  })

  test('can be closed more than once', async () => {
    const db = tables.open()
    await names(db, tenant)
    await db.close()
    await expect(db.close()).resolves.toBeUndefined()
  })

  test('appears by name in the list of sessions and has the limits of its role', async () => {
    const db = tables.open({ applicationName: 'a-service' })
    const [row] = await db.read(tenant, (tx) => tx.query(sql("select current_setting('application_name') as name")))
    expect(row).toEqual({ name: 'a-service' })
  })

  test('uses TCP keep-alive, because firewalls drop idle connections silently', async () => {
    const keepsAlive = vi.spyOn(Socket.prototype, 'setKeepAlive')
    try {
      await names(tables.open(), tenant)
      expect(keepsAlive).toHaveBeenCalledWith(true, expect.anything())
    } finally {
      keepsAlive.mockRestore()
    }
  })

  test('closes a connection without waiting for outstanding responses', () => {
    const client = new FakeClient()
    destroy(client.asPoolClient())
    expect([client.isDestroyed, client.released]).toEqual([true, [true]])
  })

  test('reports why there is no connection, or that it was lost', async () => {
    const db = tables.open({ connectionString: 'postgres://nobody@127.0.0.1:1/none' })
    const none: unknown = await names(db, tenant).catch((error: unknown) => error)
    expect(none).toMatchObject({ message: 'no database connection', cause: { code: 'ECONNREFUSED' } })
    const broken = tables.open({ maxConnections: 1 })
    await using admin = await openClient(tables.database.url('superuser'))
    const lost: unknown = await broken
      .write(tenant, async (tx) => {
        const [row] = await tx.query<{ pid: number }>(sql('select pg_backend_pid() as pid'))
        await admin.client.query('select pg_terminate_backend($1)', [row?.pid])
        await tx.query(sql('select 1'))
      })
      .catch((error: unknown) => error)
    expect(lost).toMatchObject({ code: '57P01' })
    expect(broken.stats().total).toBe(0)
  })
})

describe('work without a tenant', () => {
  test('sees no tenant’s rows, and the observer receives its failures', async () => {
    const failed: string[] = []
    const db = tables.open({ observer: { opened: () => undefined, failed: (kind) => failed.push(kind) } })
    const tenantId = randomUUID()
    await addParent(db, tables.mint(tenantId), tenantId, 'a')
    await expect(db.system((tx) => tx.query(sql('select name from probe.parent')))).rejects.toMatchObject({
      code: '28000',
    })
    await expect(db.system((tx) => tx.query(sql('select 1 / 0')))).rejects.toMatchObject({ code: '22012' })
    expect(failed).toEqual(['assertion', 'other'])
    const setting = sql("select current_setting('postern.assertion', true) as assertion")
    expect(await db.system((tx) => tx.query(setting))).toEqual([{ assertion: '' }])
  })
})

test('a followed list with an expired assertion is reported as late', async () => {
  const failed: string[] = []
  const db = tables.open({ observer: { opened: () => undefined, failed: (kind) => failed.push(kind) } })
  const tenantId = randomUUID()
  await addParent(db, tables.mint(tenantId), tenantId, 'a')
  const over = tables.mint(tenantId, { lifetimeSeconds: -1 })
  const follow = async (): Promise<void> => {
    for await (const rows of db.follow(over, (tx) => tx.query(sql('select name from probe.parent')), 1)) {
      expect(rows).toEqual('nothing')
    }
  }
  await expect(follow()).rejects.toMatchObject({ code: '28000' })
  expect(failed).toEqual(['late'])
})
