import { type ExpandedEntity, expandedEntitySchema, problemSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  type Principal,
  type UniverseUnderTest,
  legal,
  newTenant,
  nextOf,
  node,
  path,
  readEntities,
  row,
  startUniverse,
} from './service.ts'

let universe: UniverseUnderTest
beforeAll(async () => {
  universe = await startUniverse()
})
afterAll(async () => await universe.close())

const get = async (principal: Principal, target: string, headers: Record<string, string> = {}) =>
  await universe.gateway.call(principal, 'GET', target, { headers })

function placesIn(entity: ExpandedEntity | undefined): string[] | undefined {
  return entity?.nodes?.map(({ node_key: key }) => key)
}

async function keysOf(principal: Principal, target: string): Promise<(string | null)[]> {
  const answer = await get(principal, target)
  expect(answer).toMatchObject({ status: 200 })
  return readEntities.parse(answer.json).map(({ external_id }) => external_id)
}

/** bank (retail (cards (visa)), markets), leasing; numbered as listed here. */
async function someTree() {
  const tenant = newTenant()
  await universe.push(tenant, [
    row('visa', { parent_external_id: 'cards' }),
    row('bank', { type: 'legal_entity', owner: { email: 'Ada@example.com', name: 'Ada Lund' } }),
    row('retail', { parent_external_id: 'bank', residual_risk: { rating: 'high', score: 60 } }),
    row('cards', { parent_external_id: 'retail', inherent_risk: { rating: 'high', score: 70 } }),
    row('markets', { parent_external_id: 'bank', status: 'draft', description: 'Trading FLOOR' }),
    row('leasing', { type: 'legal_entity', last_audit_date: '2026-01-31', audit_frequency_months: 1 }),
  ])
  return tenant
}

