import { randomUUID } from 'node:crypto'
import { connectorSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { admin, makeWorld } from './support.ts'

// What is asked here comes to no worker, and to no universe.
const nowhere = 'http://127.0.0.1:9'
let world: Awaited<ReturnType<typeof makeWorld>>
let sync: Awaited<ReturnType<typeof world.startSync>>
let caller: SignedCaller

beforeAll(async () => {
  world = await makeWorld()
  sync = await world.startSync(nowhere, { POSTERN_SYNC_WORKERS: '0' })
  caller = world.syncCaller(sync.url)
})
afterAll(async () => {
  await sync.close()
  await world.close()
})

async function create(tenant: Principal, config: object = {}): Promise<string> {
  const body = { key: `c-${randomUUID()}`, name: 'Table', type: 'csv', dataset: 'auditable_entities', config }
  return connectorSchema.parse((await caller.call(tenant, 'POST', '/api/v1/connectors', { body })).json).id
}

const header = 'external_id,name,type\n'
const line = 'E1,Treasury,department\n'
const mebibyte = 1024 * 1024

test.each([0.05, 1, 20])('a connector is tested with the first rows of a file of %d MiB', async (size) => {
  const tenant = admin()
  const id = await create(tenant)
  const body = header + line.repeat(Math.ceil((size * mebibyte) / line.length))
  for (let times = 0; times < 2; times += 1) {
    const answer = await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/test`, { body })
    expect(answer.status).toBe(200)
    expect(answer.json).toMatchObject({ rows: expect.objectContaining({ length: 20 }) })
  }
})

test('a large file that is not a table is rejected with a reason', async () => {
  const tenant = admin()
  const id = await create(tenant)
  const json = `[${'{"id":1},'.repeat(mebibyte / 4)}{}]`
  const answer = await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/test`, { body: Buffer.from(json) })
  expect(answer).toMatchObject({ status: 422, json: { errors: [{ code: 'not_a_table' }] } })
})

test('a large file for a connector that fetches its source is rejected with a reason', async () => {
  const tenant = admin()
  const id = await create(tenant, { url: 'https://files.example/table.csv' })
  const body = header + line.repeat(mebibyte / 8)
  const answer = await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/runs`, { body })
  expect(answer).toMatchObject({ status: 422, json: { errors: [{ code: 'unknown' }] } })
})
