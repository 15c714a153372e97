import { type Entity, entitySchema, problemSchema } from '@postern/contracts'
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
  syncOf,
} from './service.ts'

let universe: UniverseUnderTest
beforeAll(async () => {
  universe = await startUniverse()
})
afterAll(async () => await universe.close())

const get = async (principal: Principal, target: string, headers: Record<string, string> = {}) =>
  await universe.gateway.call(principal, 'GET', target, { headers })

async function list(principal: Principal, query = ''): Promise<Entity[]> {
  return readEntities.parse((await get(principal, path + query)).json)
}

function nextOf(link: string | undefined): string | undefined {
  return /^<([^>]+)>; rel="next"$/.exec(link ?? '')?.[1]
}

async function someEntities(count: number, tenant = newTenant()) {
  await universe.push(
    tenant,
    Array.from({ length: count }, (_, at) => row(`e${at}`, { type: at % 2 === 0 ? 'process' : 'vendor' })),
  )
  return tenant
}

describe('an incremental load', () => {
  test.each(['/api/v1/entities', '/api/v1/people', '/api/v1/test-procedures'])(
    '%s hands out the next updated_since, and accepts it',
    async (target) => {
      const tenant = await someEntities(1)
      for (const accept of ['application/json', 'text/csv']) {
        const answer = await get(tenant, target, { accept })
        const mark = String(answer.headers['postern-next-updated-since'])
        expect([answer.status, mark]).toEqual([200, expect.stringMatching(/Z_[0-9]+$/)])
        expect((await get(tenant, `${target}?updated_since=${mark}`)).status).toBe(200)
      }
    },
  )

  test('loses no change that is committed late', async () => {
    const tenant = await someEntities(2)
    const mark = String((await get(tenant, path)).headers['postern-next-updated-since'])
    await universe.asSuperuser.system(async (tx) => {
      const change = `update universe.entity set name = 'Late', version = version + 1, updated_at = now() - interval '1 hour'
        where tenant_id = $1 and external_id = 'e0'`
      await tx.execute({ text: change, values: [tenant.tenantId] })
      const began = `update tenancy.change_batch set began_at = now() - interval '1 hour'
        where tenant_id = $1 and made_by = pg_current_xact_id()`
      await tx.execute({ text: began, values: [tenant.tenantId] })
    })
    const namesSince = async (since: string) => (await list(tenant, `?updated_since=${since}`)).map(({ name }) => name)
    expect(await namesSince(mark)).toContain('Late')
    expect(await namesSince(mark.split('_', 1)[0] ?? '')).not.toContain('Late')
  })
})

