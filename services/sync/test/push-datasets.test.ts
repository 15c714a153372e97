import {
  connectorSchema,
  problemSchema,
  pushResultSchema,
  sentEntitySchema,
  sentNodeSchema,
  sentPersonSchema,
  sentTestProcedureSchema,
} from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { admin, makeWorld, row } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let universe: Awaited<ReturnType<typeof world.spawnUniverse>>
let sync: Awaited<ReturnType<typeof world.startSync>>
let caller: ReturnType<typeof world.syncCaller>
beforeAll(async () => {
  world = await makeWorld()
  universe = await world.spawnUniverse()
  sync = await world.startSync(universe.url)
  caller = world.syncCaller(sync.url)
})
afterAll(async () => {
  await sync.close()
  await universe.stop()
  await world.close()
})

type Principal = ReturnType<typeof admin>
const post = async (principal: Principal, dataset: string, body: unknown) =>
  await caller.call(principal, 'POST', `/api/v1/sync/${dataset}`, { body })
const readUniverse = async ({ tenantId }: Principal, target: string) =>
  await world.universeCaller(universe.url).call({ tenantId, scopes: ['read:universe'] }, 'GET', `/api/v1/${target}`)
const runsOf = async ({ tenantId }: Principal) =>
  await world.rows('select id, status, failure, deactivated_count from sync.run where tenant_id = $1 order by id', [
    tenantId,
  ])

const node = (node_key: string, given: object = {}) => ({ node_key, name: node_key, ...given })
const hierarchy = (nodes: readonly object[], given: object = {}) => ({
  name: 'Legal',
  kind: 'legal_entity',
  mode: 'full',
  nodes,
  ...given,
})

const datasets = [
  {
    dataset: 'org-structures/legal',
    good: hierarchy([node('a')]),
    bad: hierarchy([node('a'), node('b', { parent_key: 'nobody' })]),
    pointer: '/nodes/1/parent_key',
    malformed: hierarchy([node('a', { name: '' })]),
    malformedPointer: '/nodes/0/name',
    list: 'hierarchies/legal/nodes',
    connector: 'inline-org-structures',
  },
  {
    dataset: 'test-procedures',
    good: [{ external_id: 'T', title: 'Test' }],
    bad: [
      { external_id: 'T', title: 'Test' },
      { external_id: 'U', title: 'Test', entities: ['nobody'] },
    ],
    pointer: '/1/entities/0',
    malformed: [{ external_id: 'T', title: 'Test', evidence: [] }],
    malformedPointer: '/0/evidence',
    list: 'test-procedures',
    connector: 'inline-test-procedures',
  },
  {
    dataset: 'people',
    good: [{ external_id: 'P', name: 'Ada' }],
    bad: [
      { external_id: 'P', name: 'Ada', email: 'ada@example.com' },
      { external_id: 'Q', name: 'Bo', email: 'ADA@example.com' },
    ],
    pointer: '/1/email',
    malformed: [{ external_id: 'P', name: 'Ada', active: 'False' }],
    malformedPointer: '/0/active',
    list: 'people',
    connector: 'inline-people',
  },
] as const

const rowSchemas = [
  { dataset: 'entities', schema: sentEntitySchema, rows: [row()], list: 'entities' },
  ...datasets.map(({ dataset, good, list }) => ({
    dataset,
    schema: {
      people: sentPersonSchema,
      'test-procedures': sentTestProcedureSchema,
      'org-structures/legal': sentNodeSchema,
    }[dataset],
    rows: 'nodes' in good ? good.nodes : good,
    list,
  })),
]

