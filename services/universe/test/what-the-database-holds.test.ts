import { type Statement, sqlError } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type UniverseUnderTest, legal, newTenant, node, row, startUniverse } from './service.ts'

let universe: UniverseUnderTest
beforeAll(async () => {
  universe = await startUniverse()
})
afterAll(async () => await universe.close())

async function someEntities() {
  const tenant = newTenant()
  await universe.push(tenant, [row('A'), row('B', { parent_external_id: 'A' })])
  return tenant
}

function insert(tenantId: string, number: number, parentId: string | null = null): Statement {
  return {
    text: `insert into universe.entity (
        tenant_id, number, name, type, status, parent_id, created_by_type, created_by_id, created_by_label)
      values ($1, $2, 'n', 'process', 'active', $3, 'connector', 'c', 'l')`,
    values: [tenantId, number, parentId],
  }
}

async function failureOf(work: Promise<unknown>) {
  return await work.then(
    () => undefined,
    (error: unknown) => sqlError(error),
  )
}

const asTenant = async (tenantId: string, statement: Statement) =>
  await universe.asService.write(universe.assertionOf(tenantId), async (tx) => tx.execute(statement))

describe('PostgreSQL keeps tenants apart, whatever the service asks', () => {
  test.each([
    ['entity', 2],
    ['reference_counter', 1],
  ])(
    'universe.%s: without an assertion every statement fails; with one, other tenants’ rows are not there',
    async (table, own) => {
      const { tenantId } = await someEntities()
      const rows = { text: `select from universe.${table}`, values: [] }
      expect(await failureOf(universe.asService.system(async (tx) => tx.query(rows)))).toMatchObject({
        kind: 'assertion',
      })
      expect(
        await universe.asService.read(universe.assertionOf(newTenant().tenantId), async (tx) => tx.query(rows)),
      ).toEqual([])
      expect(await universe.asService.read(universe.assertionOf(tenantId), async (tx) => tx.query(rows))).toHaveLength(
        own,
      )
    },
  )

  test('an entity cannot be written, or moved, into another tenant', async () => {
    const [mine, theirs] = [(await someEntities()).tenantId, (await someEntities()).tenantId]
    expect(await failureOf(asTenant(mine, insert(theirs, 9)))).toMatchObject({ kind: 'rls' })
    const move = { text: 'update universe.entity set tenant_id = $1, version = version + 1', values: [theirs] }
    expect(await failureOf(asTenant(mine, move))).toMatchObject({ constraint: 'entity_identity_fixed' })
    expect(await asTenant(mine, insert(mine, 9))).toBe(1)
  })

  test("another tenant's entity is no parent: it fails just as one that does not exist", async () => {
    const [mine, theirs] = [await someEntities(), await someEntities()]
    const parent = (await universe.stored(theirs))['A']?.id ?? ''
    const own = (await universe.stored(mine))['A']?.id ?? ''
    const unknown = await failureOf(asTenant(mine.tenantId, insert(mine.tenantId, 9, crypto.randomUUID())))
    expect(unknown).toBeDefined()
    expect(await failureOf(asTenant(mine.tenantId, insert(mine.tenantId, 9, parent)))).toEqual(unknown)
    expect(await asTenant(mine.tenantId, insert(mine.tenantId, 9, own))).toBe(1)
  })

  test('an update without a condition affects only the own tenant', async () => {
    const [mine, theirs] = [await someEntities(), await someEntities()]
    const before = await universe.stored(theirs)
    const rename = { text: "update universe.entity set name = 'x', version = version + 1", values: [] }
    expect(await asTenant(mine.tenantId, rename)).toBe(2)
    expect(await universe.stored(theirs)).toEqual(before)
  })

  test('the service cannot delete an entity', async () => {
    const { tenantId } = await someEntities()
    expect(await failureOf(asTenant(tenantId, { text: 'delete from universe.entity', values: [] }))).toMatchObject({
      kind: 'rls',
    })
  })
})

