import { mintAssertion, parseKeyRing } from '@postern/signed-context'
import { randomRing } from '@postern/local-stack/testing'
import { type Statement, sqlError } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { importsOf, newConnector } from './import-support.ts'
import { type UniverseUnderTest, legal, newTenant, node, row, startUniverse } from './service.ts'

let universe: UniverseUnderTest
let [mine, theirs] = ['', '']
beforeAll(async () => {
  universe = await startUniverse()
  ;[mine, theirs] = [await someTenant(), await someTenant()]
})
afterAll(async () => await universe.close())

/** A tenant with rows in every table; all tenants use the same keys. */
async function someTenant(): Promise<string> {
  const tenant = newTenant()
  await universe.pushTo(tenant, 'entities', { entities: [row('A'), row('B', { parent_external_id: 'A' })] })
  const nodes = [node('top', undefined, { entities: ['A'] }), node('unit', 'top')]
  await universe.pushTo(tenant, 'org-structures', legal(nodes))
  await universe.pushTo(tenant, 'org-structures', legal(nodes.slice(0, 1)))
  await universe.pushTo(tenant, 'test-procedures', {
    test_procedures: [{ external_id: 'T', title: 'T', entities: ['A'] }],
  })
  await universe.pushTo(tenant, 'people', { people: [{ external_id: 'P', name: 'P', email: 'p@example.com' }] })
  const connector = newConnector(tenant, { id: connectorId, dataset: 'people' })
  await importsOf(universe).carryOut(connector, { external_id: 'P', name: 'P', email: 'p@example.com', active: true })
  return tenant.tenantId
}

const connectorId = crypto.randomUUID()

/** How many rows each table holds of such a tenant, and what the service may do beside reading. */
const tables = [
  ['entity', 2, 'name', ['update']],
  ['entity_path', 2, 'path', ['update']],
  ['reference_counter', 1, 'last_number', ['update']],
  ['hierarchy', 1, 'name', ['update']],
  ['hierarchy_version', 2, 'run_id', []],
  ['node', 2, 'name', ['update']],
  ['node_history', 1, 'name', []],
  ['node_entity', 1, 'entity_id', ['delete']],
  ['staged_node', 0, 'name', ['delete']],
  ['test_procedure', 1, 'title', ['update']],
  ['test_procedure_counter', 1, 'last_number', ['update']],
  ['test_procedure_entity', 1, 'entity_id', ['delete']],
  ['person', 1, 'name', ['update']],
  ['source_connector', 1, 'telling', ['update']],
  ['import', 1, 'attempt', ['update']],
  ['import_row', 1, 'hash', ['update', 'delete']],
  ['import_batch', 1, 'last_seq', []],
  ['source_row', 1, 'hash', ['update', 'delete']],
] as const

const sql = (text: string, values: readonly unknown[] = []): Statement => ({ text, values })

async function failureOf(work: Promise<unknown>) {
  return await work.then(
    () => undefined,
    (error: unknown) => sqlError(error),
  )
}

const run = async (assertion: string, statement: Statement) =>
  await universe.asService.write({ assertion }, async (tx) => await tx.execute(statement))

/** Runs the steps in one transaction of the first tenant. */
const asMine = async (...steps: readonly Statement[]) =>
  await universe.asService.write(universe.assertionOf(mine), async (tx) => {
    for (const step of steps) await tx.execute(step)
  })

const idOf = async (tenantId: string, table: string) => {
  const rows = await universe.asService.read(
    universe.assertionOf(tenantId),
    async (tx) => await tx.query<{ id: string }>(sql(`select id from universe.${table} order by id limit 1`)),
  )
  return rows[0]?.id ?? ''
}

async function contents(): Promise<unknown[]> {
  return await universe.asSuperuser.system(
    async (tx) =>
      await Promise.all(
        tables.map(
          async ([table]) =>
            await tx.query(sql(`select md5(string_agg(t::text, ',' order by t::text)) from universe.${table} t`)),
        ),
      ),
  )
}

test('the list above is every table of the schema', async () => {
  const rows = await universe.asSuperuser.system(
    async (tx) =>
      await tx.query<{ tablename: string }>(sql("select tablename from pg_tables where schemaname = 'universe'")),
  )
  expect(rows.map(({ tablename }) => tablename).toSorted()).toEqual(tables.map(([table]) => table).toSorted())
})

