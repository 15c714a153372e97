import { randomUUID } from 'node:crypto'
import { type Connector, type Run, connectorSchema, entitySchema, runSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { admin, makeWorld, push } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let universe: Awaited<ReturnType<typeof world.spawnUniverse>>
let sync: Awaited<ReturnType<typeof world.startSync>>
let caller: SignedCaller

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

const anything = { max_deactivate_pct: 100, max_deactivate: 1000, min_rows: 0, max_change_pct: 100 }

async function create(tenant: Principal, fields: Record<string, unknown> = {}): Promise<Connector> {
  const body = { key: `c-${randomUUID()}`, name: 'Table', type: 'csv', dataset: 'auditable_entities', ...fields }
  const answer = await caller.call(tenant, 'POST', '/api/v1/connectors', { body: { safety: anything, ...body } })
  return connectorSchema.parse(answer.json)
}

async function ended(tenant: Principal, { id }: Run): Promise<Run> {
  return await vi.waitFor(
    async () => {
      const now = runSchema.parse((await caller.call(tenant, 'GET', `/api/v1/sync-runs/${id}`)).json)
      if (now.finished_at === null) throw new Error(`still ${now.status}`)
      return now
    },
    { timeout: 60_000, interval: 50 },
  )
}

/** Runs a table of rows `key` or `key:name`; without a key the row cannot be taken in. */
async function run(tenant: Principal, { id }: Connector, rows: readonly string[], query = ''): Promise<Run> {
  const lines = rows.map((given) => given.split(':')).map(([key = '', name = key]) => `${key},${name},process`)
  const answer = await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/runs${query}`, {
    body: ['external_id,name,type', ...lines, ''].join('\n'),
    headers: { 'content-type': 'text/csv' },
  })
  return await ended(tenant, runSchema.parse(answer.json))
}

async function read({ tenantId }: Principal, key: string) {
  const reader = { tenantId, scopes: ['read:universe'] }
  const answer = await world.universeCaller(universe.url).call(reader, 'GET', `/api/v1/entities/ext:${key}`)
  const { source, version, status } = entitySchema.parse(answer.json)
  return { source, version, status }
}

test('a run says where its entities come from, and writes none that it does not change', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  expect(await run(tenant, connector, ['A', 'B'])).toMatchObject({ status: 'succeeded' })
  const first = await read(tenant, 'A')
  expect(first).toMatchObject({
    version: 1,
    source: { connector_id: connector.id, source_key: 'A', missing_since: null },
  })
  expect(await run(tenant, connector, ['A', 'B'], '?mode=dry_run')).toMatchObject({ status: 'succeeded' })
  expect(await read(tenant, 'A')).toEqual(first)
  // Nothing has changed, but for when it was seen.
  expect(await run(tenant, connector, ['A', 'B'])).toMatchObject({ status: 'succeeded', counts: { unchanged: 2 } })
  const second = await read(tenant, 'A')
  expect(second).toEqual({ ...first, source: { ...first.source, last_seen_at: expect.any(String) } })
  expect(second.source?.last_seen_at).not.toBe(first.source?.last_seen_at)
})

test('what a source has lost is missing since then, and was last there in the run before', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  await run(tenant, connector, ['A', 'B'])
  const { source: before } = await read(tenant, 'A')
  await run(tenant, connector, ['B'])
  const missing = await read(tenant, 'A')
  expect(missing).toEqual({
    status: 'active',
    version: 2,
    source: { ...before, missing_since: expect.any(String) },
  })
  const listed = await caller.call(tenant, 'GET', `/api/v1/connectors/${connector.id}/missing`)
  expect(listed.json).toMatchObject([{ source_key: 'A', missing_since: missing.source?.missing_since }])
  await run(tenant, connector, ['B'])
  expect(await read(tenant, 'A')).toEqual(missing)
  await run(tenant, connector, ['A', 'B'])
  const [found, other] = [await read(tenant, 'A'), await read(tenant, 'B')]
  expect(found.source).toEqual({ ...before, last_seen_at: other.source?.last_seen_at })
})

test('a run with rows whose keys cannot be read has not seen the rest', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  await run(tenant, connector, ['A', 'B'])
  const before = await read(tenant, 'A')
  expect(await run(tenant, connector, ['B', ':No key'])).toMatchObject({ status: 'partial' })
  expect(await read(tenant, 'A')).toEqual(before)
})

test('what was pushed passes to the connector that brings it, though it is as it was', async () => {
  const tenant = admin()
  const rows = ['A', 'B'].map((key) => ({ external_id: key, name: key, type: 'process' }))
  expect((await push(caller, tenant, rows)).status).toBe(200)
  expect((await read(tenant, 'A')).source).toBeNull()
  const connector = await create(tenant)
  expect(await run(tenant, connector, ['A'])).toMatchObject({ counts: { unchanged: 1, applied: 0 } })
  expect(await read(tenant, 'A')).toMatchObject({ source: { connector_id: connector.id }, version: 2 })
  expect((await read(tenant, 'B')).source).toBeNull()
  await run(tenant, connector, ['A'])
  expect((await read(tenant, 'A')).version).toBe(2)
})

test('a rollback reads nothing: what the run has made is inactive, and was seen when it was', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  const made = await run(tenant, connector, ['A'])
  const before = await read(tenant, 'A')
  const answer = await caller.call(tenant, 'POST', `/api/v1/sync-runs/${made.id}/rollback`, { body: {} })
  expect(await ended(tenant, runSchema.parse(answer.json))).toMatchObject({ status: 'succeeded', mode: 'rollback' })
  expect(await read(tenant, 'A')).toEqual({ ...before, status: 'archived', version: 2 })
})
