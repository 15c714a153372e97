/**
 * @promise Tenants: PostgreSQL accepts only assertions that a gateway signed, that are unchanged and that have not expired.
 * @alsoShownBy packages/tenant-db/test/altered-functions.test.ts
 */

import { randomBytes, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TenantDb } from '../src/index.ts'
import {
  withRejectionsAsOutage,
  rejectOnOutage,
  retireAssertionSecrets,
  setAssertionSecret,
  sqlError,
} from '../src/index.ts'
import { type AssertionWorld, assertionChecks, createAssertionWorld, expectRefused } from './assertion-checks.ts'
import { type AssertionParts, type TenantTables, names, openClient, sql } from './tenant-tables.ts'

const nilTenant = '00000000-0000-0000-0000-000000000000'

let world: AssertionWorld
let tables: TenantTables
let db: TenantDb
let tenantA: string
let tenantB: string

beforeAll(async () => {
  world = await createAssertionWorld()
  ;({ tables, db, tenantA, tenantB } = world)
})

afterAll(async () => {
  await world[Symbol.asyncDispose]()
})

describe('PostgreSQL believes', () => {
  test.each(assertionChecks.filter(({ verdict }) => verdict === 'believed'))('$title', async ({ run }) => {
    await expect(run(world)).resolves.toBeUndefined()
  })
})

describe('PostgreSQL rejects', () => {
  test.each(assertionChecks.filter(({ verdict }) => verdict === 'refused'))('$title', async ({ run }) => {
    await expect(run(world)).resolves.toBeUndefined()
  })

  test('every single changed bit is rejected', async () => {
    const { assertion } = tables.mint(tenantA)
    const changed: string[] = []
    for (let index = 0; index < assertion.length; index += 1) {
      for (let bit = 0; bit < 7; bit += 1) {
        const code = assertion.charCodeAt(index) ^ (1 << bit)
        // PostgreSQL allows no NUL in text, and pg would fail before sending it.
        if (code !== 0) changed.push(assertion.slice(0, index) + String.fromCharCode(code) + assertion.slice(index + 1))
      }
    }
    const outcomes = await Promise.all(
      changed.map((text) =>
        names(db, { assertion: text }).then(
          () => 'believed',
          (error: unknown) => sqlError(error).kind,
        ),
      ),
    )
    expect(new Set(outcomes)).toEqual(new Set(['assertion']))
    expect(changed).toHaveLength(assertion.length * 7)
    expect(await names(db, { assertion })).toEqual(['of A'])
  })

  test('every prefix, suffix and extension is rejected', async () => {
    const { assertion } = tables.mint(tenantA)
    const changed = [`${assertion}=`, `${assertion}A`, ` ${assertion}`, `${assertion}\n`, `${assertion}${assertion}`]
    for (let length = 0; length < assertion.length; length += 1) {
      changed.push(assertion.slice(0, length), assertion.slice(assertion.length - length))
    }
    // Also with one character less elsewhere.
    for (let at = 1; at + 1 < assertion.length; at += 1) changed.push(assertion.slice(0, at) + assertion.slice(at + 1))
    const outcomes = await Promise.all(
      changed.map((text) =>
        names(db, { assertion: text }).then(
          () => 'believed',
          (error: unknown) => sqlError(error).kind,
        ),
      ),
    )
    expect(new Set(outcomes)).toEqual(new Set(['assertion']))
    expect(changed.length).toBeGreaterThan(3 * 100)
    expect(await names(db, { assertion })).toEqual(['of A'])
  })

  test('a rejected assertion allows no insert, update or delete', async () => {
    const forged = tables.mint(tenantA, { secret: randomBytes(32) })
    const statements = [
      sql('insert into probe.parent (tenant_id, name) values ($1, $2)', tenantA, 'forged'),
      sql('update probe.parent set name = $1', 'forged'),
      sql('delete from probe.parent'),
    ]
    for (const statement of statements) {
      const outcome = db.write(forged, (tx) => tx.execute(statement))
      await expect(outcome).rejects.toMatchObject({ code: '28000' })
    }
    expect(await names(db, tables.mint(tenantA))).toEqual(['of A'])
  })
})