describe('reading an entity', () => {
  test('is refused unsigned, by a stranger, again, elsewhere, and without read:universe', async () => {
    const tenant = await someEntities(1)
    const { id = '' } = (await universe.stored(tenant))['e0'] ?? {}
    const target = `${path}/${id}`
    expect((await fetch(universe.url + target)).status).toBe(401)
    expect((await universe.stranger.call(tenant, 'GET', target)).status).toBe(401)
    const headers = universe.signedHeaders(tenant, 'GET', target)
    expect((await fetch(universe.url + path, { headers })).status).toBe(401)
    expect((await fetch(universe.url + target, { headers })).status).toBe(200)
    expect((await fetch(universe.url + target, { headers })).status).toBe(401)
    const denied = await get({ ...tenant, scopes: ['read:findings', 'admin:sync'] }, target)
    expect(denied.status).toBe(403)
    expect(denied.json).toMatchObject({ required_scope: 'read:universe' })
  })

  test("another tenant's entity is, to the byte, one that does not exist", async () => {
    const tenant = await someEntities(1)
    const { id = '', reference = '' } = (await universe.stored(tenant))['e0'] ?? {}
    const stranger = newTenant()
    const headers = { 'x-request-id': 'the-same-request' }
    const missing = await get(stranger, `${path}/${crypto.randomUUID()}`, headers)
    expect(missing.status).toBe(404)
    for (const address of [id, `ref:${reference}`, 'ext:e0']) {
      const theirs = await get(stranger, `${path}/${address}`, headers)
      expect(theirs.text).toBe(missing.text)
      expect({ ...theirs.headers, date: '' }).toEqual({ ...missing.headers, date: '' })
      expect((await get(tenant, `${path}/${address}`)).status).toBe(200)
    }
  })

  test('finds it by id, by reference and by the key of its source', async () => {
    const tenant = newTenant()
    const external_id = "it's 100 % / A&B?ü"
    await universe.push(tenant, [row(external_id)])
    const entity = (await universe.stored(tenant))[external_id]
    for (const address of [entity?.id, `ref:${entity?.reference}`, `ext:${encodeURIComponent(external_id)}`]) {
      expect((await get(tenant, `${path}/${address}`)).json).toEqual(entity)
    }
  })

  test('answers 304 to a caller that has read it already, until the day or the entity changes', async () => {
    const tenant = newTenant()
    await universe.push(tenant, [row('A', { risk_assessed_at: '2030-01-01' })])
    const target = `${path}/ext:A`
    try {
      universe.setToday('2031-01-01')
      const first = await get(tenant, target)
      const headers = { 'if-none-match': first.headers['etag'] ?? '' }
      const second = await get(tenant, target, headers)
      expect([second.status, second.text]).toEqual([304, ''])
      expect(entitySchema.parse(first.json).stale).toBe(false)
      universe.setToday('2031-01-02')
      expect(entitySchema.parse((await get(tenant, target, headers)).json).stale).toBe(true)
      universe.setToday('2031-01-01')
      await universe.push(tenant, [row('A', { name: 'Other' })])
      expect(entitySchema.parse((await get(tenant, target, headers)).json).name).toBe('Other')
    } finally {
      universe.setToday(undefined)
    }
  })
})