test.each(rowSchemas)('a row of $dataset can be pushed as it was read, with its nulls', async (each) => {
  const { dataset, schema, rows, list } = each
  const principal = admin()
  const push = async (sent: readonly object[]) =>
    await post(principal, dataset, dataset === 'org-structures/legal' ? hierarchy(sent) : sent)
  expect((await push(rows)).status).toBe(200)
  const read = await readUniverse(principal, list)
  const [resource = {}] = z.array(z.record(z.string(), z.unknown())).parse(read.json)
  const same = Object.fromEntries(Object.entries(resource).filter(([name]) => name in schema.shape))
  expect(Object.values(same)).toContain(null)
  const nameless = await push([{ ...same, [dataset === 'test-procedures' ? 'title' : 'name']: null }])
  expect([nameless.status, nameless.text]).toEqual([422, expect.stringMatching(/\/(?:name|title)"/)])
  const pushed = await push([same])
  expect([pushed.status, pushed.text]).toEqual([200, expect.stringContaining('"unchanged":1')])
  expect((await readUniverse(principal, list)).text).toBe(read.text)
})

describe.each(datasets)(
  'a push to $dataset',
  ({ dataset, good, bad, pointer, malformed, malformedPointer, list, connector }) => {
    test.each(['read:universe', 'read:findings', 'write:findings', 'write:evidence'])(
      'is refused with the scope %s',
      async (scope) => {
        const answer = await post({ ...admin(), scopes: [scope] }, dataset, good)
        expect([answer.status, answer.json]).toMatchObject([403, { required_scope: 'admin:sync' }])
      },
    )

    test('is rejected if it is not valid, before anything is recorded', async () => {
      const principal = admin()
      const answer = await post(principal, dataset, malformed)
      expect(answer.status).toBe(422)
      expect(problemSchema.parse(answer.json).errors?.map((error) => error.pointer)).toEqual([malformedPointer])
      expect(await runsOf(principal)).toEqual([])
    })

    test('is rejected if the universe rejects it, with the position in the request', async () => {
      const principal = admin()
      const answer = await post(principal, dataset, bad)
      expect(answer.status).toBe(422)
      expect(problemSchema.parse(answer.json).errors?.map((error) => error.pointer)).toEqual([pointer])
      expect(await runsOf(principal)).toMatchObject([{ status: 'failed', failure: 'refused' }])
    })

    test('changes only the universe of its tenant, and a repetition changes nothing', async () => {
      const [principal, other] = [admin(), admin()]
      const first = pushResultSchema.parse((await post(principal, dataset, good)).json)
      expect(first).toMatchObject({ status: 'succeeded', counts: { fetched: 1, created: 1, updated: 0, unchanged: 0 } })
      const again = pushResultSchema.parse((await post(principal, dataset, good)).json)
      expect(again.counts).toMatchObject({ fetched: 1, created: 0, updated: 0, unchanged: 1 })
      expect(z.array(z.unknown()).parse((await readUniverse(principal, list)).json)).toHaveLength(1)
      expect((await readUniverse(other, list)).text).not.toContain('"id"')
      expect(await runsOf(principal)).toMatchObject([
        { id: first.run_id, status: 'succeeded' },
        { status: 'succeeded' },
      ])
    })

    test('has a connector of its own', async () => {
      const principal = admin()
      await caller.call(principal, 'POST', '/api/v1/sync/entities', { body: [row()] })
      await post(principal, dataset, good)
      const connectors = z
        .array(connectorSchema)
        .parse((await caller.call(principal, 'GET', '/api/v1/connectors')).json)
      expect(connectors.map(({ key }) => key)).toEqual(['inline', connector])
    })
  },
)

describe('a push of a hierarchy', () => {
  test.each(['Legal', 'a b', 'x'.repeat(65)])('is answered 404 under an invalid key: %s', async (key) => {
    const answer = await post(admin(), `org-structures/${encodeURIComponent(key)}`, hierarchy([node('a')]))
    expect(answer.status).toBe(404)
  })

  test('reports how many nodes it has made inactive, also in the run', async () => {
    const principal = admin()
    await post(principal, 'org-structures/legal', hierarchy([node('a'), node('b'), node('c')]))
    const answer = await post(principal, 'org-structures/legal', hierarchy([node('a')]))
    expect(pushResultSchema.parse(answer.json).counts).toEqual({
      fetched: 1,
      created: 0,
      updated: 0,
      unchanged: 1,
      deactivated: 2,
    })
    expect((await runsOf(principal)).map((run) => run['deactivated_count'])).toEqual([0, 2])
  })
})
