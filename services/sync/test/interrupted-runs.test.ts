import type { ServerResponse } from 'node:http'
import { type Run, connectorSchema, runSchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type SourceServer, startSourceServer } from './source-server.ts'
import { admin, makeWorld, spawnSync } from './support.ts'

type Process = Awaited<ReturnType<typeof spawnSync>>
let world: Awaited<ReturnType<typeof makeWorld>>
let universe: Awaited<ReturnType<typeof world.spawnUniverse>>
let source: SourceServer
let first: Process
/** What each source answers, by its path; a test puts its own there. */
const answers: Record<string, (response: ServerResponse) => void> = {}

beforeAll(async () => {
  world = await makeWorld()
  universe = await world.spawnUniverse()
  const paths = ['/failing', '/slow', '/frozen']
  source = await startSourceServer(
    Object.fromEntries(paths.map((path) => [path, (_request, response) => answers[path]?.(response)])),
  )
  first = await start()
})

afterAll(async () => {
  first.kill()
  await source.close()
  await universe.stop()
  await world.close()
})

async function start(): Promise<Process> {
  return await spawnSync({
    ...world.syncEnvironment(universe.url),
    POSTERN_SYNC_NETWORKS: '127.0.0.0/8',
    POSTERN_SYNC_WORKERS: '4',
  })
}

const rowsOf = (name: string) => JSON.stringify([{ external_id: 'E1', name, type: 'process' }])

async function begin(tenant: Principal, path: string): Promise<{ run: Run; now: () => Promise<Run> }> {
  const caller = world.syncCaller(first.url)
  const config = { url: `http://127.0.0.1:${source.port}${path}` }
  const body = { key: 'source', name: 'Source', type: 'http_json', dataset: 'auditable_entities', config }
  const made = connectorSchema.parse((await caller.call(tenant, 'POST', '/api/v1/connectors', { body })).json)
  const run = runSchema.parse((await caller.call(tenant, 'POST', `/api/v1/connectors/${made.id}/runs`)).json)
  const now = async () => runSchema.parse((await caller.call(tenant, 'GET', `/api/v1/sync-runs/${run.id}`)).json)
  return { run, now }
}

async function until(found: () => Promise<Run>, wanted: object): Promise<Run> {
  return await vi.waitFor(
    async () => {
      const run = await found()
      expect(run).toMatchObject(wanted)
      return run
    },
    { timeout: 90_000, interval: 100 },
  )
}

async function entities(tenant: Principal): Promise<unknown[]> {
  return await world.rows('select name, version from universe.entity where tenant_id = $1', [tenant.tenantId])
}

const jobOf = `select state::text, retry_count, output ->> 'message' as said, output::text as whole, extract(epoch from start_after - now())::float as waits
  from queue.job where name = 'sync-run' and data ->> 'id' = $1`

test('a source that fails is read again later and later, until it works', async () => {
  const tenant = admin()
  let attempts = 0
  answers['/failing'] = (response) => {
    attempts += 1
    response.writeHead(500).end()
  }
  const { run, now } = await begin(tenant, '/failing')
  const waits: number[] = []
  for (const attempt of [1, 4]) {
    const job = await vi.waitFor(
      async () => {
        const [found] = await world.rows(jobOf, [run.id])
        expect(found).toMatchObject({ state: 'retry', retry_count: attempt, said: 'the attempt has failed' })
        return found
      },
      { timeout: 90_000, interval: 100 },
    )
    waits.push(Number(job?.['waits']))
    expect((await now()).finished_at).toBeNull()
    // As if two more attempts had failed: what chance takes off cannot hide how much longer it waits then.
    if (attempt === 1) await world.rows(`update queue.job set retry_count = 3 where data ->> 'id' = $1`, [run.id])
    if (attempt === 4) answers['/failing'] = (response) => void response.end(rowsOf('Works'))
    await world.rows(`update queue.job set start_after = now() where data ->> 'id' = $1`, [run.id])
  }
  expect(await until(now, { status: 'succeeded' })).toMatchObject({ counts: { created: 1, applied: 1 } })
  expect(await entities(tenant)).toEqual([{ name: 'Works', version: 1 }])
  expect((await now()).attempt).toBeGreaterThanOrEqual(3)
  expect(attempts).toBeGreaterThanOrEqual(2)
  // Delays double, with some random reduction.
  const [soon = 0, later = 0] = waits
  expect(later).toBeGreaterThan(soon * 1.5)
})

