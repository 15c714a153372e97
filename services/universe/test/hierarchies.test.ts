import {
  hierarchySchema,
  nodeChangeSchema,
  nodeSchema,
  problemSchema,
  treeNodeSchema,
  type HierarchyNode,
} from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type Principal, type UniverseUnderTest, legal, newTenant, nextOf, node, startUniverse } from './service.ts'

let universe: UniverseUnderTest
beforeAll(async () => {
  universe = await startUniverse()
})
afterAll(async () => await universe.close())

const base = '/api/v1/hierarchies'
const get = async (principal: Principal, target: string, headers: Record<string, string> = {}) =>
  await universe.gateway.call(principal, 'GET', target, { headers })
const push = async (principal: Principal, nodes: readonly object[], given: object = {}) =>
  await universe.pushTo(principal, 'org-structures', legal(nodes, given))

async function nodesOf(principal: Principal, query = ''): Promise<HierarchyNode[]> {
  const answer = await get(principal, `${base}/legal/nodes${query}`)
  expect(answer).toMatchObject({ status: 200 })
  return z.array(nodeSchema).parse(answer.json)
}
const keysOf = async (principal: Principal, query = '') =>
  (await nodesOf(principal, query)).map(({ node_key }) => node_key)

const small = [
  node('retail', 'bank', { level_name: 'Division', head: { name: 'Ada Lund' } }),
  node('bank', undefined, { valid_from: '2020-01-01', valid_to: '2030-01-01' }),
  node('cards', 'retail'),
  node('leasing'),
]
async function someHierarchy(tenant = newTenant()) {
  expect(await push(tenant, small)).toMatchObject({ status: 200 })
  return tenant
}