describe('a service with a rejected assertion', () => {
  const away = new Error('try again')
  const list = sql('select name from probe.parent')
  const ask = async (asked: TenantDb, tenant: { readonly assertion: string }): Promise<unknown[]> =>
    await Promise.allSettled([
      asked.read(tenant, (tx) => tx.query(list)),
      asked.write(tenant, (tx) => tx.query(list)),
    ]).then((all) => all.map((one) => (one.status === 'rejected' ? one.reason : 'answered')))

  const kinds = async (parts: AssertionParts): Promise<string[]> =>
    (await ask(withRejectionsAsOutage(db, Date.now), tables.mint(tenantA, parts))).map((error) => sqlError(error).kind)

  test.each([
    ['is from the future', { lifetimeSeconds: 330 }],
    ['is over', { lifetimeSeconds: -3600 }],
    ['has an unknown secret', { secret: randomBytes(32) }],
  ])('one that %s returns an error that can be retried', async (_what, parts) => {
    const answering = rejectOnOutage(db, (cause) => Object.assign(away, { cause }))
    expect(await ask(answering, tables.mint(tenantA, parts))).toEqual([away, away])
    expect(away.cause).toMatchObject({ code: '28000' })
    expect(await ask(answering, tables.mint(tenantA))).toEqual(['answered', 'answered'])
  })

  test('an expired one is reported as late, and others as rejected', async () => {
    const failures: string[] = []
    const watched = tables.open({ observer: { opened: () => undefined, failed: (kind) => failures.push(kind) } })
    expect(await ask(watched, tables.mint(tenantA, { lifetimeSeconds: -1 }))).toHaveLength(2)
    expect(failures.splice(0)).toEqual(['late', 'late'])
    await ask(watched, tables.mint(tenantA, { secret: randomBytes(32) }))
    await ask(watched, { assertion: '' })
    expect(failures.splice(0)).toEqual(Array.from({ length: 4 }, () => 'assertion'))
    // Errors before PostgreSQL has checked it keep their meaning.
    const ours = watched.read(tables.mint(tenantA, { lifetimeSeconds: -1 }), async () => {
      throw new Error('ours')
    })
    await expect(ours).rejects.toThrow('ours')
    expect(failures).toEqual(['other'])
  })

  test('a read-only database counts as unavailable, with its reason', async () => {
    const writing = db.write(tables.mint(tenantA), async (tx) => {
      await tx.execute(sql('set local transaction_read_only = on'))
      await tx.execute(sql('delete from probe.parent'))
    })
    await expect(writing).rejects.toMatchObject({ message: 'the database is read-only', cause: { code: '25006' } })
  })

  test('a followed list fails in the same way', async () => {
    const forged = tables.mint(tenantA, { secret: randomBytes(32) })
    const follow = async (asked: TenantDb): Promise<unknown> => {
      const rows = asked.follow(forged, (tx) => tx.query(list), 10)[Symbol.asyncIterator]()
      return await rows.next().catch((error: unknown) => error)
    }
    expect(await follow(rejectOnOutage(db, () => away))).toBe(away)
    expect(sqlError(await follow(withRejectionsAsOutage(db, Date.now))).kind).toBe('unavailable')
    expect(sqlError(await follow(db)).kind).toBe('assertion')
  })

  test.each(['', 'none', 'v1.k'])('a missing one, %j, is a bug in the service', async (assertion) => {
    const refused = expect.objectContaining({ code: '28000' })
    expect(
      await ask(
        rejectOnOutage(db, () => away),
        { assertion },
      ),
    ).toEqual([refused, refused])
    expect(await ask(withRejectionsAsOutage(db, Date.now), { assertion })).toEqual([refused, refused])
  })

  test('for long work, only the rejection of an unexpired assertion is an outage', async () => {
    expect(await kinds({ lifetimeSeconds: 330 })).toEqual(['unavailable', 'unavailable'])
    expect(await kinds({ secret: randomBytes(32) })).toEqual(['unavailable', 'unavailable'])
    expect(await kinds({ lifetimeSeconds: -1 })).toEqual(['assertion', 'assertion'])
  })
})

