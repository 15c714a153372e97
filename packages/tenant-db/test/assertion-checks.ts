import { randomBytes, randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { type TenantDb, setAssertionSecret, sqlError } from '../src/index.ts'
import { type TenantTables, addParent, createTenantTables, names, openClient, sql } from './tenant-tables.ts'

const nilTenant = '00000000-0000-0000-0000-000000000000'

/** Two tenants with a row each, and keys in every state. */
export interface AssertionWorld extends AsyncDisposable {
  readonly tables: TenantTables
  /** As postern_findings, which works for tenants. */
  readonly db: TenantDb
  /** As postern_keys, which also works for the operator. */
  readonly keys: TenantDb
  readonly tenantA: string
  readonly tenantB: string
}

/** Other keys: two with an end, and one with the longest id. */
const others = {
  over: { keyId: 'over', secret: randomBytes(32), notAfter: new Date(Date.now() - 1000) },
  ending: { keyId: 'ending', secret: randomBytes(32), notAfter: new Date(Date.now() + 3_600_000) },
  long: { keyId: 'x'.repeat(32), secret: randomBytes(64) },
}

export async function createAssertionWorld(): Promise<AssertionWorld> {
  const tables = await createTenantTables()
  const db = tables.open({ maxConnections: 4 })
  const keys = tables.open({ connectionString: tables.database.url('keys') })
  const [tenantA, tenantB] = [randomUUID(), randomUUID()]
  await addParent(db, tables.mint(tenantA), tenantA, 'of A')
  await addParent(db, tables.mint(tenantB), tenantB, 'of B')
  for (const key of Object.values(others)) await setAssertionSecret(tables.database.url('migrator'), key)
  return { tables, db, keys, tenantA, tenantB, [Symbol.asyncDispose]: () => tables[Symbol.asyncDispose]() }
}

/** PostgreSQL rejects every statement with the same error, without a reason. */
export async function expectRefused(db: TenantDb, assertion: string): Promise<void> {
  const seen = names(db, { assertion })
  await expect(seen).rejects.toMatchObject({ message: 'tenant assertion refused', code: '28000', detail: undefined })
  expect(sqlError(await seen.catch((error: unknown) => error))).toEqual({ kind: 'assertion', sqlState: '28000' })
}

export interface AssertionCheck {
  readonly title: string
  readonly verdict: 'believed' | 'refused'
  /** Fails if PostgreSQL accepts or rejects the wrong assertions. */
  run(world: AssertionWorld): Promise<void>
}

function believed(title: string, make: (world: AssertionWorld) => readonly string[]): AssertionCheck {
  return {
    title,
    verdict: 'believed',
    run: async (world) => {
      const assertions = make(world)
      const seen = await Promise.all(assertions.map(async (assertion) => await names(world.db, { assertion })))
      expect(seen).toEqual(assertions.map(() => ['of A']))
    },
  }
}

function refused(title: string, make: (world: AssertionWorld) => string | readonly string[]): AssertionCheck {
  return {
    title,
    verdict: 'refused',
    run: async (world) => {
      for (const assertion of [make(world)].flat()) await expectRefused(world.db, assertion)
    },
  }
}

async function askAsOperator({ keys, tables }: AssertionWorld, tenant: string, secret?: Buffer): Promise<unknown> {
  const assertion = tables.mint(tenant, secret === undefined ? {} : { secret })
  return await keys.read(assertion, async (tx) => await tx.query(sql('select tenancy.assert_operator() as yes')))
}

/** Checks of the PostgreSQL functions that verify the tenant, fastest first. */
export const assertionChecks: readonly AssertionCheck[] = [
  believed('one with every character in its MAC', ({ tables, tenantA }) =>
    Array.from({ length: 20 }, (_, at) => tables.mint(tenantA, { lifetimeSeconds: 60 + at }).assertion),
  ),
  {
    title: 'one of another tenant, which shows only that tenant',
    verdict: 'believed',
    run: async ({ tables, db, tenantB }) => {
      expect(await names(db, tables.mint(tenantB))).toEqual(['of B'])
    },
  },
  believed('one with a lifetime of 30 seconds, and one of 290 seconds', ({ tables, tenantA }) =>
    [30, 290].map((lifetimeSeconds) => tables.mint(tenantA, { lifetimeSeconds }).assertion),
  ),
  believed('one with the longest key id, and 64 bytes of secret', ({ tables, tenantA }) => [
    tables.mint(tenantA, others.long).assertion,
  ]),
  believed('one with a key that ends later', ({ tables, tenantA }) => [tables.mint(tenantA, others.ending).assertion]),
  refused('one with a retired key', ({ tables, tenantA }) => tables.mint(tenantA, others.over).assertion),
  refused('none at all', () => ''),
  refused('text', () => 'no assertion at all'),
  refused('a bare tenant id', ({ tenantA }) => tenantA),
  refused('no mac', ({ tenantA }) => `v1.k.${tenantA}.9999999999`),
  refused('an empty mac', ({ tenantA }) => `v1.k.${tenantA}.9999999999.`),
  refused('only dots', () => '.'.repeat(100)),
  refused('a mac of zeros', ({ tables, tenantA }) => {
    const parts = tables.mint(tenantA).assertion.split('.')
    return [...parts.slice(0, -1), 'A'.repeat(43)].join('.')
  }),
  refused('too much text', () => 'v1.'.repeat(10_000)),
  refused('characters of several bytes', ({ tenantA }) => `v1.k.${tenantA}.9999999999.${'ä'.repeat(21)}`),
  refused('one made with another secret', ({ tables, tenantA }) => {
    return tables.mint(tenantA, { secret: randomBytes(32) }).assertion
  }),
  refused('one made with an empty secret', ({ tables, tenantA }) => {
    return tables.mint(tenantA, { secret: Buffer.alloc(0) }).assertion
  }),
  refused('one with an unknown key id', ({ tables, tenantA }) => tables.mint(tenantA, { keyId: 'unknown' }).assertion),
  refused('one of another version', ({ tables, tenantA }) =>
    ['v2', 'v11', 'V1', ''].map((version) => tables.mint(tenantA, { version }).assertion),
  ),
  refused('one that has expired', ({ tables, tenantA }) =>
    [0, -3600].map((lifetimeSeconds) => tables.mint(tenantA, { lifetimeSeconds }).assertion),
  ),
  refused('one with a lifetime of more than 300 seconds', ({ tables, tenantA }) => {
    return tables.mint(tenantA, { lifetimeSeconds: 330 }).assertion
  }),
  refused('one of the operator, who is not a tenant', ({ tables }) => tables.mint(nilTenant).assertion),
  refused('one of A with the MAC of B', ({ tables, tenantA, tenantB }) => {
    const mac = tables.mint(tenantB).assertion.split('.')[4]
    return `${tables.mint(tenantA).assertion.split('.').slice(0, 4).join('.')}.${mac}`
  }),
  {
    title: "the operator's for the operator's work",
    verdict: 'believed',
    run: async (world) => {
      expect(await askAsOperator(world, nilTenant)).toEqual([{ yes: true }])
    },
  },
  {
    title: "a tenant's or a forged one for the operator's work",
    verdict: 'refused',
    run: async (world) => {
      await expect(askAsOperator(world, world.tenantA)).rejects.toMatchObject({ code: '28000' })
      await expect(askAsOperator(world, nilTenant, randomBytes(32))).rejects.toMatchObject({ code: '28000' })
    },
  },
  {
    // Waits for the next second of the clock.
    title: 'one that expired between the start of the transaction and the statement',
    verdict: 'refused',
    run: async ({ tables, tenantA }) => {
      await using connection = await openClient(tables.database.url('findings'))
      const { client } = connection
      const ask = async (text: string, ...values: readonly unknown[]): Promise<unknown> =>
        (await client.query<{ is: unknown }>(text, [...values])).rows[0]?.is
      await client.query('begin')
      const expiry = Number(await ask('select floor(extract(epoch from now()))::integer + 1 as is'))
      const lifetimeSeconds = expiry - Math.floor(Date.now() / 1000)
      const { assertion } = tables.mint(tenantA, { lifetimeSeconds })
      await ask("select set_config('postern.assertion', $1, true) as is", assertion)
      const isOver = 'select extract(epoch from clock_timestamp()) > $1::integer as is'
      await expect.poll(async () => await ask(isOver, assertion.split('.')[3])).toBe(true)
      await expect(client.query('select name from probe.parent')).rejects.toMatchObject({ code: '28000' })
    },
  },
]
