import { hierarchySchema, nodeSchema, problemSchema, type HierarchyNode } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type Principal, type UniverseUnderTest, legal, newTenant, node, row, startUniverse } from './service.ts'

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
/** A chain of so many nodes, the root first. */
function chain(name: string, length: number): object[] {
  return Array.from({ length }, (_, at) => node(`${name}${at}`, at === 0 ? undefined : `${name}${at - 1}`))
}

async function someHierarchy(tenant = newTenant()) {
  expect(await push(tenant, small)).toMatchObject({ status: 200 })
  return tenant
}

describe('pushing a hierarchy', () => {
  test('is only for the sync service', async () => {
    const tenant = newTenant(['admin:sync', 'read:universe'])
    const body = { run_id: crypto.randomUUID(), ...legal(small) }
    const target = '/internal/v1/org-structures'
    expect((await universe.gateway.call(tenant, 'POST', target, { body })).status).toBe(401)
    expect((await universe.stranger.call(tenant, 'POST', target, { body })).status).toBe(401)
    expect((await universe.sync.call(tenant, 'POST', target, { body })).status).toBe(401)
    expect((await push(tenant, small)).status).toBe(200)
  })

  test.each([
    ['no nodes', [], '/nodes'],
    ['a node without a key', [node('a', undefined, { node_key: undefined })], '/nodes/0/node_key'],
    ['a node without a name', [node('a'), node('b', undefined, { name: '' })], '/nodes/1/name'],
    ['an unknown field', [node('a', undefined, { path: 'x' })], '/nodes/0/path'],
    ['an unknown status', [node('a', undefined, { status: 'gone' })], '/nodes/0/status'],
    ['NUL in a name', [node('a', undefined, { name: 'a\u0000b' })], '/nodes/0/name'],
    ['a lone surrogate in a name', [node('a', undefined, { name: 'a\ud800b' })], '/nodes/0/name'],
    ['a name that is too long', [node('a', undefined, { name: 'n'.repeat(256) })], '/nodes/0/name'],
    ['a day that does not exist', [node('a', undefined, { valid_from: '2026-02-30' })], '/nodes/0/valid_from'],
    ['a day before 1900', [node('a', undefined, { valid_to: '0001-01-01' })], '/nodes/0/valid_to'],
    [
      'an end before the beginning',
      [node('a', undefined, { valid_from: '2026-01-02', valid_to: '2026-01-01' })],
      '/nodes/0/valid_to',
    ],
    ['a key twice', [node('a'), node('b'), node('a')], '/nodes/2/node_key'],
    ['an unknown parent', [node('a'), node('b', 'nobody')], '/nodes/1/parent_key'],
    ['a parent that is stored, but not in a full push', [node('a', 'before')], '/nodes/0/parent_key'],
    ['a node above itself', [node('a', 'a')], '/nodes/0/parent_key'],
    ['a circle', [node('a', 'b'), node('b', 'a')], '/nodes/1/parent_key'],
    ['an unknown entity', [node('a', undefined, { entities: ['E', 'nobody'] })], '/nodes/0/entities/1'],
    ['an entity twice', [node('a', undefined, { entities: ['E', 'E'] })], '/nodes/0/entities'],
    [
      'a chain that is too long',
      Array.from({ length: 33 }, (_, at) => node(`n${at}`, at === 0 ? undefined : `n${at - 1}`)),
      '/nodes/32/parent_key',
    ],
  ])('takes nothing in when one row is wrong: %s', async (_what, nodes, pointer) => {
    const tenant = newTenant()
    await universe.push(tenant, [row('E')])
    await push(tenant, [node('before')])
    const answer = await push(tenant, nodes)
    expect(answer.status).toBe(422)
    expect(problemSchema.parse(answer.json).errors?.map((error) => error.pointer)).toContain(pointer)
    expect(await keysOf(tenant)).toEqual(['before'])
    expect(hierarchySchema.parse((await get(tenant, `${base}/legal`)).json).version).toBe(1)
  })

  test.each([
    ['a key that is no key', { key: 'Legal tree' }, '/key'],
    ['an unknown kind', { kind: 'forest' }, '/kind'],
    ['an unknown mode', { mode: 'some' }, '/mode'],
    ['a name of nothing', { name: ' ' }, '/name'],
    ['a word for being the primary one', { is_primary: 'no' }, '/is_primary'],
  ])('is refused with %s', async (_what, given, pointer) => {
    const answer = await push(newTenant(), small, given)
    expect(answer.status).toBe(422)
    expect(problemSchema.parse(answer.json).errors?.map((error) => error.pointer)).toEqual([pointer])
  })

  test('a circle through what is stored is refused, with the row that would close it', async () => {
    const tenant = await someHierarchy()
    const answer = await push(tenant, [node('x'), node('bank', 'cards')], { mode: 'partial' })
    expect(answer.status).toBe(422)
    expect(problemSchema.parse(answer.json).errors).toEqual([
      expect.objectContaining({ pointer: '/nodes/1/parent_key', code: 'cycle' }),
    ])
    expect(await keysOf(tenant)).toEqual(['bank', 'retail', 'cards', 'leasing'])
  })

  test('a branch that is moved too far down is refused, with the row that moves it', async () => {
    const tenant = newTenant()
    expect((await push(tenant, [...chain('p', 20), ...chain('q', 13)])).status).toBe(200)
    const answer = await push(tenant, [node('other'), node('q0', 'p19')], { mode: 'partial' })
    expect(problemSchema.parse(answer.json).errors).toEqual([
      expect.objectContaining({ pointer: '/nodes/1/parent_key', code: 'too_deep' }),
    ])
    expect((await push(tenant, [node('q0', 'p18')], { mode: 'partial' })).status).toBe(200)
    expect(Math.max(...(await nodesOf(tenant)).map(({ depth }) => depth))).toBe(32)
  })

  test("another tenant's node and entity are answered as ones that do not exist", async () => {
    const [tenant, other] = [newTenant(), await someHierarchy()]
    await universe.push(other, [row('theirs')])
    const headers = { 'x-request-id': 'the-same-request' }
    const pushed = async (principal: Principal, nodes: readonly object[]) =>
      await universe.pushTo(principal, 'org-structures', legal(nodes, { mode: 'partial' }), headers)
    const missing = await pushed(tenant, [node('a', 'nowhere', { entities: ['nobody'] })])
    expect(missing.status).toBe(422)
    expect((await pushed(tenant, [node('a', 'bank', { entities: ['theirs'] })])).text).toBe(missing.text)
    expect((await pushed(other, [node('a', 'bank', { entities: ['theirs'] })])).status).toBe(200)
  })

  test('creates the pushed nodes, with parents in any order', async () => {
    const tenant = newTenant()
    await universe.push(tenant, [row('A'), row('B')])
    const answer = await push(tenant, [...small, node('it', 'leasing', { entities: ['B', 'A'], status: 'inactive' })])
    expect(answer.json).toEqual({ created: 5, updated: 0, unchanged: 0, deactivated: 0 })
    const { A, B } = await universe.stored(tenant)
    const [bank, retail, cards, leasing, it] = await nodesOf(tenant)
    expect(bank).toMatchObject({ parent_id: null, depth: 1, valid_from: '2020-01-01', valid_to: '2030-01-01' })
    expect(retail).toMatchObject({ parent_id: bank?.id, depth: 2, level_name: 'Division', head: { name: 'Ada Lund' } })
    expect(cards).toMatchObject({ parent_id: retail?.id, depth: 3, entity_ids: [], since_version: 1 })
    expect(it).toMatchObject({ parent_id: leasing?.id, status: 'inactive', entity_ids: [B?.id, A?.id] })
    expect((await get(tenant, `${base}/legal`)).json).toMatchObject({ version: 1, node_count: 4, is_primary: true })
  })

  test('the same push again changes nothing: no version, no time', async () => {
    const tenant = await someHierarchy()
    const before = [await get(tenant, `${base}/legal`), await nodesOf(tenant)]
    const again = await push(tenant, small.toReversed())
    expect(again.json).toEqual({ created: 0, updated: 0, unchanged: 4, deactivated: 0 })
    const after = [await get(tenant, `${base}/legal`), await nodesOf(tenant)]
    expect(JSON.stringify(after[1])).toBe(JSON.stringify(before[1]))
    expect(z.object({ text: z.string() }).parse(after[0]).text).toBe(
      z.object({ text: z.string() }).parse(before[0]).text,
    )
  })

  test('a full push deactivates what it leaves out, a partial one leaves it', async () => {
    const tenant = await someHierarchy()
    const partial = await push(tenant, [node('leasing', undefined, { name: 'Leasing' })], { mode: 'partial' })
    expect(partial.json).toEqual({ created: 0, updated: 1, unchanged: 0, deactivated: 0 })
    const full = await push(tenant, [node('bank', undefined, { valid_from: '2020-01-01', valid_to: '2030-01-01' })])
    expect(full.json).toEqual({ created: 0, updated: 0, unchanged: 1, deactivated: 3 })
    expect(await keysOf(tenant, '?status=active')).toEqual(['bank'])
    expect(await keysOf(tenant)).toEqual(['bank', 'retail', 'cards', 'leasing'])
    expect((await get(tenant, `${base}/legal`)).json).toMatchObject({ version: 3, node_count: 1 })
  })

  test('the first hierarchy is the primary one, until another asks to be', async () => {
    const tenant = await someHierarchy()
    const asRead = { key: 'process', kind: 'process', is_primary: false }
    expect((await push(tenant, small, asRead)).status).toBe(200)
    const primary = async () =>
      z
        .array(hierarchySchema)
        .parse((await get(tenant, base)).json)
        .map(({ key, is_primary }) => [key, is_primary])
    expect(await primary()).toEqual([
      ['legal', true],
      ['process', false],
    ])
    await push(tenant, small, { key: 'process', kind: 'process', is_primary: true })
    await push(tenant, small, asRead)
    expect(await primary()).toEqual([
      ['legal', false],
      ['process', true],
    ])
  })

  test('stores people that come with it, or nothing of either', async () => {
    const tenant = newTenant()
    const people = [{ external_id: 'ada', name: 'Ada Lund', email: 'ada@example.com' }]
    const stored = async () => [await keysOf(tenant), (await get(tenant, '/api/v1/people')).json]
    expect(await push(tenant, [node('bank')], { people })).toMatchObject({ status: 200, json: { created: 2 } })
    const before = await stored()
    expect(before).toMatchObject([['bank'], [{ external_id: 'ada' }]])
    const renamed = [{ ...people[0], name: 'Ada' }]
    const orphan = [node('bank', undefined, { name: 'Other' }), node('cards', 'nowhere')]
    expect(await push(tenant, orphan, { people: renamed })).toMatchObject({
      status: 422,
      json: { errors: [{ pointer: '/nodes/1/parent_key' }] },
    })
    const taken = [...renamed, { external_id: 'bo', name: 'Bo', email: 'ada@example.com' }]
    expect(await push(tenant, [node('bank'), node('cards', 'bank')], { people: taken })).toMatchObject({
      status: 422,
      json: { errors: [{ pointer: '/people/1/email' }] },
    })
    expect(await stored()).toEqual(before)
  })

  test('pushes at the same moment are taken in one after the other', async () => {
    const tenant = newTenant()
    const answers = await Promise.all(
      Array.from({ length: 5 }, async (_, at) => await push(tenant, [node(`n${at}`)], { mode: 'partial' })),
    )
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
    expect((await nodesOf(tenant)).map(({ since_version }) => since_version)).toEqual([1, 2, 3, 4, 5])
  })
})