describe('keys of assertions', () => {
  test('an old and a new key are accepted until the old one ends', async () => {
    const next = { keyId: 'next', secret: randomBytes(32) }
    await expectRefused(db, tables.mint(tenantA, next).assertion)
    await setAssertionSecret(tables.database.url('migrator'), next)
    expect(await names(db, tables.mint(tenantA, next))).toEqual(['of A'])
    expect(await names(db, tables.mint(tenantA))).toEqual(['of A'])

    await setAssertionSecret(tables.database.url('migrator'), { ...next, notAfter: new Date(Date.now() + 3_600_000) })
    expect(await names(db, tables.mint(tenantA, next))).toEqual(['of A'])
    await setAssertionSecret(tables.database.url('migrator'), { ...next, notAfter: new Date(Date.now() - 1000) })
    await expectRefused(db, tables.mint(tenantA, next).assertion)
    expect(await names(db, tables.mint(tenantA))).toEqual(['of A'])
  })

  test('a retired key stays retired if migrations store it again', async () => {
    const leaked = { keyId: 'leaked', secret: randomBytes(32) }
    await setAssertionSecret(tables.database.url('migrator'), { ...leaked, notAfter: new Date(Date.now() - 1000) })
    await setAssertionSecret(tables.database.url('migrator'), leaked)
    await expectRefused(db, tables.mint(tenantA, leaked).assertion)
  })

  test('unnamed keys end in ten minutes, except those with an earlier end', async () => {
    const url = tables.database.url('migrator')
    const [kept, gone, ending] = ['kept', 'gone', 'soon'].map((keyId) => ({ keyId, secret: randomBytes(32) }))
    if (kept === undefined || gone === undefined || ending === undefined) throw new Error('there are three')
    await setAssertionSecret(url, kept)
    await setAssertionSecret(url, gone)
    await setAssertionSecret(url, { ...ending, notAfter: new Date(Date.now() + 5000) })
    await using connection = await openClient(tables.database.url('superuser'))
    const ends = async (): Promise<unknown[]> =>
      (
        await connection.client.query(
          `select key_id, round(extract(epoch from not_after - now()) / 300)::int as fives
             from tenancy.assertion_secret where key_id in ('kept', 'gone', 'soon') order by key_id`,
        )
      ).rows
    const others = (
      await connection.client.query<{ key_id: string }>('select key_id from tenancy.assertion_secret')
    ).rows
      .map((row) => row.key_id)
      .filter((keyId) => keyId !== 'gone')
    expect(await retireAssertionSecrets(url, others)).toEqual(['gone'])
    expect(await ends()).toEqual([
      { key_id: 'gone', fives: 2 },
      { key_id: 'kept', fives: null },
      { key_id: 'soon', fives: 0 },
    ])
    expect(await names(db, tables.mint(tenantA, gone))).toEqual(['of A'])
    expect(await retireAssertionSecrets(url, others)).toEqual([])
  })

  test('a key may have 64 bytes, as RFC 2104 allows without hashing it first', async () => {
    const long = { keyId: 'long-key_64', secret: randomBytes(64) }
    await setAssertionSecret(tables.database.url('migrator'), long)
    expect(await names(db, tables.mint(tenantB, long))).toEqual(['of B'])
  })

  test.each([
    ['a key of 31 bytes', 'short', 31],
    ['a key of 65 bytes', 'longer', 65],
    ['a key id with a dot', 'a.b', 32],
  ])('%s is not stored', async (_what, keyId, bytes) => {
    const stored = setAssertionSecret(tables.database.url('migrator'), { keyId, secret: randomBytes(bytes) })
    await expect(stored).rejects.toMatchObject({ code: '23514' })
  })
})

describe("the operator's assertion", () => {
  test('is required', async () => {
    const keys = tables.open({ connectionString: tables.database.url('keys') })
    const asked = sql('select tenancy.assert_operator() as yes')
    await expect(keys.system((tx) => tx.query(asked))).rejects.toMatchObject({ code: '28000' })
  })

  test('cannot be used by services without operator work', async () => {
    const asked = db.read(tables.mint(nilTenant), (tx) => tx.query(sql('select tenancy.assert_operator()')))
    await expect(asked).rejects.toMatchObject({ code: '42501' })
  })
})

describe('what it costs', () => {
  test('a statement verifies the assertion once, however many rows it reads', async () => {
    const tenant = randomUUID()
    await db.write(tables.mint(tenant), (tx) =>
      tx.execute(
        sql(
          "insert into probe.parent (tenant_id, name) select $1, 'row ' || n from generate_series(1, 500) as n",
          tenant,
        ),
      ),
    )
    const [row] = await db.read(tables.mint(tenant), (tx) =>
      tx.query<{ 'QUERY PLAN': string }>(sql('explain (analyze, verbose, format json) select * from probe.parent')),
    )
    const plan = JSON.stringify(row)
    expect(plan).toContain('"Actual Rows":500')
    expect(plan.match(/"InitPlan 1"/g)).toHaveLength(1)
    expect(plan).not.toContain('InitPlan 2')
    expect(plan.match(/tenancy\.tenant_id\(\)/g)).toHaveLength(1)
  })

  test('the observer receives rejected assertions, rejected statements and the state of the pool', async () => {
    const failed: string[] = []
    const pools: number[] = []
    const watchedDb = tables.open({
      observer: {
        opened: (connections, stats) => pools.push(connections, stats().total),
        failed: (kind) => failed.push(kind),
      },
    })
    const list = sql('select name from probe.parent')
    await expect(watchedDb.read({ assertion: 'v1.not.an.assertion' }, (tx) => tx.query(list))).rejects.toThrow(
      'tenant assertion refused',
    )
    await expect(watchedDb.write(tables.mint(tenantA), (tx) => tx.query(sql('truncate probe.parent')))).rejects.toThrow(
      'permission denied',
    )
    await expect(
      watchedDb.read(tables.mint(tenantA), async () => await Promise.reject(new Error('ours'))),
    ).rejects.toThrow('ours')
    await watchedDb.read(tables.mint(tenantA), (tx) => tx.query(list))
    expect(failed).toEqual(['assertion', 'rls', 'other'])
    expect(pools).toEqual([2, 0])
  })

  test('parallel workers see the same tenant', async () => {
    await using connection = await openClient(tables.database.url('findings'))
    const { client } = connection
    await client.query('begin')
    await client.query('set local debug_parallel_query = on')
    await client.query("select set_config('postern.assertion', $1, true)", [tables.mint(tenantA).assertion])
    const plan = await client.query('explain select name from probe.parent')
    expect(JSON.stringify(plan.rows)).toContain('Gather')
    expect((await client.query('select name from probe.parent')).rows).toEqual([{ name: 'of A' }])
  })
})