describe('what is below and above an entity', () => {
  test.each(['children', 'ancestors'])("another tenant's entity has no %s: it does not exist", async (rest) => {
    const [tenant, stranger] = [await someTree(), newTenant()]
    const { bank } = await universe.stored(tenant)
    const headers = { 'x-request-id': 'the-same-request' }
    const missing = await get(stranger, `${path}/${crypto.randomUUID()}/${rest}`, headers)
    expect(missing.status).toBe(404)
    for (const address of [bank?.id, `ref:${bank?.reference}`, 'ext:bank']) {
      expect((await get(stranger, `${path}/${address}/${rest}`, headers)).text).toBe(missing.text)
      expect((await get(tenant, `${path}/${address}/${rest}`)).status).toBe(200)
    }
    expect((await get({ ...tenant, scopes: ['read:findings'] }, `${path}/ext:bank/${rest}`)).status).toBe(403)
  })

  test.each(['0', '13', 'x', '1.5', '-1', ''])('a depth of %s is refused', async (depth) => {
    const answer = await get(await someTree(), `${path}/ext:bank/children?depth=${depth}`)
    expect(answer.status).toBe(400)
    expect(problemSchema.parse(answer.json).errors?.map((error) => error.parameter)).toEqual(['depth'])
  })

  test('children are listed to the depth that is asked for, parents first', async () => {
    const tenant = await someTree()
    const children = async (query: string) => await keysOf(tenant, `${path}/ext:bank/children${query}`)
    expect(await children('')).toEqual(['retail', 'markets'])
    expect(await children('?depth=2')).toEqual(['retail', 'cards', 'markets'])
    expect(await children('?depth=12')).toEqual(['retail', 'cards', 'visa', 'markets'])
    expect(await children('?depth=12&status=active')).toEqual(['retail', 'cards', 'visa'])
    expect(await keysOf(tenant, `${path}/ext:visa/children?depth=12`)).toEqual([])
    const counted = await get(tenant, `${path}/ext:bank/children?depth=2&count=true&limit=1`)
    expect(counted.headers['x-total-count']).toBe('3')
  })

  test('ancestors are listed from the root down', async () => {
    const tenant = await someTree()
    expect(await keysOf(tenant, `${path}/ext:visa/ancestors`)).toEqual(['bank', 'retail', 'cards'])
    expect(await keysOf(tenant, `${path}/ext:bank/ancestors`)).toEqual([])
  })

  test('what hangs below an entity moves with it', async () => {
    const tenant = await someTree()
    await universe.push(tenant, [row('retail', { parent_external_id: 'leasing' })])
    expect(await keysOf(tenant, `${path}/ext:visa/ancestors`)).toEqual(['leasing', 'retail', 'cards'])
    expect(await keysOf(tenant, `${path}?subtree_of=ext:bank`)).toEqual(['bank', 'markets'])
    expect(await keysOf(tenant, `${path}?subtree_of=ext:leasing`)).toEqual(['leasing', 'retail', 'cards', 'visa'])
    // Two that change places at once, and one that comes between them.
    await universe.push(tenant, [
      row('leasing', { parent_external_id: 'cards' }),
      row('retail', { parent_external_id: 'between' }),
      row('cards'),
      row('between', { parent_external_id: 'leasing' }),
    ])
    expect(await keysOf(tenant, `${path}/ext:retail/ancestors`)).toEqual(['cards', 'leasing', 'between'])
  })

  test('an entity is read with its ancestors and nodes where it is asked for', async () => {
    const tenant = await someTree()
    await universe.pushTo(tenant, 'org-structures', legal([node('top'), node('unit', 'top', { entities: ['cards'] })]))
    const target = `${path}/ext:cards?expand=ancestors,nodes`
    const answer = await get(tenant, target)
    const read = expandedEntitySchema.parse(answer.json)
    expect(read.ancestors?.map(({ reference, name }) => [reference, name])).toEqual([
      ['AE-0002', 'Entity bank'],
      ['AE-0003', 'Entity retail'],
    ])
    expect(read.nodes).toMatchObject([{ hierarchy: 'legal', node_key: 'unit', name: 'Node unit' }])
    expect((await get(tenant, `${path}/ext:cards`)).json).not.toHaveProperty('ancestors')
    const headers = { 'if-none-match': answer.headers['etag'] ?? '' }
    expect((await get(tenant, target, headers)).status).toBe(304)
    await universe.push(tenant, [row('bank', { name: 'Renamed' })])
    expect((await get(tenant, target, headers)).status).toBe(200)
    expect((await get(tenant, `${path}/ext:cards?expand=finding`)).status).toBe(400)
  })

  test('an entity in many nodes is returned with the first two hundred of them, in a list with the first twenty', async () => {
    const tenant = await someTree()
    const all = Array.from({ length: 201 }, (_none, at) => `place-${String(at).padStart(3, '0')}`)
    const places = all.map((key) => node(key, 'top', { entities: ['cards'] }))
    await universe.pushTo(tenant, 'org-structures', legal([node('top'), ...places]))
    const one = expandedEntitySchema.parse((await get(tenant, `${path}/ext:cards?expand=nodes`)).json)
    const listed = z.array(expandedEntitySchema).parse((await get(tenant, `${path}?expand=nodes`)).json)
    expect(placesIn(one)).toEqual(all.slice(0, 200))
    expect(placesIn(listed.find(({ external_id: key }) => key === 'cards'))).toEqual(all.slice(0, 20))
    expect(placesIn(listed.find(({ external_id: key }) => key === 'bank'))).toEqual([])
  })

  test('each entity of a page is, by the same word, and beside those of another tenant', async () => {
    const [tenant] = [await someTree(), await someTree()]
    await universe.pushTo(tenant, 'org-structures', legal([node('top'), node('unit', 'top', { entities: ['cards'] })]))
    const target = `${path}?expand=ancestors,nodes`
    const read = z.array(expandedEntitySchema).parse((await get(tenant, target)).json)
    const placed = read.map(({ external_id: key, ancestors = [], nodes = [] }) => [
      key,
      ancestors.map(({ name }) => name),
      nodes.map(({ node_key }) => node_key),
    ])
    expect(placed).toContainEqual(['bank', [], []])
    expect(placed).toContainEqual(['cards', ['Entity bank', 'Entity retail'], ['unit']])
    expect((await get(tenant, `${target}&limit=101`)).status).toBe(400)
    expect((await get(tenant, target, { accept: 'text/csv' })).status).toBe(400)
  })

  test('open findings are counted only by the findings service, for callers that can read findings', async () => {
    const tenant = await someTree()
    const reader = { ...tenant, scopes: [...tenant.scopes, 'read:findings'] }
    for (const target of [`${path}/ext:cards?expand=finding_counts`, `${path}?expand=finding_counts`]) {
      const narrow = await get(tenant, target)
      expect([narrow.status, narrow.text.includes('open_findings')]).toEqual([200, false])
      // Nobody answers for it here; what it counts is shown with the real one.
      const away = await get(reader, target)
      expect([away.status, away.headers['retry-after']]).toEqual([503, '1'])
    }
  })
})