describe.each(tables)('universe.%s', (table, own, column, allowed) => {
  const statements = [
    sql(`select from universe.${table}`),
    sql(`update universe.${table} set ${column} = ${column}`),
    sql(`delete from universe.${table}`),
    sql(`insert into universe.${table} select t.* from universe.${table} t`),
  ]

  test('without, with a forged, and with an expired assertion every statement fails and changes nothing', async () => {
    const before = await contents()
    const forged = mintAssertion(parseKeyRing(randomRing('forged')), mine, Date.now())
    const { assertion } = universe.assertionOf(mine)
    const [version, key, tenant, , mac] = assertion.split('.')
    const stretched = [version, key, tenant, Math.floor(Date.now() / 1000) + 200, mac].join('.')
    const swapped = assertion.replace(mine, theirs)
    for (const wrong of ['', 'none', forged, stretched, swapped]) {
      for (const statement of statements) {
        const failure = await failureOf(run(wrong, statement))
        expect([statement.text, failure?.kind]).toEqual([
          statement.text,
          expect.stringMatching(/^(assertion|rls|other)$/),
        ])
      }
    }
    expect(await contents()).toEqual(before)
  })

  test('a tenant reads only its own rows', async () => {
    const [statement] = statements
    if (statement === undefined) throw new Error('no statement')
    expect(await run(universe.assertionOf(mine).assertion, statement)).toBe(own)
    expect(await run(universe.assertionOf(newTenant().tenantId).assertion, statement)).toBe(0)
  })

  test('what the service may not do to a table fails; what it may reaches no other tenant', async () => {
    const named = [
      ['update', sql(`update universe.${table} set ${column} = ${column} where tenant_id = $1`, [theirs])],
      ['delete', sql(`delete from universe.${table} where tenant_id = $1`, [theirs])],
    ] as const
    const before = await contents()
    for (const [command, statement] of named) {
      const work = run(universe.assertionOf(mine).assertion, statement)
      if (allowed.some((one) => one === command)) expect(await work).toBe(0)
      else expect(await failureOf(work)).toMatchObject({ kind: 'rls' })
    }
    expect(await contents()).toEqual(before)
  })
})

describe('PostgreSQL has the last word on a hierarchy', () => {
  const version = sql(
    `insert into universe.hierarchy_version (tenant_id, hierarchy_id, version, run_id)
    select h.tenant_id, h.id, h.version + 1, uuidv7() from universe.hierarchy h`,
  )
  const setNode = (change: string, key = 'top') =>
    sql(`update universe.node set ${change}, since_version = 3 where node_key = $1`, [key])

  test.each([
    ['a circle', "parent_id = (select id from universe.node where node_key = 'unit')", 'node_tree'],
    ['itself as its parent', 'parent_id = id', 'node_tree'],
    ['a parent that is nowhere', 'parent_id = uuidv7()', 'node_tree'],
    ['the path of another', "path = '00000009'", 'node_path_form'],
    ['another key', "node_key = 'other'", 'node_identity_fixed'],
    ['an unknown status', "status = 'gone'", 'node_status_known'],
  ])('a version with a node that has %s is rejected', async (_what, change, constraint) => {
    expect(await failureOf(asMine(setNode(change), version))).toMatchObject({ kind: 'check', constraint })
  })

  test('control: a sound change is recorded, and what was before is kept', async () => {
    const tenantId = await someTenant()
    const kept = sql('select from universe.node_history')
    await universe.asService.write(universe.assertionOf(tenantId), async (tx) => {
      await tx.execute(setNode("name = 'Other'"))
      await tx.execute(version)
    })
    expect(await run(universe.assertionOf(tenantId).assertion, kept)).toBe(2)
  })

  test('no one changes or removes history, not even past row security', async () => {
    for (const table of ['node_history', 'hierarchy_version']) {
      for (const text of [
        `delete from universe.${table}`,
        `update universe.${table} set tenant_id = tenant_id`,
        `truncate universe.${table}`,
      ]) {
        const failure = await failureOf(universe.asSuperuser.system(async (tx) => await tx.execute(sql(text))))
        expect([text, failure?.sqlState]).toEqual([text, '55000'])
      }
    }
  })

  test('a tenant has at most one primary hierarchy', async () => {
    const second = sql(
      `insert into universe.hierarchy (tenant_id, key, name, kind, is_primary, created_by_type, created_by_id, created_by_label)
      select h.tenant_id, 'second', h.name, h.kind, true, 'connector', 'c', 'l' from universe.hierarchy h`,
    )
    expect(await failureOf(asMine(second))).toMatchObject({ kind: 'unique', constraint: 'hierarchy_one_primary' })
  })
})

test("another tenant's rows can be linked to by nothing: it fails as for rows that do not exist", async () => {
  for (const [table, column, owner] of [
    ['node_entity', 'node_id', 'node'],
    ['test_procedure_entity', 'test_procedure_id', 'test_procedure'],
  ] as const) {
    const [own, entity] = [await idOf(mine, owner), await idOf(theirs, 'entity')]
    const link = (entityId: string) =>
      sql(`insert into universe.${table} (tenant_id, ${column}, entity_id) values ($1, $2, $3)`, [mine, own, entityId])
    const { assertion } = universe.assertionOf(mine)
    const unknown = await failureOf(run(assertion, link(crypto.randomUUID())))
    expect(unknown).toMatchObject({ kind: 'foreign-key' })
    expect(await failureOf(run(assertion, link(entity)))).toEqual(unknown)
  }
})
