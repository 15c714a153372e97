import type { Connector } from '@postern/contracts'
import { currentRowsAnswerSchema } from '@postern/contracts/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { listCurrentRows } from '../src/current-rows/store.ts'
import { type Principal, type UniverseUnderTest, legal, newTenant, node, row, startUniverse } from './service.ts'

let universe: UniverseUnderTest
beforeAll(async () => {
  universe = await startUniverse()
})
afterAll(async () => await universe.close())

type Dataset = Connector['dataset']
const keysOf = (count: number) => Array.from({ length: count }, (_, at) => `E${at}`)
const above = (at: number): string | undefined => (at === 0 ? undefined : `E${Math.floor((at - 1) / 8)}`)
const runId = crypto.randomUUID()

/** Pushes so many rows, each in the place of its key. */
async function pushMany(tenant: Principal, dataset: Dataset, count: number): Promise<void> {
  const keys = keysOf(count)
  const to = async (path: string, body: object) => await universe.pushTo(tenant, path, { run_id: runId, ...body })
  const pushes = {
    auditable_entities: async () =>
      await universe.push(
        tenant,
        keys.map((key, at) => row(key, { parent_external_id: above(at) })),
      ),
    org_structure: async () => await to('org-structures', legal(keys.map((key, at) => node(key, above(at))))),
    test_procedures: async () =>
      await to('test-procedures', { test_procedures: keys.map((key) => ({ external_id: key, title: key })) }),
    people: async () => await to('people', { people: keys.map((key) => ({ external_id: key, name: key })) }),
  }
  expect((await pushes[dataset]()).status).toBe(200)
}

/** How many rows are given, and how many entries of indexes are read for each. */
async function read({ tenantId }: Principal, dataset: Dataset, keys: readonly string[]) {
  return await universe.asService.write(universe.assertionOf(tenantId), async (tx) => {
    const count = async (): Promise<number> => {
      const [found] = await tx.query<{ entries: number }>({
        text: `select sum(pg_stat_get_xact_tuples_returned(oid))::integer as entries
          from pg_class where relnamespace = 'universe'::regnamespace`,
        values: [],
      })
      return found?.entries ?? Infinity
    }
    const before = await count()
    const hierarchy = dataset === 'org_structure' ? { hierarchy: 'legal' } : {}
    const rows = await listCurrentRows(tx, { dataset, keys, ...hierarchy })
    return { rows: rows.length, each: ((await count()) - before) / keys.length }
  })
}

test.each(['auditable_entities', 'org_structure', 'test_procedures', 'people'] as const)(
  'each row of %s is looked up by its key, even with a plan from when the table was small',
  async (dataset) => {
    const [few, many] = [newTenant(), newTenant()]
    await pushMany(few, dataset, 3)
    // PostgreSQL keeps the plan of the sixth time.
    for (let time = 1; time <= 6; time += 1) expect((await read(few, dataset, keysOf(4))).rows).toBe(3)
    await pushMany(many, dataset, 1000)
    const { rows, each } = await read(many, dataset, keysOf(1000))
    expect(rows).toBe(1000)
    expect(each).toBeLessThan(10)
  },
)

test.each([{}, { behind_pushes: true }])(
  'the sync service gets the rows that are stored, and no others (%j)',
  async (more) => {
    const tenant = newTenant()
    await pushMany(tenant, 'people', 2)
    const body = { run_id: undefined, dataset: 'people', keys: ['E0', 'nobody'], ...more }
    const answer = await universe.pushTo(tenant, 'current-rows', body)
    expect(currentRowsAnswerSchema.parse(answer.json).rows).toEqual([
      { key: 'E0', row: { external_id: 'E0', name: 'E0', active: true } },
    ])
  },
)