describe('a list of entities', () => {
  test.each([
    ['?parent_id=none', ['bank', 'leasing']],
    ['?subtree_of=ext:retail', ['retail', 'cards', 'visa']],
    ['?subtree_of=ref:AE-0003', ['retail', 'cards', 'visa']],
    ['?subtree_of=ext:bank&sort=reference', ['visa', 'bank', 'retail', 'cards', 'markets']],
    ['?subtree_of=ext:bank&sort=-name', ['visa', 'retail', 'markets', 'cards', 'bank']],
    ['?subtree_of=ext:bank&status=draft', ['markets']],
    ['?subtree_of=ext:nobody', []],
    ['?owner=ada@EXAMPLE.com', ['bank']],
    ['?owner=ada%20lund', ['bank']],
    ['?owner=019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001', []],
    ['?risk_rating=high', ['retail', 'cards']],
    ['?risk_rating=low,medium', []],
    ['?next_audit_due_before=2026-03-01', ['leasing']],
    ['?next_audit_due_before=2026-02-28', []],
    ['?next_audit_due_before=0001-01-01', []],
    ['?q=floor', ['markets']],
    ['?q=ae-0002', ['bank']],
    ['?q=%25', []],
    ['?sort=name', ['bank', 'cards', 'leasing', 'markets', 'retail', 'visa']],
    ['?sort=-reference', ['leasing', 'markets', 'cards', 'retail', 'bank', 'visa']],
    ['?sort=next_audit_due', ['leasing', 'visa', 'bank', 'retail', 'cards', 'markets']],
    ['?sort=-next_audit_due', ['markets', 'cards', 'retail', 'bank', 'visa', 'leasing']],
    ['?sort=updated_at', ['visa', 'bank', 'retail', 'cards', 'markets', 'leasing']],
  ])('narrows and sorts by %s', async (query, keys) => {
    const tenant = await someTree()
    expect(await keysOf(tenant, path + query)).toEqual(keys)
    // The same in pages of one, which begin each behind the one before.
    const seen: (string | null)[] = []
    let next: string | undefined = `${path}${query}&limit=2`
    while (next !== undefined) {
      seen.push(...(await keysOf(tenant, next)))
      next = nextOf((await get(tenant, next)).headers['link'])
    }
    expect(seen).toEqual(keys)
    const counted = await get(tenant, `${path}${query}&limit=1&count=true`)
    expect(counted.headers['x-total-count']).toBe(String(keys.length))
  })

  test('is narrowed to the children of an entity, and to a synced person who owns it by his address', async () => {
    const tenant = await someTree()
    const { bank } = await universe.stored(tenant)
    expect(await keysOf(tenant, `${path}?parent_id=${bank?.id}`)).toEqual(['retail', 'markets'])
    expect(await keysOf(tenant, `${path}?parent_id=${bank?.id},ext:retail`)).toEqual(
      expect.arrayContaining(['retail', 'markets', ...(await keysOf(tenant, `${path}?parent_id=ext:retail`))]),
    )
    expect(await keysOf(tenant, `${path}?parent_id=ref:${bank?.reference}`)).toEqual(['retail', 'markets'])
    expect(await keysOf(newTenant(), `${path}?parent_id=${bank?.id}`)).toEqual([])
    await universe.pushTo(tenant, 'people', { people: [{ external_id: 'p', name: 'Ada', email: 'ada@example.com' }] })
    const [ada] = (await get(tenant, '/api/v1/people')).json as { id: string }[]
    expect(await keysOf(tenant, `${path}?owner=${ada?.id}`)).toEqual(['bank'])
    const owners = { id: { person_id: ada?.id }, name: { name: 'ada' }, other: { email: 'eve@example.com' } }
    await universe.push(
      tenant,
      Object.entries(owners).map(([key, owner]) => row(key, { owner })),
    )
    for (const owner of [ada?.id, 'ADA@example.com', 'Ada']) {
      expect((await keysOf(tenant, `${path}?owner=${owner}`)).toSorted(), owner).toEqual(['bank', 'id', 'name'])
    }
  })

  test.each(['İpek Yılmaz', 'ΟΔΥΣΣΕΥΣ'])(
    'is narrowed to an owner by the name %s, written in any case',
    async (name) => {
      const tenant = newTenant()
      await universe.push(tenant, [row('a', { owner: { name } }), row('b')])
      expect(await keysOf(tenant, `${path}?owner=${encodeURIComponent(name)}`)).toEqual(['a'])
    },
  )

  test('is narrowed to a hierarchy, and to the subtree of a node of it', async () => {
    const [tenant, other] = [await someTree(), await someTree()]
    await universe.pushTo(
      tenant,
      'org-structures',
      legal([
        node('a', undefined, { entities: ['leasing'] }),
        node('b', 'a', { entities: ['cards', 'visa'] }),
        node('c', undefined, { entities: ['markets'] }),
        node('d', undefined, { entities: ['bank'], status: 'inactive' }),
      ]),
    )
    expect(await keysOf(tenant, `${path}?hierarchy=legal`)).toEqual(['visa', 'cards', 'markets', 'leasing'])
    expect(await keysOf(tenant, `${path}?hierarchy=legal&subtree_of=key:a`)).toEqual(['visa', 'cards', 'leasing'])
    expect(await keysOf(tenant, `${path}?hierarchy=legal&subtree_of=key:b&type=process`)).toEqual(['visa', 'cards'])
    expect(await keysOf(tenant, `${path}?hierarchy=legal&subtree_of=key:nobody`)).toEqual([])
    expect(await keysOf(tenant, `${path}?hierarchy=other`)).toEqual([])
    expect(await keysOf(other, `${path}?hierarchy=legal`)).toEqual([])
  })

  test('a forged place in a cursor is refused, whatever it holds', async () => {
    const tenant = await someTree()
    for (const sort of ['name', 'updated_at', 'next_audit_due', 'tree&subtree_of=ext:bank']) {
      const next = nextOf((await get(tenant, `${path}?limit=1&sort=${sort}`)).headers['link']) ?? ''
      expect((await get(tenant, next)).status).toBe(200)
      const cursor = new URL(next, universe.url).searchParams.get('cursor') ?? ''
      const [binding] = JSON.parse(Buffer.from(cursor, 'base64url').toString())
      for (const value of [
        null,
        7,
        'a\u0000',
        '0000-01-01',
        '9999-99-99',
        'x'.repeat(300),
        '0000-01-01T00:00:00.000Z',
      ]) {
        const forged = Buffer.from(JSON.stringify([binding, { value, tie: 1 }])).toString('base64url')
        const target = `${path}?limit=1&sort=${sort}&cursor=${forged}`
        const { status } = await get(tenant, target)
        expect([sort, value, status < 500]).toEqual([sort, value, true])
      }
      const forged = Buffer.from(JSON.stringify([binding, { value: 'a\u0000', tie: 1 }])).toString('base64url')
      expect((await get(tenant, `${path}?limit=1&sort=${sort}&cursor=${forged}`)).status).toBe(400)
    }
  })
})

