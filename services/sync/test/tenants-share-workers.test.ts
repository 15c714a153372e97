import type { ServerResponse } from 'node:http'
import { connectorSchema, runSchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type SourceServer, startSourceServer } from './source-server.ts'
import { admin, makeWorld, spawnSync } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let universe: Awaited<ReturnType<typeof world.spawnUniverse>>
let source: SourceServer
let sync: Awaited<ReturnType<typeof spawnSync>>
/** Requests to a source that never answers. */
const held: ServerResponse[] = []

beforeAll(async () => {
  world = await makeWorld()
  universe = await world.spawnUniverse()
  source = await startSourceServer({
    '/held': (_request, response) => {
      response.write('[')
      held.push(response)
    },
    '/good': (_request, response) =>
      void response.end(JSON.stringify([{ external_id: 'E1', name: 'Good', type: 'process' }])),
  })
  sync = await spawnSync({
    ...world.syncEnvironment(universe.url),
    POSTERN_SYNC_NETWORKS: '127.0.0.0/8',
    POSTERN_SYNC_WORKERS: '2',
  })
})

afterAll(async () => {
  sync.kill()
  await source.close()
  await universe.stop()
  await world.close()
})

async function begin(tenant: Principal, key: string, path: string) {
  const caller = world.syncCaller(sync.url)
  const config = { url: `http://127.0.0.1:${source.port}${path}` }
  const body = { key, name: 'Source', type: 'http_json', dataset: 'auditable_entities', config }
  const { id } = connectorSchema.parse((await caller.call(tenant, 'POST', '/api/v1/connectors', { body })).json)
  const run = runSchema.parse((await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/runs`)).json)
  const status = async () =>
    runSchema.parse((await caller.call(tenant, 'GET', `/api/v1/sync-runs/${run.id}`)).json).status
  const cancel = async () => (await caller.call(tenant, 'POST', `/api/v1/sync-runs/${run.id}/cancel`)).status
  return { run, status, cancel }
}

async function until(holds: () => Promise<void> | void): Promise<void> {
  await vi.waitFor(holds, { timeout: 60_000, interval: 100 })
}

test('slow sources of a tenant delay only its own runs', async () => {
  const [slow, other] = [admin(), admin()]
  const first = await begin(slow, 'first', '/held')
  await until(() => expect(held).toHaveLength(1))
  const second = await begin(slow, 'second', '/held')
  const good = await begin(other, 'good', '/good')
  await until(async () => expect(await good.status()).toBe('succeeded'))
  expect([await first.status(), await second.status(), held.length]).toEqual(['fetching', 'queued', 1])
  // The place of the one is for the other then.
  expect(await first.cancel()).toBe(202)
  await until(async () => expect([await first.status(), held.length]).toEqual(['cancelled', 2]))
  expect(await second.cancel()).toBe(202)
  await until(async () => expect(await second.status()).toBe('cancelled'))
})
