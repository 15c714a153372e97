import { runSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Universe } from '../src/push/universe.ts'
import { anything, useEntitySources } from './entity-source-support.ts'
import { applying } from './run-support.ts'
import { admin, push } from './support.ts'

const { parts, create, work, run, read } = useEntitySources()

let world: ReturnType<typeof parts>['world']
let caller: SignedCaller
let universe: Universe
let process: ReturnType<typeof parts>['process']

beforeAll(() => {
  ;({ world, caller, universe, process } = parts())
})

test('a run records the source of its entities, and writes only those that it changes', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  expect(await run(tenant, connector, ['A', 'B'])).toMatchObject({ status: 'succeeded' })
  const first = await read(tenant, 'A')
  expect(first).toMatchObject({
    version: 1,
    source: { connector_id: connector.id, source_key: 'A', missing_since: null },
  })
  expect(await run(tenant, connector, ['A', 'B'], { query: '?mode=dry_run' })).toMatchObject({ status: 'succeeded' })
  expect(await read(tenant, 'A')).toEqual(first)
  // Only the time when it was seen has changed.
  expect(await run(tenant, connector, ['A', 'B'])).toMatchObject({ status: 'succeeded', counts: { unchanged: 2 } })
  const second = await read(tenant, 'A')
  expect(second).toEqual({ ...first, source: { ...first.source, last_seen_at: expect.any(String) } })
  expect(second.source?.last_seen_at).not.toBe(first.source?.last_seen_at)
})

