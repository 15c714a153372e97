import { type Entity, entitySchema } from '@postern/contracts'
import { entitySourcesAnswerSchema, internalPaths } from '@postern/contracts/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type Principal,
  type UniverseUnderTest,
  newTenant,
  path,
  pushPath,
  readEntities,
  row,
  startUniverse,
} from './service.ts'

let universe: UniverseUnderTest
beforeAll(async () => {
  universe = await startUniverse()
})
afterAll(async () => await universe.close())

/** That a source was read to its end, by a run of its own. */
const aReading = (at = new Date()) => ({ run_id: crypto.randomUUID(), at: at.toISOString() })

/** The sync service at work for a connector of a tenant. */
const connectorOf = ({ tenantId }: Principal, id: string) =>
  ({ tenantId, kind: 'service', id, label: 'A connector', scopes: [] }) as const

const tell = async (tenant: Principal, connector: string, body: object) =>
  await universe.sync.call(connectorOf(tenant, connector), 'POST', internalPaths.entitySources, {
    body: { telling: 1, rows: [], read: aReading(), retired: false, ...body },
  })

async function told(tenant: Principal, connector: string, body: object): Promise<number> {
  const answer = await tell(tenant, connector, body)
  expect(answer.status, answer.text).toBe(200)
  return entitySourcesAnswerSchema.parse(answer.json).changed
}

/** Has a connector make entities with these keys. */
async function brought(tenant: Principal, connector: string, ...keys: readonly string[]): Promise<void> {
  const body = { run_id: crypto.randomUUID(), entities: keys.map((key) => row(key)) }
  const answer = await universe.sync.call(connectorOf(tenant, connector), 'POST', pushPath, { body })
  expect(answer.status, answer.text).toBe(200)
}

const get = async (tenant: Principal, target: string, headers: Record<string, string> = {}) =>
  await universe.gateway.call(tenant, 'GET', target, { headers })
const read = async (tenant: Principal, key: string): Promise<Entity> =>
  entitySchema.parse((await get(tenant, `${path}/ext:${key}`)).json)
const keysOf = async (tenant: Principal, query: string): Promise<(string | null)[]> =>
  readEntities.parse((await get(tenant, `${path}?${query}`)).json).map(({ external_id }) => external_id)

const there = (key: string) => ({ external_id: key, missing_since: null })
const gone = (key: string, since = '2026-11-20T10:00:00.000Z') => ({ external_id: key, missing_since: since })