describe('reading hierarchies', () => {
  test.each(['', '/legal', '/legal/nodes', '/legal/tree', '/legal/diff?from=0'])(
    'is refused without read:universe: %s',
    async (target) => {
      const tenant = await someHierarchy()
      const denied = await get({ ...tenant, scopes: ['read:findings', 'admin:sync'] }, base + target)
      expect([denied.status, denied.json]).toMatchObject([403, { required_scope: 'read:universe' }])
      expect((await get(tenant, base + target)).status).toBe(200)
    },
  )

  test('lists current and earlier nodes by name or key, up or down, page by page', async () => {
    const tenant = await someHierarchy()
    const one = { level_name: 'Division', head: { name: 'Ada Lund' }, name: 'A first one' }
    await push(tenant, [node('retail', 'bank', one), ...small.slice(1), node('twin', 'bank', { name: 'Node cards' })])
    const keys = ['bank', 'cards', 'leasing', 'retail', 'twin']
    expect(await keysOf(tenant, '?sort=node_key')).toEqual(keys)
    expect(await keysOf(tenant, '?sort=-node_key')).toEqual(keys.toReversed())
    const named = ['retail', 'bank', 'cards', 'twin', 'leasing']
    expect(await keysOf(tenant, '?sort=name')).toEqual(named)
    expect(await keysOf(tenant, '?sort=-name')).toEqual(named.toReversed())
    expect(await keysOf(tenant, '?sort=name&as_of=1')).toEqual(['bank', 'cards', 'leasing', 'retail'])
    expect(await keysOf(tenant, '?sort=-node_key&as_of=1')).toEqual(['retail', 'leasing', 'cards', 'bank'])
    expect(await keysOf(tenant, '?sort=name&subtree_of=key:retail')).toEqual(['retail', 'cards'])
    expect(await keysOf(tenant, '?sort=-name&depth=1')).toEqual(['leasing', 'bank'])
    for (const query of ['sort=name', 'sort=-name', 'sort=name&as_of=1', 'sort=-node_key', 'sort=node_key&as_of=1']) {
      const paged: string[] = []
      for (let next: string | undefined = `${base}/legal/nodes?${query}&limit=1`; next !== undefined;) {
        const answer = await get(tenant, next)
        paged.push(
          ...z
            .array(nodeSchema)
            .parse(answer.json)
            .map(({ node_key }) => node_key),
        )
        next = nextOf(answer.headers['link'])
      }
      expect([query, paged]).toEqual([query, await keysOf(tenant, `?${query}`)])
    }
    expect((await get(tenant, `${base}/legal/nodes?sort=colour`)).status).toBe(400)
  })

  test('a cursor within a tree is the path of the last node, as a text', async () => {
    const tenant = await someHierarchy()
    const next = nextOf((await get(tenant, `${base}/legal/nodes?limit=2`)).headers['link']) ?? ''
    const cursor = new URL(next, universe.url).searchParams.get('cursor') ?? ''
    const [binding, key] = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    expect(key).toMatch(/^[0-9a-f]{16}$/)
    expect((await get(tenant, next)).status).toBe(200)
    const forged = Buffer.from(JSON.stringify([binding, { value: key, tie: '' }])).toString('base64url')
    expect((await get(tenant, `${base}/legal/nodes?limit=2&cursor=${forged}`)).status).toBe(400)
  })

  test('does not count what differs', async () => {
    const tenant = await someHierarchy()
    expect((await get(tenant, `${base}/legal/diff?from=0&count=true`)).status).toBe(400)
    expect((await get(tenant, `${base}/legal/diff?from=0`)).status).toBe(200)
  })

  test("another tenant's hierarchy is, to the byte, one that does not exist", async () => {
    const [tenant, other] = [await someHierarchy(), newTenant()]
    await push(other, [node('own')], { key: 'own' })
    const headers = { 'x-request-id': 'the-same-request' }
    for (const rest of ['', '/nodes', '/tree', '/diff?from=0']) {
      const missing = await get(other, `${base}/nowhere${rest}`, headers)
      expect(missing.status).toBe(404)
      expect((await get(other, `${base}/legal${rest}`, headers)).text).toBe(missing.text)
      expect((await get(tenant, `${base}/legal${rest}`)).status).toBe(200)
    }
    const [bank] = await nodesOf(tenant)
    for (const top of [bank?.id, 'key:bank', crypto.randomUUID()]) {
      expect((await get(other, `${base}/own/nodes?subtree_of=${top}`)).text).toBe('[]')
      expect((await get(other, `${base}/own/tree?root=${top}`)).text).toBe('[]')
    }
  })

  test('a hierarchy, and all that is below it, is also found by its id, which goes before a key that looks like one', async () => {
    const tenant = await someHierarchy()
    const { id } = hierarchySchema.parse((await get(tenant, `${base}/legal`)).json)
    await push(tenant, [node('other')], { key: id })
    for (const rest of [
      '',
      '/nodes',
      '/nodes?as_of=1&count=true',
      '/nodes?subtree_of=key:retail',
      '/tree',
      '/diff?from=0',
    ]) {
      const byKey = await get(tenant, `${base}/legal${rest}`)
      expect(byKey.status, rest).toBe(200)
      expect((await get(tenant, `${base}/${id.toUpperCase()}${rest}`)).text, rest).toBe(byKey.text)
      const headers = { 'x-request-id': 'the-same-request' }
      const [missing, foreign] = [
        await get(newTenant(), `${base}/${crypto.randomUUID()}${rest}`, headers),
        await get(newTenant(), `${base}/${id}${rest}`, headers),
      ]
      expect([foreign.status, foreign.text], rest).toEqual([404, missing.text])
    }
  })

  test('a node can be read by its id, has the key of its hierarchy, and returns 304 until it changes', async () => {
    const tenant = await someHierarchy()
    const [, retail] = await nodesOf(tenant)
    const target = `/api/v1/hierarchy-nodes/${retail?.id}`
    const read = await get(tenant, target)
    expect(read.json).toEqual({ ...retail, hierarchy: 'legal' })
    expect((await get({ ...tenant, scopes: ['read:findings', 'admin:sync'] }, target)).status).toBe(403)
    const headers = { 'x-request-id': 'the-same-request' }
    const missing = await get(newTenant(), `/api/v1/hierarchy-nodes/${crypto.randomUUID()}`, headers)
    const foreign = await get(newTenant(), target, headers)
    expect([foreign.status, foreign.text]).toEqual([404, missing.text])
    const known = { 'if-none-match': read.headers['etag'] ?? '' }
    expect((await get(tenant, target, known)).status).toBe(304)
    await push(tenant, [node('retail')], { mode: 'partial' })
    expect((await get(tenant, target, known)).json).toMatchObject({ parent_id: null, level_name: null })
  })

  test.each([
    ['/legal/nodes?depth=0', 'depth'],
    ['/legal/nodes?depth=33', 'depth'],
    ['/legal/nodes?as_of=tomorrow', 'as_of'],
    ['/legal/nodes?as_of=2', 'as_of'],
    ['/legal/nodes?as_of=2026-02-30', 'as_of'],
    ['/legal/nodes?status=gone', 'status'],
    ['/legal/nodes?subtree_of=bank', 'subtree_of'],
    ['/legal/nodes?cursor=abc', 'cursor'],
    ['/legal/tree?as_of=999999999', 'as_of'],
    ['/legal/tree?limit=5', 'limit'],
    ['/legal/diff', 'from'],
    ['/legal/diff?from=2', 'from'],
    ['/legal/diff?from=1&to=2', 'to'],
    ['/legal/diff?from=1&to=0', 'from'],
    ['/legal/diff?from=-1', 'from'],
  ])('a parameter that cannot be understood is refused: %s', async (target, parameter) => {
    const answer = await get(await someHierarchy(), base + target)
    expect(answer.status).toBe(400)
    expect(problemSchema.parse(answer.json).errors?.map((error) => error.parameter)).toContain(parameter)
  })

  test('a name that cannot be a key addresses nothing', async () => {
    for (const key of ['Legal', 'a%20b', '-'])
      expect((await get(await someHierarchy(), `${base}/${key}`)).status).toBe(404)
  })

  test('a hierarchy is answered 304 to who has read it, until it changes', async () => {
    const tenant = await someHierarchy()
    const first = await get(tenant, `${base}/legal`)
    const headers = { 'if-none-match': first.headers['etag'] ?? '' }
    expect((await get(tenant, `${base}/legal`, headers)).status).toBe(304)
    await push(tenant, small, { name: 'Other' })
    expect((await get(tenant, `${base}/legal`, headers)).json).toMatchObject({ name: 'Other', version: 1 })
  })

  test('nodes come parents first, narrowed to a subtree, levels, a status and a text', async () => {
    const tenant = await someHierarchy()
    expect(await keysOf(tenant)).toEqual(['bank', 'retail', 'cards', 'leasing'])
    expect(await keysOf(tenant, '?subtree_of=key:retail')).toEqual(['retail', 'cards'])
    const [bank] = await nodesOf(tenant)
    expect(await keysOf(tenant, `?subtree_of=${bank?.id}&depth=2`)).toEqual(['bank', 'retail'])
    expect(await keysOf(tenant, '?depth=1')).toEqual(['bank', 'leasing'])
    expect(await keysOf(tenant, '?q=DIVISION')).toEqual(['retail'])
    expect(await keysOf(tenant, '?status=inactive')).toEqual([])
    expect((await get(tenant, `${base}/legal/nodes?count=true&limit=1`)).headers['x-total-count']).toBe('4')
  })

  test('pages are the whole list', async () => {
    const tenant = newTenant()
    await push(
      tenant,
      Array.from({ length: 30 }, (_, at) => node(`n${at}`, at === 0 ? undefined : `n${Math.floor((at - 1) / 3)}`)),
    )
    const whole = await keysOf(tenant)
    expect(whole).toHaveLength(30)
    for (const query of ['limit=7', 'limit=7&as_of=1']) {
      const seen: string[] = []
      let next: string | undefined = `${base}/legal/nodes?${query}`
      while (next !== undefined) {
        const answer = await get(tenant, next)
        seen.push(
          ...z
            .array(nodeSchema)
            .parse(answer.json)
            .map(({ node_key }) => node_key),
        )
        next = nextOf(answer.headers['link'])
      }
      expect(seen).toEqual(whole)
    }
  })

  test('the tree is the nodes, nested', async () => {
    const tenant = await someHierarchy()
    const tree = z.array(treeNodeSchema).parse((await get(tenant, `${base}/legal/tree`)).json)
    expect(tree).toMatchObject([
      { node_key: 'bank', children: [{ node_key: 'retail', children: [{ node_key: 'cards', children: [] }] }] },
      { node_key: 'leasing', children: [] },
    ])
    const part = z.array(treeNodeSchema).parse((await get(tenant, `${base}/legal/tree?root=key:bank&depth=2`)).json)
    expect(part).toMatchObject([{ node_key: 'bank', children: [{ node_key: 'retail', children: [] }] }])
  })

  test('a tree of more than 5,000 nodes is refused; a part of it is not', async () => {
    const tenant = newTenant()
    const many = Array.from({ length: 5000 }, (_, at) => node(`n${at}`, 'root'))
    await push(tenant, [node('root'), ...many])
    const answer = await get(tenant, `${base}/legal/tree`)
    expect(answer.status).toBe(400)
    expect(problemSchema.parse(answer.json).errors).toEqual([
      expect.objectContaining({ parameter: 'root', code: 'too_large' }),
    ])
    expect((await get(tenant, `${base}/legal/tree?depth=1`)).status).toBe(200)
    expect((await get(tenant, `${base}/legal/tree?root=key:n17`)).status).toBe(200)
  })
})

