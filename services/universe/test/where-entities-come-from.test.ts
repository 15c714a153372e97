import { type Entity, entitySchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Connector, importsOf, newConnector } from './import-support.ts'
import { type Principal, type UniverseUnderTest, newTenant, path, readEntities, row, startUniverse } from './service.ts'

let universe: UniverseUnderTest
let imports: ReturnType<typeof importsOf>
beforeAll(async () => {
  universe = await startUniverse()
  imports = importsOf(universe)
})
afterAll(async () => await universe.close())

/** Carries out a run whose source has entities with these keys. */
const brings = async (connector: Connector, ...keys: readonly string[]) =>
  await imports.carryOut(connector, ...keys.map((key) => row(key, { status: 'active' })))

const retire = async (connector: Connector, telling: number, retired = true) =>
  await imports.call(connector, internalPaths.retireSource, { telling, retired })

const get = async (tenant: Principal, target: string, headers: Record<string, string> = {}) =>
  await universe.gateway.call(tenant, 'GET', target, { headers })
const read = async (tenant: Principal, key: string): Promise<Entity> =>
  entitySchema.parse((await get(tenant, `${path}/ext:${key}`)).json)
const keysOf = async (tenant: Principal, query: string): Promise<(string | null)[]> =>
  readEntities.parse((await get(tenant, `${path}?${query}`)).json).map(({ external_id }) => external_id)

