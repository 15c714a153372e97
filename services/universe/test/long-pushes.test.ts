import { type CreatedBy, testProcedureSchema } from '@postern/contracts'
import type { Statement, Tx } from '@postern/tenant-db'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { writeTestProcedures, lockTestProcedures } from '../src/push-test-procedures/store.ts'
import { applyIdentified, identify, lockTree } from '../src/push/store.ts'
import { type Principal, type UniverseUnderTest, newTenant, nextOf, row, startUniverse } from './service.ts'

let universe: UniverseUnderTest
beforeAll(async () => {
  // Statements take as long as the machine needs: what they write is judged, not their speed.
  universe = await startUniverse()
})
afterAll(async () => await universe.close())

const keys = Array.from({ length: 500 }, (_, at) => `E${at}`)
const long = 'x'.repeat(20_000)
const connector: CreatedBy = { type: 'connector', id: 'c', label: 'Nightly' }

async function pushEntities(tx: Tx, name: string): Promise<number> {
  const lastNumber = await lockTree(tx)
  const identities = await identify(tx, keys)
  const rows = identities.map((identity, at) => ({
    entity: { external_id: keys[at] ?? '', name, type: 'process', status: 'active', description: long } as const,
    identity,
    parentId: undefined,
  }))
  const { created, updated } = await applyIdentified(tx, rows, lastNumber, connector)
  return created + updated
}

async function pushTestProcedures(tx: Tx, title: string): Promise<number> {
  await lockTestProcedures(tx)
  const texts = { objective: long, procedure_text: long, status: 'not_started' } as const
  const rows = keys.map((key) => ({ external_id: key, title, entities: [], ...texts }))
  const { created, updated } = await writeTestProcedures(tx, rows, connector)
  return created + updated
}

/** How many bytes PostgreSQL has written to files beside the tables, in transactions that have told of it. */
async function bytesInFiles(): Promise<bigint> {
  const [counted] = await universe.asSuperuser.system(
    async (tx) =>
      await tx.query<{ bytes: string }>({
        text: 'select temp_bytes::text as bytes from pg_stat_database where datname = current_database()',
        values: [],
      }),
  )
  return BigInt(counted?.bytes ?? '-1')
}

test.each([
  ['entities', pushEntities],
  ['test procedures', pushTestProcedures],
] as const)('%s with long texts are made and changed without a file on the way', async (_, push) => {
  const before = await bytesInFiles()
  const { tenantId } = newTenant()
  for (const name of ['As it is', 'As it became']) {
    const written = await universe.asService.write(universe.assertionOf(tenantId), async (tx) => {
      const count = await push(tx, name)
      await tx.query({ text: 'select pg_stat_force_next_flush()::text', values: [] })
      return count
    })
    expect(written).toBe(keys.length)
  }
  expect((await bytesInFiles()) - before).toBe(0n)
})

const procedures = (given: (at: number) => object = () => ({})): object => ({
  test_procedures: keys.map((key, at) => ({
    external_id: key,
    title: key,
    objective: long,
    procedure_text: long,
    ...given(at),
  })),
})

async function keysByNumber(tenant: Principal): Promise<string[]> {
  const found: { external_id: string; number: number }[] = []
  for (let next: string | undefined = '/api/v1/test-procedures?limit=1000'; next !== undefined;) {
    const answer = await universe.gateway.call(tenant, 'GET', next)
    expect(answer).toMatchObject({ status: 200 })
    for (const { external_id, reference } of z.array(testProcedureSchema).parse(answer.json))
      found.push({ external_id, number: Number(reference.slice('TP-'.length)) })
    next = nextOf(answer.headers['link'])
  }
  return found.toSorted((one, other) => one.number - other.number).map(({ external_id }) => external_id)
}

test('a push of 20 MB of test procedures is one: numbered in its order, told in one sum, and taken in whole or not at all', async () => {
  const tenant = newTenant()
  const push = async (body: object) => await universe.pushTo(tenant, 'test-procedures', body)
  expect((await push(procedures((at) => (at === 499 ? { entities: ['nowhere'] } : {})))).status).toBe(422)
  expect(await keysByNumber(tenant)).toEqual([])
  expect((await push(procedures())).json).toEqual({ created: 500, updated: 0, unchanged: 0 })
  expect(await keysByNumber(tenant)).toEqual(keys)
  const tenth = procedures((at) => (at % 10 === 0 ? { title: 'Another' } : {}))
  expect((await push(tenth)).json).toEqual({ created: 0, updated: 50, unchanged: 450 })
  expect((await push(tenth)).json).toEqual({ created: 0, updated: 0, unchanged: 500 })
})

test.each([
  ['above', (at: number) => (at === 0 ? undefined : 'E0')],
  ['below', (at: number) => (at === 499 ? undefined : 'E499')],
])('10 MB of entities are placed, also where what they hang under stands far %s them', async (_, above) => {
  const tenant = newTenant()
  const rows = keys.map((key, at) => row(key, { parent_external_id: above(at), description: long }))
  expect((await universe.push(tenant, rows)).json).toEqual({ created: 500, updated: 0, unchanged: 0 })
  const depths = await universe.asSuperuser.system(
    async (tx) =>
      await tx.query<{ depth: number; count: string }>({
        text: `select depth, count(*)::text as count from universe.entity_path where tenant_id = $1 group by depth order by depth`,
        values: [tenant.tenantId],
      }),
  )
  expect(depths).toEqual([
    { depth: 1, count: '1' },
    { depth: 2, count: '499' },
  ])
})

/** Entities with hashes of a source, without their paths: nothing here moves them. */
async function manyEntities(count: number): Promise<string> {
  const { tenantId } = newTenant()
  await universe.asSuperuser.system(async (tx) => {
    await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
    await tx.execute({
      text: `insert into universe.entity
          (tenant_id, number, external_id, name, type, status, created_by_type, created_by_id, created_by_label)
        select $1, n, 'E' || n, 'Entity', 'process', 'active', 'connector', 'c', 'l' from generate_series(1, $2::integer) as n`,
      values: [tenantId, count],
    })
    await tx.execute({
      text: `insert into universe.source_row (tenant_id, scope, source_key, connector_id, hash)
        select $1, 'auditable_entities', 'E' || n, 'c', '' from generate_series(1, $2::integer) as n`,
      values: [tenantId, count],
    })
  })
  return tenantId
}

function change(where: string): Statement {
  return { text: `update universe.entity set name = 'Changed', version = version + 1 where ${where}`, values: [] }
}

test('a change of many entities takes no longer because the connection changed a single one before', async () => {
  const count = 20_000
  const tenantId = await manyEntities(count)
  const changed = await universe.asService.write(universe.assertionOf(tenantId), async (tx) => {
    // Triggers that compare each row with each other one need minutes.
    await tx.execute({ text: "set local statement_timeout = '20s'", values: [] })
    return [await tx.execute(change('number = 1')), await tx.execute(change('number > 1'))]
  })
  expect(changed).toEqual([1, count - 1])
  const hashed = { text: 'select from universe.source_row where hash is not null', values: [] }
  expect(await universe.asService.read(universe.assertionOf(tenantId), async (tx) => await tx.query(hashed))).toEqual(
    [],
  )
})