async function threeVersions() {
  const tenant = await someHierarchy()
  // 2: retail moves and loses its head; cards, which is below it, moves with it.
  await push(tenant, [node('retail', 'leasing', { level_name: 'Division' })], { mode: 'partial' })
  // 3: cards goes, markets comes.
  await push(tenant, [...small.filter((one) => !JSON.stringify(one).includes('"cards"')), node('markets', 'bank')])
  return tenant
}

describe('the history of a hierarchy', () => {
  test('each version remains readable by its number', async () => {
    const tenant = await threeVersions()
    expect(await keysOf(tenant, '?as_of=0')).toEqual([])
    expect(await keysOf(tenant, '?as_of=1')).toEqual(['bank', 'retail', 'cards', 'leasing'])
    expect(await keysOf(tenant, '?as_of=2')).toEqual(['bank', 'leasing', 'retail', 'cards'])
    expect(await keysOf(tenant, '?as_of=3')).toEqual(['bank', 'retail', 'cards', 'markets', 'leasing'])
    expect(await nodesOf(tenant, '?as_of=3')).toEqual(await nodesOf(tenant))
    expect(await keysOf(tenant, '?as_of=2&subtree_of=key:leasing&depth=2')).toEqual(['leasing', 'retail'])
    expect(await keysOf(tenant, '?as_of=1&status=inactive')).toEqual([])
    expect(await keysOf(tenant, '?status=inactive')).toEqual(['cards'])
    const [, retail] = await nodesOf(tenant, '?as_of=1')
    expect(retail).toMatchObject({ head: { name: 'Ada Lund' }, depth: 2, since_version: 1 })
    const counted = await get(tenant, `${base}/legal/nodes?as_of=2&count=true&limit=1`)
    expect(counted.headers['x-total-count']).toBe('4')
  })

  test('and by its day', async () => {
    const tenant = await threeVersions()
    const today = new Date().toISOString().slice(0, 10)
    expect(await keysOf(tenant, '?as_of=2020-01-01')).toEqual([])
    expect(await keysOf(tenant, '?as_of=0001-01-01')).toEqual([])
    expect([await keysOf(tenant, `?as_of=${today}`), await keysOf(tenant, '?as_of=9999-12-31')]).toContainEqual(
      await keysOf(tenant),
    )
  })

  test('the difference of two versions names the nodes that differ, and how', async () => {
    const tenant = await threeVersions()
    const diff = async (query: string) =>
      z
        .array(nodeChangeSchema)
        .parse((await get(tenant, `${base}/legal/diff?${query}`)).json)
        .map(({ change, fields, after }) => [after.node_key, change, ...fields])
    expect(await diff('from=1&to=1')).toEqual([])
    // What merely moved along with its parent reads as before.
    expect(await diff('from=1&to=2')).toEqual([['retail', 'changed', 'parent_id', 'head']])
    expect(await diff('from=2')).toEqual([
      ['retail', 'changed', 'parent_id', 'head'],
      ['cards', 'changed', 'status'],
      ['markets', 'added'],
    ])
    expect(await diff('from=1&to=3')).toEqual([
      ['cards', 'changed', 'status'],
      ['markets', 'added'],
    ])
    expect((await diff('from=0&to=1')).map(([key]) => key)).toEqual(['retail', 'bank', 'cards', 'leasing'])
    const [changed] = z.array(nodeChangeSchema).parse((await get(tenant, `${base}/legal/diff?from=1&to=2`)).json)
    expect(changed?.before).toMatchObject({ head: { name: 'Ada Lund' } })
    expect(changed?.after).toMatchObject({ head: null, depth: 2 })
  })

  test('differences come in pages', async () => {
    const tenant = await threeVersions()
    const seen: string[] = []
    let next: string | undefined = `${base}/legal/diff?from=0&limit=2`
    while (next !== undefined) {
      const answer = await get(tenant, next)
      seen.push(
        ...z
          .array(nodeChangeSchema)
          .parse(answer.json)
          .map(({ after }) => after.node_key),
      )
      next = nextOf(answer.headers['link'])
    }
    // By the order of their last change.
    expect(seen).toEqual(['bank', 'leasing', 'retail', 'cards', 'markets'])
  })
})