test.each([`${path}?subtree_of=ext:top&limit=1000`, `${path}/ext:top/children?depth=2&limit=1000`])(
  'long entities come in shorter pages, and are whole, in the order of the tree too: %s',
  async (first) => {
    const tenant = newTenant()
    await universe.push(tenant, [row('top')])
    const custom = Object.fromEntries(Array.from({ length: 50 }, (_none, at) => [`field_${at}`, 'x'.repeat(4000)]))
    const keys = Array.from({ length: 120 }, (_none, at) => `E${String(at).padStart(3, '0')}`)
    for (let from = 0; from < keys.length; from += 40) {
      const rows = keys.slice(from, from + 40).map((key) => row(key, { parent_external_id: 'top', custom }))
      expect((await universe.push(tenant, rows)).status).toBe(200)
    }
    const pages: (string | null)[][] = []
    for (let next: string | undefined = first; next !== undefined;) {
      const answer = await get(tenant, next)
      expect(answer.text.length).toBeLessThan(18 * 1024 * 1024)
      pages.push(readEntities.parse(answer.json).map(({ external_id }) => external_id))
      next = nextOf(answer.headers['link'])
    }
    expect(pages.length).toBeGreaterThan(1)
    expect(pages.flat().filter((key) => key !== 'top')).toEqual(keys)
  },
)
