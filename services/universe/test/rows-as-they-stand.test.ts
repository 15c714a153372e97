import { type CurrentRowsBody, currentRowsAnswerSchema } from '@postern/contracts/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readPart } from '../src/current-rows/parts.ts'
import { listCurrentRows } from '../src/current-rows/store.ts'
import { type Principal, type UniverseUnderTest, legal, newTenant, node, row, startUniverse } from './service.ts'

let universe: UniverseUnderTest
beforeAll(async () => {
  universe = await startUniverse()
})
afterAll(async () => await universe.close())

type Dataset = CurrentRowsBody['dataset']
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
    const rows = await listCurrentRows(tx, { dataset, keys: [...keys], ...hierarchy }, 16 * 1024 * 1024)
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

/** Asks as the sync service does. Returns the status, the number of rows and the number of keys that they cover. */
async function askFor(tenant: Principal, keys: readonly string[], more: object = {}) {
  const answer = await universe.pushTo(tenant, 'current-rows', {
    run_id: undefined,
    dataset: 'test_procedures',
    keys,
    ...more,
  })
  const { rows, reached } = currentRowsAnswerSchema.parse(answer.json)
  return { keys: rows.map(({ key }) => key), reached, bytes: answer.text.length }
}

test.each([{}, { behind_pushes: true }])(
  'rows with long texts are returned in parts, in the order of the keys (%j)',
  async (more) => {
    const tenant = newTenant()
    const keys = keysOf(600)
    const long = 'x'.repeat(20_000)
    for (const some of [keys.slice(0, 300), keys.slice(300)]) {
      const test_procedures = some.map((key) => ({
        external_id: key,
        title: key,
        objective: long,
        procedure_text: long,
      }))
      expect(await universe.pushTo(tenant, 'test-procedures', { run_id: runId, test_procedures })).toMatchObject({
        status: 200,
      })
    }
    const told: string[] = []
    let asked = 0
    for (let from = 0; from < keys.length; asked += 1) {
      const part = await askFor(tenant, keys.slice(from), more)
      expect(part.bytes).toBeLessThan(24 * 1024 * 1024)
      expect(part.keys.toSorted()).toEqual(keys.slice(from, from + part.reached).toSorted())
      told.push(...part.keys)
      from += part.reached
    }
    expect(asked).toBeGreaterThan(1)
    expect(told).toHaveLength(keys.length)
  },
)

test('short rows are returned at once, and unknown keys are covered too', async () => {
  const tenant = newTenant()
  await pushMany(tenant, 'test_procedures', 1000)
  const { keys, reached } = await askFor(tenant, [...keysOf(1000), 'nobody'])
  expect([keys.length, reached]).toEqual([1000, 1001])
})

test('rows that are too long for one response are returned one at a time, and a row that never fits is an error', async () => {
  class ResultTooLargeError extends Error {
    override readonly name = 'ResultTooLargeError'
  }
  const sizes: number[] = []
  const upTo =
    (most: number, text = '{}') =>
    async (keys: readonly string[]) => {
      sizes.push(keys.length)
      if (keys.length > most) throw new ResultTooLargeError('more')
      return keys.map(() => text)
    }
  const long = 'x'.repeat(9_000_000)
  expect(await readPart(keysOf(5000), upTo(1, long))).toEqual({ rows: [long], reached: 1 })
  await expect(readPart(keysOf(3), upTo(0))).rejects.toThrow('more')
  sizes.length = 0
  expect((await readPart(keysOf(5000), upTo(5000))).reached).toBe(5000)
  expect(sizes.length).toBeLessThan(4)
})