describe('where an entity comes from', () => {
  test('is told by the sync service alone, for a connector, and well formed', async () => {
    const [tenant, connector] = [newTenant(['admin:sync']), crypto.randomUUID()]
    const target = internalPaths.entitySources
    const options = { body: { telling: 1, rows: [], read: aReading(), retired: false } }
    for (const caller of [universe.gateway, universe.stranger, universe.findings, universe.evidence]) {
      expect((await caller.call(connectorOf(tenant, connector), 'POST', target, options)).status).toBe(401)
    }
    expect((await universe.sync.call(tenant, 'POST', target, options)).status).toBe(401)
    expect((await tell(tenant, 'inline', {})).status).toBe(400)
    for (const wrong of [{ telling: 0 }, { rows: [there('')] }, { rows: [gone('A', 'yesterday')] }, { more: true }]) {
      expect((await tell(tenant, connector, wrong)).status).toBe(422)
    }
    expect((await tell(tenant, connector, {})).status).toBe(200)
  })

  test('is what has made it, once a run has ended; what is pushed comes from nowhere', async () => {
    const [tenant, connector] = [newTenant(), crypto.randomUUID()]
    await brought(tenant, connector, 'A')
    await universe.push(tenant, [row('pushed')])
    expect((await read(tenant, 'A')).source).toBeNull()
    expect(await told(tenant, connector, {})).toBe(0)
    const { source, created_at, version, updated_at } = await read(tenant, 'A')
    expect(source).toEqual({
      connector_id: connector,
      source_key: 'A',
      first_seen_at: created_at,
      last_seen_at: expect.any(String),
      missing_since: null,
    })
    expect(Date.parse(source?.last_seen_at ?? '')).toBeGreaterThanOrEqual(Date.parse(created_at))
    expect([version, updated_at]).toEqual([1, created_at])
    expect((await read(tenant, 'pushed')).source).toBeNull()
  })

  test('is read anew with each run, without any entity being written; the entity tag tells it', async () => {
    const [tenant, connector] = [newTenant(), crypto.randomUUID()]
    await brought(tenant, connector, 'A')
    const run = { read: aReading(), telling: 1 }
    await told(tenant, connector, run)
    const first = await get(tenant, `${path}/ext:A`)
    const headers = { 'if-none-match': first.headers['etag'] ?? '' }
    // The same run once more, as after a crash.
    await told(tenant, connector, { ...run, telling: 2 })
    expect((await get(tenant, `${path}/ext:A`, headers)).status).toBe(304)
    await told(tenant, connector, { telling: 3, read: null })
    expect((await get(tenant, `${path}/ext:A`, headers)).status).toBe(304)
    await told(tenant, connector, { telling: 4 })
    const again = await get(tenant, `${path}/ext:A`, headers)
    expect(again.status).toBe(200)
    const [before, after] = [entitySchema.parse(first.json), entitySchema.parse(again.json)]
    expect(after.version).toBe(before.version)
    expect(Date.parse(after.source?.last_seen_at ?? '')).toBeGreaterThan(Date.parse(before.source?.last_seen_at ?? ''))
  })

  test('is kept of what its source has lost: since when, and when it was last there, until it is found again', async () => {
    const [tenant, connector] = [newTenant(), crypto.randomUUID()]
    await brought(tenant, connector, 'A', 'B')
    await told(tenant, connector, {})
    const { source: before } = await read(tenant, 'A')
    const lost = { telling: 2, rows: [gone('A')] }
    expect(await told(tenant, connector, lost)).toBe(1)
    expect(await told(tenant, connector, { ...lost, telling: 3 })).toBe(0)
    const missing = { ...before, missing_since: '2026-11-20T10:00:00.000Z' }
    expect(await read(tenant, 'A')).toMatchObject({ source: missing, version: 2 })
    const { source: kept } = await read(tenant, 'B')
    expect([kept?.missing_since, kept?.last_seen_at === before?.last_seen_at]).toEqual([null, false])
    expect([await keysOf(tenant, 'missing=true'), await keysOf(tenant, 'missing=false')]).toEqual([['A'], ['B']])
    expect((await get(tenant, `${path}?missing=perhaps`)).status).toBe(400)
    expect(await told(tenant, connector, { telling: 4, rows: [there('A')] })).toBe(1)
    const { source: found } = await read(tenant, 'A')
    expect(found).toEqual((await read(tenant, 'B')).source && { ...kept, ...found, missing_since: null })
    expect(found?.first_seen_at).toBe(before?.first_seen_at)
    expect(await keysOf(tenant, 'missing=true')).toEqual([])
  })

  test('passes to the connector that brings it last, and back to the one that has made it', async () => {
    const tenant = newTenant()
    const [one, other] = [crypto.randomUUID(), crypto.randomUUID()]
    await brought(tenant, one, 'A')
    await universe.push(tenant, [row('pushed')])
    await told(tenant, one, {})
    const rows = [there('A'), there('pushed'), there('nobody')]
    expect(await told(tenant, other, { rows })).toBe(2)
    const claimed = await read(tenant, 'A')
    expect(claimed).toMatchObject({ source: { connector_id: other, source_key: 'A' }, version: 2 })
    expect(claimed.source?.first_seen_at).not.toBe(claimed.created_at)
    expect(await read(tenant, 'pushed')).toMatchObject({ source: { connector_id: other }, version: 2 })
    expect(await told(tenant, other, { rows, telling: 2 })).toBe(0)
    expect([await keysOf(tenant, `connector_id=${other}`), await keysOf(tenant, `connector_id=${one}`)]).toEqual([
      ['A', 'pushed'],
      ['A'],
    ])
    await told(tenant, one, { telling: 2, rows: [there('A')] })
    expect((await read(tenant, 'A')).source).toMatchObject({ connector_id: one, first_seen_at: claimed.created_at })
  })

  test('was last there when the source was read, not when that is told, nor in the future', async () => {
    const [tenant, connector] = [newTenant(), crypto.randomUUID()]
    await brought(tenant, connector, 'A')
    const { created_at } = await read(tenant, 'A')
    await told(tenant, connector, { read: aReading(new Date(Date.parse(created_at) - 1000)) })
    expect((await read(tenant, 'A')).source?.last_seen_at).toBe(created_at)
    const at = new Date(Date.parse(created_at) + 1)
    await told(tenant, connector, { read: aReading(at) })
    expect((await read(tenant, 'A')).source?.last_seen_at).toBe(at.toISOString())
    await told(tenant, connector, { read: aReading(new Date(Date.parse(created_at) + 3_600_000)) })
    expect(Date.parse((await read(tenant, 'A')).source?.last_seen_at ?? '')).toBeLessThan(
      Date.parse(created_at) + 3_600_000,
    )
    // What has long been missing when that is first told was not first seen after it.
    await universe.push(tenant, [row('pushed')])
    const since = '2026-01-02T10:00:00.000Z'
    await told(tenant, connector, { rows: [gone('pushed', since)] })
    const { source } = await read(tenant, 'pushed')
    expect(source).toMatchObject({ first_seen_at: since, last_seen_at: since, missing_since: since })
  })

  test('is no connector that is retired, until it tells something else', async () => {
    const [tenant, connector] = [newTenant(), crypto.randomUUID()]
    await brought(tenant, connector, 'A', 'B')
    await told(tenant, connector, { rows: [gone('B')] })
    const before = [await read(tenant, 'A'), await read(tenant, 'B')]
    await told(tenant, connector, { telling: 2, read: null, retired: true })
    for (const key of ['A', 'B']) expect(await read(tenant, key)).toMatchObject({ source: null })
    expect([await keysOf(tenant, 'missing=true'), await keysOf(tenant, 'missing=false')]).toEqual([[], ['A', 'B']])
    expect(await keysOf(tenant, `connector_id=${connector}`)).toEqual(['A', 'B'])
    expect((await tell(tenant, connector, { telling: 1 })).status).toBe(409)
    await told(tenant, connector, { telling: 3, read: null })
    expect([await read(tenant, 'A'), await read(tenant, 'B')]).toEqual(before)
    expect(await keysOf(tenant, 'missing=true')).toEqual(['B'])
  })

  test('is not taken from who comes too late', async () => {
    const [tenant, connector] = [newTenant(), crypto.randomUUID()]
    await brought(tenant, connector, 'A')
    await told(tenant, connector, { telling: 7 })
    const before = await read(tenant, 'A')
    expect((await tell(tenant, connector, { telling: 6, rows: [gone('A')] })).status).toBe(409)
    expect(await read(tenant, 'A')).toEqual(before)
    expect(await told(tenant, connector, { telling: 7, rows: [gone('A')] })).toBe(1)
  })

  test('is told of the tenant of the request alone, though another has the same keys and the same connector', async () => {
    const [tenant, other, connector] = [newTenant(), newTenant(), crypto.randomUUID()]
    await brought(tenant, connector, 'A')
    await brought(other, connector, 'A')
    await told(tenant, connector, { rows: [gone('A')] })
    expect((await read(tenant, 'A')).source?.missing_since).not.toBeNull()
    expect(await read(other, 'A')).toMatchObject({ source: null, version: 1 })
    expect(await keysOf(other, 'missing=true')).toEqual([])
  })

  test('is in lists and in exports', async () => {
    const [tenant, connector] = [newTenant(), crypto.randomUUID()]
    await brought(tenant, connector, 'A')
    await told(tenant, connector, {})
    const { source } = await read(tenant, 'A')
    expect(source).not.toBeNull()
    for (const list of [path, `${path}?subtree_of=ext:A`, `${path}?subtree_of=ext:A&sort=name`]) {
      expect(readEntities.parse((await get(tenant, list)).json)[0]?.source).toEqual(source)
      const lines = await get(tenant, list, { accept: 'application/x-ndjson' })
      expect(entitySchema.parse(JSON.parse(lines.text)).source).toEqual(source)
    }
    const table = await get(tenant, path, { accept: 'text/csv' })
    expect(table.text).toContain(connector)
  })
})