test('a run that is cancelled while its source is silent ends, closes the source and applies nothing', async () => {
  const tenant = admin()
  const { promise: asked, resolve } = Promise.withResolvers<ServerResponse>()
  answers['/slow'] = (response) => resolve(response)
  const { run, now } = await begin(tenant, '/slow')
  const held = await asked
  const letGo = new Promise((gone) => held.on('close', () => gone(held.writableFinished)))
  held.write('[')
  const answer = await world.syncCaller(first.url).call(tenant, 'POST', `/api/v1/sync-runs/${run.id}/cancel`)
  expect([answer.status, answer.json]).toMatchObject([202, { status: 'fetching', finished_at: null }])
  expect(await until(now, { status: 'cancelled' })).toMatchObject({ counts: { applied: 0 } })
  expect(await letGo).toBe(false)
  expect(await entities(tenant)).toEqual([])
  const again = await world.syncCaller(first.url).call(tenant, 'POST', `/api/v1/sync-runs/${run.id}/cancel`)
  expect(again.status).toBe(409)
})

test('a run is followed to its end, by its own tenant', async () => {
  const tenant = admin()
  const { promise: asked, resolve } = Promise.withResolvers<ServerResponse>()
  answers['/slow'] = (response) => resolve(response)
  const { run } = await begin(tenant, '/slow')
  const held = await asked
  const caller = world.syncCaller(first.url)
  const events = `/api/v1/sync-runs/${run.id}/events`
  expect(await caller.call(admin(), 'GET', events)).toMatchObject({ status: 404 })
  expect(await caller.call(tenant, 'HEAD', events)).toMatchObject({ status: 200, text: '' })
  const followed = caller.call(tenant, 'GET', events)
  held.end(rowsOf('Followed'))
  for (const { status, headers, text } of [await followed, await caller.call(tenant, 'GET', events)]) {
    expect([status, headers['content-type']]).toEqual([200, 'text/event-stream; charset=utf-8'])
    const said = text.split('\n\n').filter((event) => event.startsWith('id: '))
    const ids = said.map((event) => Number(/^id: (\d+)\n/.exec(event)?.[1]))
    expect(ids).toEqual([...new Set(ids)].toSorted((a, b) => a - b))
    const runs = said.map((event) => runSchema.parse(JSON.parse(event.split('\ndata: ')[1] ?? '')))
    expect(runs.at(-1)).toMatchObject({ id: run.id, status: 'succeeded', counts: { applied: 1 } })
    expect(runs.slice(0, -1).every(({ finished_at }) => finished_at === null)).toBe(true)
    expect(text.endsWith('\n\nevent: end\ndata: {"status":"succeeded"}\n\n')).toBe(true)
  }
})

test('a worker that was frozen for too long changes nothing: another one has finished its run', async () => {
  const tenant = admin()
  const { promise: asked, resolve } = Promise.withResolvers<ServerResponse>()
  answers['/frozen'] = (response) => resolve(response)
  const { run } = await begin(tenant, '/frozen')
  const held = await asked
  answers['/frozen'] = (response) => void response.end(rowsOf('As another worker has read it'))
  const lost = first.until('sync_run_lost')
  first.freeze()
  const second = await start()
  try {
    // As if its silence had lasted as long as a worker may be silent.
    await world.rows(`update queue.job set heartbeat_on = now() - interval '1 hour' where data ->> 'id' = $1`, [run.id])
    await vi.waitFor(
      async () =>
        expect(await world.rows(jobOf, [run.id])).toMatchObject([{ state: expect.not.stringMatching('active') }]),
      { timeout: 60_000, interval: 100 },
    )
    await world.rows(`update queue.job set start_after = now() where data ->> 'id' = $1`, [run.id])
    const caller = world.syncCaller(second.url)
    const now = async () => runSchema.parse((await caller.call(tenant, 'GET', `/api/v1/sync-runs/${run.id}`)).json)
    const finished = await until(now, { status: 'succeeded', attempt: 2 })
    first.thaw()
    held.end(rowsOf('As the frozen worker has read it'))
    await lost
    expect(await now()).toEqual(finished)
    expect(await entities(tenant)).toEqual([{ name: 'As another worker has read it', version: 1 }])
  } finally {
    second.kill()
  }
})
