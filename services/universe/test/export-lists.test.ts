import {
  entitySchema,
  hierarchySchema,
  nodeChangeSchema,
  nodeSchema,
  personSchema,
  testProcedureSchema,
} from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type Principal, type UniverseUnderTest, legal, newTenant, node, row, startUniverse } from './service.ts'

let universe: UniverseUnderTest
const tenant = newTenant()
// More than an export holds in memory at a time.
const size = 601

const person = (n: string) => ({ external_id: n, name: n === '0000' ? '=1+1' : `Person ${n}` })

beforeAll(async () => {
  universe = await startUniverse()
  const numbered = Array.from({ length: size }, (_, n) => String(n).padStart(4, '0'))
  await fill(tenant, {
    entities: numbered.map((n) => row(n, n === '0000' ? {} : { parent_external_id: '0000' })),
    people: numbered.map(person),
    procedures: numbered.map((n) => ({ external_id: n, title: `Test ${n}`, entities: ['0000', '0001'] })),
    nodes: numbered.map((n) => node(n, n === '0000' ? undefined : '0000')),
  })
  await fill(newTenant(), { entities: [row('a')], people: [person('a')], procedures: [], nodes: [node('a')] })
})
afterAll(async () => await universe.close())

async function fill(
  of: Principal,
  { entities, people, procedures, nodes }: Readonly<Record<'entities' | 'people' | 'procedures' | 'nodes', object[]>>,
): Promise<void> {
  const pushes = [
    await universe.push(of, entities),
    await universe.pushTo(of, 'people', { people }),
    ...(procedures.length === 0 ? [] : [await universe.pushTo(of, 'test-procedures', { test_procedures: procedures })]),
    await universe.pushTo(of, 'org-structures', legal(nodes)),
  ]
  for (const { status, text } of pushes) expect(status, text).toBe(200)
}

const get = async (target: string, accept: string, of: Principal = tenant) =>
  await universe.gateway.call(of, 'GET', target, { headers: { accept } })

const lists = [
  ['/api/v1/entities', entitySchema, size],
  ['/api/v1/entities?sort=-name&q=000', entitySchema, undefined],
  ['/api/v1/entities?subtree_of=ext:0000', entitySchema, size],
  ['/api/v1/entities/ext:0000/children', entitySchema, size - 1],
  ['/api/v1/entities/ext:0000/children?depth=2', entitySchema, size - 1],
  ['/api/v1/hierarchies', hierarchySchema, 1],
  ['/api/v1/hierarchies/legal/nodes', nodeSchema, size],
  ['/api/v1/hierarchies/legal/nodes?subtree_of=key:0001', nodeSchema, 1],
  ['/api/v1/hierarchies/legal/diff?from=0', nodeChangeSchema, size],
  ['/api/v1/test-procedures', testProcedureSchema, size],
  ['/api/v1/people', personSchema, size],
  ['/api/v1/people?sort=-name&q=000', personSchema, undefined],
] as const

describe.each(lists)('the list %s', (target, schema, count) => {
  test('is rejected as CSV for the same reasons as JSON: scope, cursor, media type', async () => {
    expect((await get(target, 'text/csv', newTenant(['read:findings']))).status).toBe(403)
    expect((await get(`${target}${target.includes('?') ? '&' : '?'}cursor=x`, 'text/csv')).status).toBe(400)
    expect((await get(target, 'application/pdf')).status).toBe(406)
  })

  test('is whole as NDJSON, in the order of its pages, and whole as CSV, whatever the limit', async () => {
    const limited = `${target}${target.includes('?') ? '&' : '?'}limit=7`
    const lines = (await get(limited, 'application/x-ndjson')).text.split('\n').slice(0, -1)
    const items = lines.map((line) => schema.parse(JSON.parse(line)))
    const firstPage = z.array(schema).parse((await get(limited, 'application/json')).json)
    expect(items.slice(0, firstPage.length)).toEqual(firstPage)
    expect(new Set(lines).size).toBe(items.length)
    if (count !== undefined) expect(items).toHaveLength(count)
    const csv = await get(limited, 'text/csv')
    expect(csv.headers['content-type']).toBe('text/csv; charset=utf-8; header=present')
    expect(csv.headers['vary']).toBe('accept')
    expect(csv.text.split('\r\n')).toHaveLength(items.length + 2)
    const members = Object.keys(schema.shape)
    const header = csv.text.split('\r\n', 1)[0]?.split(',') ?? []
    const isPart = (column: string): boolean => members.some((member) => column.startsWith(`${member}_`))
    expect(header.filter((column) => !isPart(column) || members.includes(column))).toEqual(members)
  })
})

test.each([
  '/api/v1/entities/ext:nobody/children',
  '/api/v1/hierarchies/nothing/nodes',
  '/api/v1/hierarchies/nothing/diff?from=0',
])('%s is 404 as CSV too', async (target) => {
  const answer = await get(target, 'text/csv')
  expect([answer.status, answer.headers['content-type']]).toEqual([404, 'application/problem+json'])
})

test('formulas are escaped for spreadsheets, and several ids are in one cell', async () => {
  expect((await get('/api/v1/people?external_id=0000', 'text/csv')).text).toContain(",'=1+1,")
  const csv = (await get('/api/v1/test-procedures?external_id=0007', 'text/csv')).text
  expect(csv).toMatch(/,[0-9a-f-]{36} [0-9a-f-]{36},/)
})

test('an export of nodes is of one version, though a push arrives while it is read', async () => {
  const of = newTenant()
  const nodes = Array.from({ length: 601 }, (_, n) => node(`n${String(n).padStart(4, '0')}`))
  await universe.pushTo(of, 'org-structures', legal(nodes))
  const target = '/api/v1/hierarchies/legal/nodes'
  const headers = { ...universe.signedHeaders(of, 'GET', target), accept: 'application/x-ndjson' }
  const answer = await fetch(new URL(target, universe.url), { headers })
  // The head is there once the first item is read; the rest is read as the client takes it, or has been already.
  await universe.pushTo(of, 'org-structures', legal(nodes.slice(0, 1)))
  const lines = (await answer.text()).split('\n').slice(0, -1)
  expect(lines.map((line) => nodeSchema.parse(JSON.parse(line)).status)).toEqual(nodes.map(() => 'active'))
  const after = (await get(`${target}?status=active`, 'application/x-ndjson', of)).text
  expect(after.split('\n').slice(0, -1)).toHaveLength(1)
})

test('HEAD of a list as CSV has only headers', async () => {
  const options = { headers: { accept: 'text/csv' } }
  const answer = await universe.gateway.call(tenant, 'HEAD', '/api/v1/people', options)
  expect([answer.status, answer.text, answer.headers['content-type']]).toEqual([
    200,
    '',
    'text/csv; charset=utf-8; header=present',
  ])
})