test('a row that a source has lost is missing since then, and was last seen in the run before', async () => {
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

test('a run with unreadable keys marks no other row as missing', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  await run(tenant, connector, ['A', 'B'])
  const before = await read(tenant, 'A')
  expect(await run(tenant, connector, ['B', ':No key'])).toMatchObject({ status: 'partial' })
  expect(await read(tenant, 'A')).toEqual(before)
})

test('a pushed row passes to the connector that delivers it, even if it is unchanged', async () => {
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

test('a rollback reads no source: created rows become inactive and keep the time when they were seen', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  const made = await run(tenant, connector, ['A'])
  const before = await read(tenant, 'A')
  const answer = await caller.call(tenant, 'POST', `/api/v1/sync-runs/${made.id}/rollback`, { body: {} })
  expect(await work(tenant, runSchema.parse(answer.json))).toMatchObject({ status: 'succeeded', mode: 'rollback' })
  const source = { ...before.source, missing_since: expect.any(String) }
  expect(await read(tenant, 'A')).toEqual({ ...before, source, status: 'archived', version: 3 })
})

const renamed = async (tenant: Principal) =>
  expect((await push(caller, tenant, [{ external_id: 'A', name: 'Pushed', type: 'process' }])).status).toBe(200)
describe('what is pushed over a row', () => {
  test('before a run creates it is not a creation of the run, and passes to the connector', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    let isRenamed = false
    const apply: Universe['imports']['apply'] = async (...asked) => {
      if (!isRenamed) await renamed(tenant)
      isRenamed = true
      return await universe.imports.apply(...asked)
    }
    expect(await run(tenant, connector, ['A'], { universe: applying(universe, apply) })).toMatchObject({
      counts: { created: 1 },
    })
    expect((await read(tenant, 'A')).source).toMatchObject({ connector_id: connector.id })
  })
})

test('a row that passes to another connector is compared by its next run', async () => {
  const tenant = admin()
  const [first, second] = [await create(tenant), await create(tenant)]
  await run(tenant, first, ['A', 'B'])
  await run(tenant, second, ['A'])
  await run(tenant, first, ['B'])
  const known = `select connector_id, hash from universe.source_row where tenant_id = $1 and source_key = 'A'`
  expect(await world.rows(known, [tenant.tenantId])).toEqual([{ connector_id: second.id, hash: null }])
  expect(await run(tenant, second, ['A'])).toMatchObject({ counts: { unchanged: 1 } })
})

test('an approved run records when it read, and not when it was approved', async () => {
  const tenant = admin()
  const connector = await create(tenant, { safety: { ...anything, max_change_pct: 0 } })
  await run(tenant, connector, ['A', 'B', 'C'])
  const waiting = await run(tenant, connector, ['A:Other', 'B'])
  expect(waiting.status).toBe('needs_approval')
  const body = { diff_hash: waiting.diff_hash }
  expect((await caller.call(tenant, 'POST', `/api/v1/sync-runs/${waiting.id}/approve`, { body })).status).toBe(202)
  expect(await work(tenant, waiting)).toMatchObject({ status: 'succeeded', started_at: waiting.started_at })
  expect((await read(tenant, 'B')).source).toMatchObject({ last_seen_at: waiting.started_at, missing_since: null })
  expect((await read(tenant, 'C')).source?.missing_since).toBe(waiting.started_at)
})

async function both(tenant: Principal) {
  const [one, other] = [await create(tenant), await create(tenant)]
  await run(tenant, one, ['A', 'B'])
  return { one, other }
}

describe('entities that two connectors bring', () => {
  test('belong to the first until its source no longer has them, and are not written by runs without changes', async () => {
    const tenant = admin()
    const { one, other } = await both(tenant)
    for (const connector of [other, one, other]) {
      expect(await run(tenant, connector, ['A', 'B'])).toMatchObject({ counts: { unchanged: 2 } })
    }
    expect(await read(tenant, 'A')).toMatchObject({ version: 1, source: { connector_id: one.id, missing_since: null } })
    // The first has lost one, that the other has brought last.
    await run(tenant, one, ['B'])
    await run(tenant, other, ['A', 'B'])
    expect(await read(tenant, 'A')).toMatchObject({
      version: 2,
      source: { connector_id: other.id, missing_since: null },
    })
    expect(await read(tenant, 'B')).toMatchObject({ version: 1, source: { connector_id: one.id } })
    // And one that it has brought last itself, which is not missing: the other has it.
    await run(tenant, one, ['B'])
    await run(tenant, one, [])
    expect((await read(tenant, 'B')).source).toMatchObject({ connector_id: one.id, missing_since: null })
    await run(tenant, other, ['A', 'B'])
    expect((await read(tenant, 'B')).source).toMatchObject({ connector_id: other.id, missing_since: null })
  })

  test('stay active although one connector misses them while the other finds them', async () => {
    const tenant = admin()
    const { one, other } = await both(tenant)
    let isFound = false
    const late: Universe['imports']['apply'] = async (...asked) => {
      if (!isFound) await run(tenant, other, ['A', 'B'])
      isFound = true
      return await universe.imports.apply(...asked)
    }
    await run(tenant, one, ['B'], { universe: applying(universe, late) })
    expect(await run(tenant, other, ['A', 'B'])).toMatchObject({ counts: { applied: 0 } })
    expect((await read(tenant, 'A')).source).toMatchObject({ connector_id: other.id, missing_since: null })
  })

  test('pass to the other one when one is retired; the rest has no source and is not missing', async () => {
    const tenant = admin()
    const { one, other } = await both(tenant)
    await run(tenant, other, ['A'])
    await run(tenant, one, ['A'])
    await run(tenant, other, ['A'])
    const reader = { tenantId: tenant.tenantId, scopes: ['read:universe'] }
    const missing = async () =>
      (await world.universeCaller(process.url).call(reader, 'GET', '/api/v1/entities?missing=true')).json
    expect(await missing()).toMatchObject([{ external_id: 'B', source: { connector_id: one.id } }])
    expect((await caller.call(tenant, 'DELETE', `/api/v1/connectors/${one.id}`)).status).toBe(204)
    expect(await missing()).toEqual([])
    expect([(await read(tenant, 'A')).source, (await read(tenant, 'B')).source]).toEqual([null, null])
    await run(tenant, other, ['A'])
    expect((await read(tenant, 'A')).source).toMatchObject({ connector_id: other.id, missing_since: null })
    expect((await caller.call(tenant, 'DELETE', `/api/v1/connectors/${one.id}`)).status).toBe(404)
  })
})