describe('where an entity comes from', () => {
  test('is the connector that created it; what is pushed comes from nowhere', async () => {
    const tenant = newTenant()
    const connector = newConnector(tenant)
    await universe.push(tenant, [row('pushed')])
    await brings(connector, 'A')
    const { source, created_at, version, updated_at } = await read(tenant, 'A')
    expect(source).toEqual({
      connector_id: connector.id,
      source_key: 'A',
      first_seen_at: created_at,
      last_seen_at: expect.any(String),
      missing_since: null,
    })
    expect(Date.parse(source?.last_seen_at ?? '')).toBeGreaterThanOrEqual(Date.parse(created_at))
    expect([version, updated_at]).toEqual([1, created_at])
    expect((await read(tenant, 'pushed')).source).toBeNull()
  })

  test('is read again with each run, without any entity being written; the entity tag tells it', async () => {
    const tenant = newTenant()
    const connector = newConnector(tenant)
    await brings(connector, 'A')
    const first = await get(tenant, `${path}/ext:A`)
    const headers = { 'if-none-match': first.headers['etag'] ?? '' }
    expect((await get(tenant, `${path}/ext:A`, headers)).status).toBe(304)
    await brings(connector, 'A')
    const again = await get(tenant, `${path}/ext:A`, headers)
    expect(again.status).toBe(200)
    const [before, after] = [entitySchema.parse(first.json), entitySchema.parse(again.json)]
    expect(after.version).toBe(before.version)
    expect(Date.parse(after.source?.last_seen_at ?? '')).toBeGreaterThan(Date.parse(before.source?.last_seen_at ?? ''))
  })

  test('is kept of what its source has lost: since when, and when it was last there, until it is found again', async () => {
    const tenant = newTenant()
    const connector = newConnector(tenant)
    await brings(connector, 'A', 'B')
    const { source: before } = await read(tenant, 'A')
    const lost = { ...connector, readAt: '2026-11-20T10:00:00.000Z' }
    await brings(lost, 'B')
    await brings(lost, 'B')
    expect(await read(tenant, 'A')).toMatchObject({
      source: { ...before, missing_since: '2026-11-20T10:00:00.000Z' },
      version: 2,
    })
    expect((await read(tenant, 'B')).source?.missing_since).toBeNull()
    expect([await keysOf(tenant, 'missing=true'), await keysOf(tenant, 'missing=false')]).toEqual([['A'], ['B']])
    expect((await get(tenant, `${path}?missing=perhaps`)).status).toBe(400)
    await brings(connector, 'A', 'B')
    const { source: found } = await read(tenant, 'A')
    expect(found).toMatchObject({ first_seen_at: before?.first_seen_at, missing_since: null })
    expect(found?.last_seen_at).toBe((await read(tenant, 'B')).source?.last_seen_at)
    expect(await keysOf(tenant, 'missing=true')).toEqual([])
  })

  test('stays the connector that brings it, and passes to another one that brings it later', async () => {
    const tenant = newTenant()
    const [one, other] = [newConnector(tenant), newConnector(tenant)]
    await brings(one, 'A', 'B')
    await universe.push(tenant, [row('pushed')])
    await brings(other, 'A', 'pushed')
    expect(await read(tenant, 'A')).toMatchObject({ source: { connector_id: one.id }, version: 1 })
    expect(await read(tenant, 'pushed')).toMatchObject({ source: { connector_id: other.id }, version: 2 })
    await brings(one, 'B')
    await brings(other, 'A', 'pushed')
    const claimed = await read(tenant, 'A')
    expect(claimed).toMatchObject({ source: { connector_id: other.id, missing_since: null }, version: 2 })
    expect(claimed.source?.first_seen_at).not.toBe(claimed.created_at)
    expect(await keysOf(tenant, `connector_id=${other.id}`)).toEqual(['A', 'pushed'])
  })

  test('was last there when the source was read, not when that is recorded, nor in the future', async () => {
    const tenant = newTenant()
    const connector = newConnector(tenant)
    await brings(connector, 'A')
    const { created_at } = await read(tenant, 'A')
    const at = new Date(Date.parse(created_at) + 1).toISOString()
    for (const readAt of [at, new Date(Date.parse(created_at) - 1000).toISOString()])
      await brings({ ...connector, readAt }, 'A')
    expect(Date.parse((await read(tenant, 'A')).source?.last_seen_at ?? '')).toBeGreaterThanOrEqual(Date.parse(at))
    await brings({ ...connector, readAt: new Date(Date.parse(created_at) + 3_600_000).toISOString() }, 'A')
    expect(Date.parse((await read(tenant, 'A')).source?.last_seen_at ?? '')).toBeLessThan(
      Date.parse(created_at) + 3_600_000,
    )
  })

  test('is no connector that is retired, until it is taken back', async () => {
    const tenant = newTenant()
    const connector = newConnector(tenant)
    await brings(connector, 'A', 'B')
    await brings(connector, 'A')
    const before = [await read(tenant, 'A'), await read(tenant, 'B')]
    expect((await retire(connector, 2)).status).toBe(200)
    for (const key of ['A', 'B']) expect(await read(tenant, key)).toMatchObject({ source: null })
    expect([await keysOf(tenant, 'missing=true'), await keysOf(tenant, 'missing=false')]).toEqual([[], ['A', 'B']])
    expect(await keysOf(tenant, `connector_id=${connector.id}`)).toEqual(['A', 'B'])
    expect((await retire(connector, 1, false)).status).toBe(409)
    expect((await retire(connector, 3, false)).status).toBe(200)
    expect([await read(tenant, 'A'), await read(tenant, 'B')]).toEqual(before)
    expect(await keysOf(tenant, 'missing=true')).toEqual(['B'])
  })

  test('is of the tenant of the request only, though another has the same keys and the same connector', async () => {
    const [tenant, other] = [newTenant(), newTenant()]
    const connector = newConnector(tenant)
    await brings(connector, 'A')
    await brings({ ...connector, tenant: other }, 'A')
    await brings(connector)
    expect((await read(tenant, 'A')).source?.missing_since).not.toBeNull()
    expect((await read(other, 'A')).source?.missing_since).toBeNull()
    expect(await keysOf(other, 'missing=true')).toEqual([])
  })

  test('is in lists and in exports', async () => {
    const tenant = newTenant()
    const connector = newConnector(tenant)
    await brings(connector, 'A')
    const { source } = await read(tenant, 'A')
    expect(source).not.toBeNull()
    for (const list of [path, `${path}?subtree_of=ext:A`, `${path}?subtree_of=ext:A&sort=name`]) {
      expect(readEntities.parse((await get(tenant, list)).json)[0]?.source).toEqual(source)
      const lines = await get(tenant, list, { accept: 'application/x-ndjson' })
      expect(entitySchema.parse(JSON.parse(lines.text)).source).toEqual(source)
    }
    const table = await get(tenant, path, { accept: 'text/csv' })
    expect(table.text).toContain(connector.id)
  })
})

test('a connector is retired by the sync service only, with a well-formed request', async () => {
  const connector = newConnector(newTenant(['admin:sync']))
  const options = { body: { telling: 1, retired: true } }
  const sync = {
    tenantId: connector.tenant.tenantId,
    kind: 'service',
    id: connector.id,
    label: 'C',
    scopes: [],
  } as const
  for (const caller of [universe.gateway, universe.stranger, universe.findings, universe.evidence]) {
    expect((await caller.call(sync, 'POST', internalPaths.retireSource, options)).status).toBe(401)
  }
  expect((await universe.sync.call(connector.tenant, 'POST', internalPaths.retireSource, options)).status).toBe(401)
  expect((await retire(connector, 0)).status).toBe(422)
  expect((await retire(connector, 1)).status).toBe(200)
})