describe('PostgreSQL has the last word on what an entity is', () => {
  test.each([
    ['a circle', "parent_id = (select id from universe.entity where external_id = 'B')", 'entity_tree_acyclic'],
    ['itself as its parent', 'parent_id = id', 'entity_parent_is_another'],
    ['another number', 'number = number + 50', 'entity_identity_fixed'],
    ['another origin', "created_by_id = 'x'", 'entity_identity_fixed'],
    ['a version that does not count', 'version = version', 'entity_version_counts'],
    ['a status out of turn', "status = 'draft'", 'entity_status_transition'],
    ['a rating without a score', "inherent_rating = 'high'", 'entity_inherent_risk_whole'],
    ['a score beyond 100', "inherent_rating = 'high', inherent_score = 'NaN'", 'entity_inherent_score_range'],
    ['a name of nothing', "name = ''", 'entity_name_length'],
  ])('no one can give an entity %s', async (_what, change, constraint) => {
    const { tenantId } = await someEntities()
    const version = change.startsWith('version') ? '' : ', version = version + 1'
    const statement = { text: `update universe.entity set ${change}${version} where external_id = 'A'`, values: [] }
    expect(await failureOf(asTenant(tenantId, statement))).toMatchObject({ kind: 'check', constraint })
  })

  // What foreign keys would hold, of the owner and the superuser too.
  test('an entity that is needed does not go away, and a path is that of an entity', async () => {
    const { tenantId } = await someEntities()
    const failed = async (text: string): Promise<unknown> =>
      await failureOf(universe.asSuperuser.system(async (tx) => await tx.execute({ text, values: [] })))
    for (const text of [
      `delete from universe.entity where tenant_id = '${tenantId}'`,
      `delete from universe.entity where tenant_id = '${tenantId}' and external_id = 'B'`,
      'truncate universe.entity cascade',
    ]) {
      expect([text, await failed(text)]).toMatchObject([text, { constraint: 'entity_needed' }])
    }
    const nobody = `'${crypto.randomUUID()}'`
    for (const text of [
      `insert into universe.entity_path (tenant_id, entity_id, path) values ('${tenantId}', ${nobody}, '000000ff')`,
      `update universe.entity_path set entity_id = ${nobody} where tenant_id = '${tenantId}' and depth = 2`,
    ]) {
      expect([text, await failed(text)]).toMatchObject([text, { constraint: 'entity_path_of_entity' }])
    }
    expect(Object.keys(await universe.stored({ tenantId, scopes: ['read:universe'] }))).toEqual(['A', 'B'])
  })

  test('an entity and a node that are linked do not go away, and nothing is linked to what is not there', async () => {
    const { tenantId } = await someEntities()
    const tenant = { tenantId, scopes: ['read:universe'] }
    await universe.pushTo(tenant, 'org-structures', legal([node('top', undefined, { entities: ['A'] })]))
    const failed = async (text: string): Promise<unknown> =>
      await failureOf(universe.asSuperuser.system(async (tx) => await tx.execute({ text, values: [] })))
    const nodes = `delete from universe.node where tenant_id = '${tenantId}'`
    expect(await failed(nodes)).toMatchObject({ kind: 'foreign-key', constraint: 'node_needed' })
    expect(await failed('truncate universe.node cascade')).toMatchObject({ constraint: 'node_needed' })
    for (const column of ['node_id', 'entity_id']) {
      const text = `update universe.node_entity set ${column} = uuidv7() where tenant_id = '${tenantId}'`
      expect([text, await failed(text)]).toMatchObject([
        text,
        { kind: 'foreign-key', constraint: 'node_entity_of_both' },
      ])
    }
    expect(await failed(`delete from universe.node_entity where tenant_id = '${tenantId}'`)).toBeUndefined()
    expect(await failed(nodes)).toBeUndefined()
  })

  test('no one can make a tree more than twelve deep', async () => {
    const { tenantId } = newTenant()
    const grow = async (depth: number) =>
      await universe.asService.write(universe.assertionOf(tenantId), async (tx) => {
        let parent: string | null = null
        for (let number = 1; number <= depth; number += 1) {
          const statement = insert(tenantId, number, parent)
          const rows: { id: string }[] = await tx.query({ ...statement, text: `${statement.text} returning id` })
          parent = rows[0]?.id ?? null
        }
      })
    expect(await failureOf(grow(13))).toMatchObject({ constraint: 'entity_tree_depth' })
    await grow(12)
  })
})

test('a page is read from the unique index on the number, without sorting, under row security', async () => {
  const { tenantId } = await someEntities()
  const plan = await universe.asService.write(universe.assertionOf(tenantId), async (tx) => {
    // A table of few rows is always scanned, unless that is forbidden: what is asked is whether the index can serve.
    await tx.execute({ text: 'set local enable_seqscan = off', values: [] })
    await tx.execute({ text: 'set local enable_bitmapscan = off', values: [] })
    return await tx.query<{ 'QUERY PLAN': string }>({
      text: 'explain (costs off) select name from universe.entity where number > 7 order by number limit 10',
      values: [],
    })
  })
  const text = plan.map((line) => line['QUERY PLAN']).join('\n')
  expect(text).toContain('entity_number_unique')
  expect(text).not.toContain('Sort')
})