describe('listing entities', () => {
  test.each([
    ['?owners=x', 'owners'],
    ['?limit=0', 'limit'],
    ['?limit=1001', 'limit'],
    ['?type=planet', 'type'],
    ['?status=closed', 'status'],
    ['?sort=colour', 'sort'],
    ['?sort=tree', 'sort'],
    ['?parent_id=x', 'parent_id'],
    ['?subtree_of=key:x', 'subtree_of'],
    ['?subtree_of=ref:AE-0001&hierarchy=legal', 'subtree_of'],
    ['?risk_rating=enormous', 'risk_rating'],
    ['?next_audit_due_before=2026-02-30', 'next_audit_due_before'],
    ['?q=', 'q'],
    ['?q=%00', 'q'],
    ['?updated_since=now', 'updated_since'],
    ['?cursor=abc', 'cursor'],
  ])('a parameter that cannot be understood is refused: %s', async (query, parameter) => {
    const answer = await get(newTenant(), path + query)
    expect(answer.status).toBe(400)
    expect(problemSchema.parse(answer.json).errors?.map((error) => error.parameter)).toContain(parameter)
  })

  test('a cursor is valid only for its tenant and filter, and a forged one is rejected', async () => {
    const [tenant, other] = [await someEntities(4), await someEntities(4)]
    const next = nextOf((await get(tenant, `${path}?limit=2`)).headers['link']) ?? ''
    expect((await get(tenant, next)).status).toBe(200)
    expect((await get(other, next)).status).toBe(400)
    expect((await get(tenant, `${next}&type=process`)).status).toBe(400)
    const cursor = new URL(next, universe.url).searchParams.get('cursor') ?? ''
    const [binding] = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    for (const place of [null, -1, 0, 1.5, 2_147_483_648, '1', [1], {}]) {
      const forged = Buffer.from(JSON.stringify([binding, place])).toString('base64url')
      expect((await get(tenant, `${path}?limit=2&cursor=${forged}`)).status).toBe(400)
    }
  })

  test('is refused without read:universe', async () => {
    expect((await get(newTenant(['read:findings', 'admin:sync']), path)).status).toBe(403)
  })

  test('pages are the whole list by reference, though entities arrive between them', async () => {
    const tenant = await someEntities(20)
    await someEntities(3)
    const whole = await list(tenant)
    expect(whole.map(({ reference }) => reference)).toEqual(
      Array.from({ length: 20 }, (_, at) => `AE-${String(at + 1).padStart(4, '0')}`),
    )
    const seen: Entity[] = []
    let next: string | undefined = `${path}?limit=7`
    while (next !== undefined) {
      const answer = await get(tenant, next)
      seen.push(...readEntities.parse(answer.json))
      next = nextOf(answer.headers['link'])
      if (next !== undefined) await universe.push(tenant, [row(crypto.randomUUID())])
    }
    expect(seen.slice(0, 20)).toEqual(whole)
    expect(new Set(seen.map(({ id }) => id)).size).toBe(seen.length)
  })

  test('goes by number where references have grown past four digits', async () => {
    const tenant = await someEntities(1)
    await universe.asService.write(universe.assertionOf(tenant.tenantId), async (tx) =>
      tx.execute({ text: 'update universe.reference_counter set last_number = 9998', values: [] }),
    )
    await universe.push(tenant, [row('x'), row('y')])
    expect((await list(tenant)).map(({ reference }) => reference)).toEqual(['AE-0001', 'AE-9999', 'AE-10000'])
  })

  test('filters, counts on request, and shows only the tenant’s own entities', async () => {
    const tenant = await someEntities(5)
    await someEntities(9)
    await universe.push(tenant, [row('draft', { status: 'draft', type: 'vendor' })])
    const keys = async (query: string) => (await list(tenant, query)).map(({ external_id }) => external_id)
    expect(await keys('?type=vendor')).toEqual(['e1', 'e3', 'draft'])
    expect(await keys('?type=vendor,process&status=draft')).toEqual(['draft'])
    expect(await keys('?external_id=e3')).toEqual(['e3'])
    expect(await keys('?external_id=e3&type=process')).toEqual([])
    const changed = (await universe.stored(tenant))['draft']?.updated_at ?? ''
    const after = (ms: number) => new Date(Date.parse(changed) + ms).toISOString()
    expect((await keys(`?updated_since=${after(30_000)}`)).at(-1)).toEqual('draft')
    expect(await keys(`?updated_since=${after(30_001)}`)).toEqual([])
    expect(await keys('?external_id=e1&external_id=e3&external_id=draft')).toEqual(['e1', 'e3', 'draft'])
    expect(await keys('?external_id=e1,e3')).toEqual([])
    const counted = await get(tenant, `${path}?count=true&limit=1&type=vendor`)
    expect(counted.headers['x-total-count']).toBe('3')
    expect((await get(tenant, `${path}?count=true&external_id=e3`)).headers['x-total-count']).toBe('1')
    expect((await get(tenant, path)).headers['x-total-count']).toBeUndefined()
    expect((await get(newTenant(), path)).text).toBe('[]')
  })

  test('finds those that a connector has made, in a subtree too', async () => {
    const tenant = newTenant()
    const connector = crypto.randomUUID()
    const body = { run_id: crypto.randomUUID(), entities: [row('a'), row('b', { parent_external_id: 'a' })] }
    const by = { ...syncOf(tenant), id: connector }
    expect((await universe.sync.call(by, 'POST', pushPath, { body })).status).toBe(200)
    await universe.push(tenant, [row('c', { parent_external_id: 'b' })])
    const keys = async (query: string) =>
      readEntities.parse((await get(tenant, path + query)).json).map(({ external_id }) => external_id)
    expect(await keys(`?connector_id=${connector}`)).toEqual(['a', 'b'])
    expect(await keys(`?connector_id=${connector}&subtree_of=ext:b`)).toEqual(['b'])
    expect(await keys('?subtree_of=ext:b&sort=name')).toEqual(['b', 'c'])
    expect(await keys(`?connector_id=${crypto.randomUUID()}`)).toEqual([])
    expect((await get(newTenant(), `${path}?connector_id=${connector}`)).json).toEqual([])
    expect((await get(tenant, `${path}?connector_id=inline`)).status).toBe(400)
  })
})
