import { randomUUID } from 'node:crypto'
import { connectorSchema } from '@postern/contracts'
import { queueSchema } from '@postern/contracts/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { admin, makeWorld } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let sync: Awaited<ReturnType<typeof world.startSync>>

beforeAll(async () => {
  world = await makeWorld()
  sync = await world.startSync('http://127.0.0.1:9', { POSTERN_SYNC_WORKERS: '0' })
})

afterAll(async () => {
  await sync.close()
  await world.close()
})

async function read(url: string, series: string): Promise<number> {
  const text = await (await fetch(`${url}/internal/metrics`)).text()
  return Number(
    text
      .split('\n')
      .find((line) => line.startsWith(series))
      ?.split(' ')
      .at(-1),
  )
}

test('metrics show how many runs wait, for how long, and how runs end', async () => {
  expect(await read(sync.url, 'postern_sync_queue_waiting')).toBe(0)
  expect(await read(sync.url, 'postern_sync_queue_oldest_seconds')).toBe(0)
  const caller = world.syncCaller(sync.url)
  const tenant = admin()
  const body = { key: `c-${randomUUID()}`, name: 'Spreadsheet', type: 'csv', dataset: 'auditable_entities' }
  const { id } = connectorSchema.parse((await caller.call(tenant, 'POST', '/api/v1/connectors', { body })).json)
  const headers = { 'content-type': 'text/csv' }
  const upload = { body: 'no such column\n1\n', headers }
  expect((await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/runs`, upload)).status).toBe(202)
  expect(await read(sync.url, 'postern_sync_queue_waiting')).toBe(1)
  await expect.poll(async () => await read(sync.url, 'postern_sync_queue_oldest_seconds')).toBeGreaterThan(0)
  const universe = await world.spawnUniverse()
  const worker = await world.startSync(universe.url)
  try {
    await expect.poll(async () => await read(worker.url, 'postern_sync_runs_total{outcome="failed"')).toBe(1)
    expect(await read(worker.url, 'postern_sync_queue_waiting')).toBe(0)
    expect(await read(worker.url, 'postern_database_connections_max{pool="workers"')).toBeGreaterThan(0)
  } finally {
    await worker.close()
    await universe.stop()
  }
})

test('a service whose queue has not started is not ready and rejects runs', async () => {
  await world.rows(`alter schema ${queueSchema} rename to queue_away`)
  const waiting = await world.startSync('http://127.0.0.1:9')
  const isReady = async (): Promise<[number, unknown]> => {
    const answer = await fetch(`${waiting.url}/internal/health/ready`)
    return [answer.status, await answer.json()]
  }
  try {
    expect(await isReady()).toEqual([503, { status: 'unavailable', reason: 'QueueNotStartedError' }])
    const caller = world.syncCaller(waiting.url)
    const tenant = admin()
    const body = { key: `c-${randomUUID()}`, name: 'Spreadsheet', type: 'csv', dataset: 'auditable_entities' }
    const { id } = connectorSchema.parse((await caller.call(tenant, 'POST', '/api/v1/connectors', { body })).json)
    const upload = { body: 'external_id,name,type\n', headers: { 'content-type': 'text/csv' } }
    const refused = await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/runs`, upload)
    expect([refused.status, refused.headers['retry-after']]).toEqual([503, '5'])
    expect(refused.text).toContain('service_unavailable')
    await world.rows(`alter schema queue_away rename to ${queueSchema}`)
    await expect
      .poll(isReady, { timeout: 60_000, interval: 100 })
      .toEqual([200, { status: 'ok', database: expect.any(String) }])
    expect((await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/runs`, upload)).status).toBe(202)
  } finally {
    await waiting.close()
  }
}, 120_000)
