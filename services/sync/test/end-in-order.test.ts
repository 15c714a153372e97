import { connectorSchema, runSchema } from '@postern/contracts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type SourceServer, startSourceServer } from './source-server.ts'
import { admin, makeWorld } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let universe: Awaited<ReturnType<typeof world.spawnUniverse>>
let source: SourceServer

beforeAll(async () => {
  world = await makeWorld()
  universe = await world.spawnUniverse()
  source = await startSourceServer({
    '/good': (_request, response) =>
      void response.end(JSON.stringify([{ external_id: 'E1', name: 'Good', type: 'process' }])),
  })
})

afterAll(async () => {
  await source.close()
  await universe.stop()
  await world.close()
})

test('a service that drains takes runs in and carries none out: the next one does', async () => {
  const settings = { POSTERN_SYNC_NETWORKS: '127.0.0.0/8', POSTERN_DRAIN_MS: '4000' }
  const ending = await world.startSync(universe.url, settings)
  const tenant = admin()
  const caller = world.syncCaller(ending.url)
  const config = { url: `http://127.0.0.1:${source.port}/good` }
  const body = { key: 'good', name: 'Source', type: 'http_json', dataset: 'auditable_entities', config }
  const { id } = connectorSchema.parse((await caller.call(tenant, 'POST', '/api/v1/connectors', { body })).json)
  const begin = async () => runSchema.parse((await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/runs`)).json)
  const statusOf = async (run: string) => await world.rows('select status from sync.run where id = $1', [run])
  const before = await begin()
  await expect.poll(async () => await statusOf(before.id), { timeout: 60_000 }).toEqual([{ status: 'succeeded' }])

  const ended = ending.close()
  await expect.poll(async () => (await fetch(`${ending.url}/internal/health/ready`)).status).toBe(503)
  const run = await begin()
  await ended
  expect(await statusOf(run.id)).toEqual([{ status: 'queued' }])
  const next = await world.startSync(universe.url, { ...settings, POSTERN_DRAIN_MS: '0' })
  await expect.poll(async () => await statusOf(run.id), { timeout: 60_000 }).toEqual([{ status: 'succeeded' }])
  await next.close()
})
