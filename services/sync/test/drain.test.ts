import { once } from 'node:events'
import { connectorSchema, runSchema } from '@postern/contracts'
import { createLogger } from '@postern/service-kit'
import { openServers } from '@postern/tenant-db'
import { PgBoss } from 'pg-boss'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { openQueue } from '../src/queue/queue.ts'
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

afterEach(() => {
  vi.restoreAllMocks()
})

afterAll(async () => {
  await source.close()
  await universe.stop()
  await world.close()
})

test('a draining service accepts runs but leaves them to the next one', async () => {
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

test.for([
  { passedMs: 18_500, leftMs: 1_500 },
  { passedMs: 22_000, leftMs: 1_000 },
])('jobs have $leftMs ms left if $passedMs passed since polling stopped', async ({ passedMs, leftMs }) => {
  const logger = createLogger({ service: 'sync', level: 'silent' })
  const queue = openQueue({ servers: openServers(world.database.url('sync')), pollMs: 500, logger })
  let aborted: Promise<unknown> | undefined
  await queue.work(1, {
    run: async (_id, { signal }) => {
      aborted = once(signal, 'abort')
      await aborted
    },
    schedule: async () => undefined,
    lost: async () => undefined,
    scimCorrection: async () => undefined,
  })
  const query = async ({ text, values }: { text: string; values: readonly unknown[] }) => await world.rows(text, values)
  await queue.sendRun({ query }, crypto.randomUUID(), crypto.randomUUID())
  await expect.poll(() => aborted !== undefined).toBe(true)

  const stop = vi.spyOn(PgBoss.prototype, 'stop')
  const clock = vi.spyOn(performance, 'now').mockReturnValue(100_000)
  await queue.stopPolling()
  clock.mockReturnValue(100_000 + passedMs)
  const closed = queue.close()
  await expect.poll(() => stop.mock.calls).toEqual([[{ graceful: true, timeout: leftMs }]])
  await closed
  await aborted
})
