import { personSchema, problemSchema, testProcedureSchema, type Person, type TestProcedure } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type Principal, type UniverseUnderTest, newTenant, nextOf, row, startUniverse } from './service.ts'

let universe: UniverseUnderTest
beforeAll(async () => {
  universe = await startUniverse()
})
afterAll(async () => await universe.close())

const procedures = '/api/v1/test-procedures'
const people = '/api/v1/people'
const get = async (principal: Principal, target: string, headers: Record<string, string> = {}) =>
  await universe.gateway.call(principal, 'GET', target, { headers })
const pushProcedures = async (principal: Principal, rows: readonly object[], headers?: Record<string, string>) =>
  await universe.pushTo(principal, 'test-procedures', { test_procedures: rows }, headers)
const pushPeople = async (principal: Principal, rows: readonly object[]) =>
  await universe.pushTo(principal, 'people', { people: rows })
const listProcedures = async (principal: Principal, query = ''): Promise<TestProcedure[]> =>
  z.array(testProcedureSchema).parse((await get(principal, procedures + query)).json)
const listPeople = async (principal: Principal, query = ''): Promise<Person[]> =>
  z.array(personSchema).parse((await get(principal, people + query)).json)

const procedure = (external_id: string, given: object = {}) => ({ external_id, title: `Test ${external_id}`, ...given })
const person = (external_id: string, given: object = {}) => ({ external_id, name: `Person ${external_id}`, ...given })

/** Reads a list page by page. */
async function pagesOf(principal: Principal, first: string): Promise<{ external_id: string }[]> {
  const seen: { external_id: string }[] = []
  let next: string | undefined = first
  while (next !== undefined) {
    const answer = await get(principal, next)
    expect(answer).toMatchObject({ status: 200 })
    seen.push(...z.array(z.object({ external_id: z.string() })).parse(answer.json))
    next = nextOf(answer.headers['link'])
  }
  return seen
}

describe.each([
  ['test-procedures', procedures, { test_procedures: [procedure('A')] }],
  ['people', people, { people: [person('A')] }],
])('%s', (name, list, body) => {
  test('can be pushed only by the sync service', async () => {
    const tenant = newTenant(['admin:sync', 'read:universe'])
    const options = { body: { run_id: crypto.randomUUID(), ...body } }
    const target = `/internal/v1/${name}`
    expect((await universe.gateway.call(tenant, 'POST', target, options)).status).toBe(401)
    expect((await universe.stranger.call(tenant, 'POST', target, options)).status).toBe(401)
    expect((await universe.sync.call(tenant, 'POST', target, options)).status).toBe(401)
    expect((await universe.pushTo(tenant, name, body)).status).toBe(200)
  })

  test('can be read only with read:universe, and only by their tenant', async () => {
    const tenant = newTenant()
    await universe.pushTo(tenant, name, body)
    expect((await get({ ...tenant, scopes: ['read:findings', 'admin:sync'] }, list)).status).toBe(403)
    expect((await get(newTenant(), list)).text).toBe('[]')
    expect(z.array(z.unknown()).parse((await get(tenant, list)).json)).toHaveLength(1)
  })

  test('two tenants may use the same keys; neither sees the other', async () => {
    const [one, other] = [newTenant(), newTenant()]
    for (const tenant of [one, other])
      expect((await universe.pushTo(tenant, name, body)).json).toMatchObject({ created: 1 })
    const [ones, others] = await Promise.all([get(one, list), get(other, list)])
    expect(ones.text).toContain('"id"')
    expect(ones.json).not.toEqual(others.json)
  })

  test('the same push again changes nothing: no version, no time', async () => {
    const tenant = newTenant()
    await universe.pushTo(tenant, name, body)
    const before = await get(tenant, list)
    expect((await universe.pushTo(tenant, name, body)).json).toEqual({ created: 0, updated: 0, unchanged: 1 })
    expect((await get(tenant, list)).text).toBe(before.text)
  })
})

describe('pushing test procedures', () => {
  test.each([
    ['no rows', [], '/test_procedures'],
    ['a row without a title', [procedure('A'), procedure('B', { title: '' })], '/test_procedures/1/title'],
    ['an unknown field', [procedure('A', { evidence_count: 3 })], '/test_procedures/0/evidence_count'],
    ['an unknown method', [procedure('A', { method: 'guess' })], '/test_procedures/0/method'],
    ['a huge number', [procedure('A', { population_size: 1e300 })], '/test_procedures/0/population_size'],
    ['half a sample', [procedure('A', { sample_size: 1.5 })], '/test_procedures/0/sample_size'],
    ['a day that does not exist', [procedure('A', { due_date: '2026-02-30' })], '/test_procedures/0/due_date'],
    ['a day before 1900', [procedure('A', { due_date: '0000-01-01' })], '/test_procedures/0/due_date'],
    ['NUL in a text', [procedure('A', { objective: '\u0000' })], '/test_procedures/0/objective'],
    ['a key twice', [procedure('A'), procedure('A')], '/test_procedures/1/external_id'],
    [
      'an end before the beginning',
      [procedure('A', { period_start: '2026-02-01', period_end: '2026-01-01' })],
      '/test_procedures/0/period_end',
    ],
    [
      'a sample beyond the population',
      [procedure('A', { population_size: 3, sample_size: 4 })],
      '/test_procedures/0/sample_size',
    ],
    [
      'a tester who reviews',
      [procedure('A', { tester: { email: 'A@example.com', name: 'A' }, reviewer: { email: 'a@EXAMPLE.com' } })],
      '/test_procedures/0/reviewer',
    ],
    ['an unknown entity', [procedure('A', { entities: ['E', 'nobody'] })], '/test_procedures/0/entities/1'],
    ['a step back', [procedure('C'), procedure('before', { status: 'not_started' })], '/test_procedures/1/status'],
  ])('takes nothing in when one row is wrong: %s', async (_what, rows, pointer) => {
    const tenant = newTenant()
    await universe.push(tenant, [row('E')])
    await pushProcedures(tenant, [procedure('before', { status: 'completed' })])
    const answer = await pushProcedures(tenant, rows)
    expect(answer.status).toBe(422)
    expect(problemSchema.parse(answer.json).errors?.map((error) => error.pointer)).toContain(pointer)
    expect((await listProcedures(tenant)).map(({ external_id, version }) => [external_id, version])).toEqual([
      ['before', 1],
    ])
  })

  test("another tenant's entity is answered as one that does not exist", async () => {
    const [tenant, other] = [newTenant(), newTenant()]
    await universe.push(other, [row('theirs')])
    const headers = { 'x-request-id': 'the-same-request' }
    const missing = await pushProcedures(tenant, [procedure('A', { entities: ['nobody'] })], headers)
    expect(missing.status).toBe(422)
    expect((await pushProcedures(tenant, [procedure('A', { entities: ['theirs'] })], headers)).text).toBe(missing.text)
    expect((await pushProcedures(other, [procedure('A', { entities: ['theirs'] })], headers)).status).toBe(200)
  })

  test('creates the pushed procedures, numbered by row, and changes only different ones', async () => {
    const tenant = newTenant()
    await universe.push(tenant, [row('A'), row('B')])
    const { A, B } = await universe.stored(tenant)
    const full = {
      control_ref: 'ITGC-7',
      objective: 'Access is recertified',
      procedure_text: 'Take 25 accounts',
      method: 'examine',
      test_type: 'operating_effectiveness',
      engagement_ref: 'IA-2026-04',
      period_start: '2026-01-01',
      period_end: '2026-06-30',
      population_size: 240,
      sample_size: 25,
      tester: { email: 'tester@example.com' },
      reviewer: { name: 'Ada Lund' },
      due_date: '2026-09-30',
      status: 'in_review',
      conclusion: 'effective',
      custom: { round: 2 },
    }
    const pushed = [procedure('z', { ...full, entities: ['B', 'A'] }), procedure('a')]
    expect((await pushProcedures(tenant, pushed)).json).toEqual({ created: 2, updated: 0, unchanged: 0 })
    const [first, second] = await listProcedures(tenant)
    expect(first).toMatchObject({ ...full, reference: 'TP-0001', entity_ids: [B?.id, A?.id], version: 1 })
    expect(second).toMatchObject({ reference: 'TP-0002', status: 'not_started', entity_ids: [], tester: null })
    const changed = [
      procedure('z', { ...full, entities: ['A'], status: 'completed' }),
      procedure('new'),
      procedure('a'),
    ]
    expect((await pushProcedures(tenant, changed)).json).toEqual({ created: 1, updated: 1, unchanged: 1 })
    const after = await listProcedures(tenant)
    expect(after.map(({ reference, version }) => [reference, version])).toEqual([
      ['TP-0001', 2],
      ['TP-0002', 1],
      ['TP-0003', 1],
    ])
    expect((await listProcedures(tenant, `?entity_id=${B?.id}`)).length).toBe(0)
    for (const address of [A?.id, 'ext:A', `ref:${A?.reference}`, `ext:none,${A?.id}`]) {
      const found = await listProcedures(tenant, `?entity_id=${address}`)
      expect(
        found.map(({ external_id }) => external_id),
        address,
      ).toEqual(['z'])
    }
    expect((await pushProcedures(tenant, [procedure('z', { ...full, status: 'in_progress' })])).status).toBe(200)
  })
})

describe('reading test procedures', () => {
  test('tells how much evidence there is, which PostgreSQL counts and the service cannot change', async () => {
    const [one, two] = [newTenant(), newTenant()]
    for (const tenant of [one, two]) await pushProcedures(tenant, [procedure('a')])
    const [made] = await listProcedures(one)
    const count = {
      text: `insert into tenancy.link_count values ($1, 'evidence', $2, 3)`,
      values: [one.tenantId, made?.id],
    }
    await universe.asSuperuser.system(async (tx) => await tx.execute(count))
    expect((await listProcedures(one)).map(({ evidence_count: n }) => n)).toEqual([3])
    expect((await listProcedures(two)).map(({ evidence_count: n }) => n)).toEqual([0])
    for (const text of ['update tenancy.link_count set links = 1', 'delete from tenancy.link_count', count.text]) {
      const values = text === count.text ? count.values : []
      const attempt = universe.asService.write(universe.assertionOf(one.tenantId), async (tx) =>
        tx.execute({ text, values }),
      )
      await expect(attempt).rejects.toMatchObject({ code: '42501' })
    }
  })

  test("another tenant's procedure is, to the byte, one that does not exist", async () => {
    const tenant = newTenant()
    await pushProcedures(tenant, [procedure('A')])
    const [own] = await listProcedures(tenant)
    const headers = { 'x-request-id': 'the-same-request' }
    const stranger = newTenant()
    const missing = await get(stranger, `${procedures}/${crypto.randomUUID()}`, headers)
    expect(missing.status).toBe(404)
    for (const address of [own?.id, 'ref:TP-0001', 'ext:A']) {
      expect((await get(stranger, `${procedures}/${address}`, headers)).text).toBe(missing.text)
      const read = await get(tenant, `${procedures}/${address}`)
      expect(read.json).toEqual(own)
      const again = await get(tenant, `${procedures}/${address}`, { 'if-none-match': read.headers['etag'] ?? '' })
      expect(again.status).toBe(304)
    }
  })

  test.each([
    ['?status=done', 'status'],
    ['?method=guess', 'method'],
    ['?entity_id=1', 'entity_id'],
    ['?due_before=2026-13-01', 'due_before'],
    ['?sort=method', 'sort'],
    ['?owner=x', 'owner'],
    ['?cursor=e30', 'cursor'],
  ])('a parameter that cannot be understood is refused: %s', async (query, parameter) => {
    const answer = await get(newTenant(), procedures + query)
    expect(answer.status).toBe(400)
    expect(problemSchema.parse(answer.json).errors?.map((error) => error.parameter)).toContain(parameter)
  })

  test('narrows, sorts and pages', async () => {
    const tenant = newTenant()
    await pushProcedures(tenant, [
      procedure('a', { title: 'C', due_date: '2026-03-01', status: 'in_progress', method: 'test', control_ref: 'X-1' }),
      procedure('b', { title: 'A', engagement_ref: 'IA-1', test_type: 'design' }),
      procedure('c', { title: 'B', due_date: '2026-01-01', conclusion: 'ineffective', objective: 'Recertify ACCESS' }),
    ])
    const keys = async (query: string) =>
      (await pagesOf(tenant, procedures + query)).map(({ external_id }) => external_id)
    expect(await keys('?limit=1')).toEqual(['a', 'b', 'c'])
    expect(await keys('?limit=1&sort=-reference')).toEqual(['c', 'b', 'a'])
    expect(await keys('?limit=1&sort=title')).toEqual(['b', 'c', 'a'])
    expect(await keys('?limit=1&sort=-title')).toEqual(['a', 'c', 'b'])
    expect(await keys('?limit=1&sort=due_date')).toEqual(['c', 'a', 'b'])
    expect(await keys('?limit=1&sort=-due_date')).toEqual(['b', 'a', 'c'])
    expect(await keys('?limit=2&sort=updated_at')).toEqual(['a', 'b', 'c'])
    expect(await keys('?limit=2&sort=-updated_at')).toEqual(['c', 'b', 'a'])
    expect(await keys('?status=in_progress,completed')).toEqual(['a'])
    expect(await keys('?method=test')).toEqual(['a'])
    expect(await keys('?test_type=design')).toEqual(['b'])
    expect(await keys('?conclusion=ineffective')).toEqual(['c'])
    expect(await keys('?engagement_ref=IA-1')).toEqual(['b'])
    expect(await keys('?control_ref=X-1')).toEqual(['a'])
    expect(await keys('?control_ref=X-9,X-1')).toEqual(['a'])
    expect(await keys('?engagement_ref=IA-1&engagement_ref=IA-2')).toEqual(['b'])
    expect(await keys('?due_before=2026-03-01')).toEqual(['c'])
    expect(await keys('?due_after=2026-01-01&due_before=0001-01-01')).toEqual([])
    expect(await keys('?due_after=2026-01-01')).toEqual(['a'])
    expect(await keys('?external_id=b')).toEqual(['b'])
    expect(await keys('?q=access')).toEqual(['c'])
    expect((await get(tenant, `${procedures}?count=true&limit=1&q=x-1`)).headers['x-total-count']).toBe('1')
  })
})

describe('pushing people', () => {
  test.each([
    ['no rows', [], '/people'],
    ['a row without a name', [person('A', { name: ' ' })], '/people/0/name'],
    ['an unknown field', [person('A', { salary: 1 })], '/people/0/salary'],
    ['an invalid address', [person('A', { email: 'nobody' })], '/people/0/email'],
    ['a word for whether active', [person('A', { active: 'False' })], '/people/0/active'],
    ['a key twice', [person('A'), person('A')], '/people/1/external_id'],
    ['one address twice', [person('A', { email: 'x@y.io' }), person('B', { email: 'X@Y.io' })], '/people/1/email'],
    ['an address that is taken', [person('A'), person('B', { email: 'Taken@example.com' })], '/people/1/email'],
  ])('takes nothing in when one row is wrong: %s', async (_what, rows, pointer) => {
    const tenant = newTenant()
    await pushPeople(tenant, [person('before', { email: 'taken@example.com' })])
    const answer = await pushPeople(tenant, rows)
    expect(answer.status).toBe(422)
    expect(problemSchema.parse(answer.json).errors?.map((error) => error.pointer)).toContain(pointer)
    expect((await listPeople(tenant)).map(({ external_id }) => external_id)).toEqual(['before'])
  })

  test('an address of another tenant is free', async () => {
    const [one, other] = [newTenant(), newTenant()]
    const pushed = [person('A', { email: 'same@example.com' })]
    expect([(await pushPeople(one, pushed)).status, (await pushPeople(other, pushed)).status]).toEqual([200, 200])
  })

  test('addresses can change hands in one push, and who leaves is not active', async () => {
    const tenant = newTenant()
    await pushPeople(tenant, [person('A', { email: 'a@x.io' }), person('B', { email: 'B@x.io', title: 'Auditor' })])
    const swapped = [
      person('A', { email: 'b@x.io' }),
      person('B', { email: 'a@x.io', title: 'Auditor', active: false }),
    ]
    expect((await pushPeople(tenant, swapped)).json).toEqual({ created: 0, updated: 2, unchanged: 0 })
    expect(await listPeople(tenant)).toMatchObject([
      { external_id: 'A', email: 'b@x.io', title: null, active: true, version: 2 },
      { external_id: 'B', email: 'a@x.io', title: 'Auditor', active: false, version: 2 },
    ])
  })
})

describe('reading people', () => {
  test("another tenant's person is, to the byte, one that does not exist", async () => {
    const tenant = newTenant()
    await pushPeople(tenant, [person('A/1', { email: 'a@x.io' })])
    const [own] = await listPeople(tenant)
    const headers = { 'x-request-id': 'the-same-request' }
    const stranger = newTenant()
    const missing = await get(stranger, `${people}/${crypto.randomUUID()}`, headers)
    expect(missing.status).toBe(404)
    for (const address of [own?.id, `ext64:${Buffer.from('A/1').toString('base64url')}`]) {
      expect((await get(stranger, `${people}/${address}`, headers)).text).toBe(missing.text)
      const read = await get(tenant, `${people}/${address}`)
      expect(read.json).toEqual(own)
      const again = await get(tenant, `${people}/${address}`, { 'if-none-match': read.headers['etag'] ?? '' })
      expect(again.status).toBe(304)
    }
    expect((await get({ ...tenant, scopes: ['read:findings', 'admin:sync'] }, `${people}/${own?.id}`)).status).toBe(403)
    // People have no reference.
    expect((await get(tenant, `${people}/ref:P-0001`)).status).toBe(404)
  })
})

describe('listing people', () => {
  test('narrows, sorts and pages', async () => {
    const tenant = newTenant()
    await pushPeople(tenant, [
      person('1', { name: 'Cy', email: 'cy@x.io' }),
      person('2', { name: 'Al', active: false }),
      person('3', { name: 'Al', title: 'Head of Treasury' }),
    ])
    const keys = async (query: string) => (await pagesOf(tenant, people + query)).map(({ external_id }) => external_id)
    expect((await keys('?limit=1')).toSorted()).toEqual(['1', '2', '3'])
    expect((await keys('?limit=1')).at(-1)).toBe('1')
    expect((await keys('?limit=1&sort=-name'))[0]).toBe('1')
    expect((await keys('?limit=1&sort=updated_at')).length).toBe(3)
    expect((await keys('?limit=1&sort=-updated_at')).length).toBe(3)
    expect(await keys('?email=CY@x.io')).toEqual(['1'])
    expect(await keys('?email=nobody@x.io,CY@x.io')).toEqual(['1'])
    expect(await keys('?active=false')).toEqual(['2'])
    expect(await keys('?external_id=3')).toEqual(['3'])
    expect(await keys('?q=TREASURY')).toEqual(['3'])
    expect((await get(tenant, `${people}?count=true&limit=1&active=true`)).headers['x-total-count']).toBe('2')
  })

  test.each([
    ['?active=yes', 'active'],
    ['?email=x', 'email'],
    ['?sort=email', 'sort'],
    ['?cursor=e30', 'cursor'],
  ])('a parameter that cannot be understood is refused: %s', async (query, parameter) => {
    const answer = await get(newTenant(), people + query)
    expect(answer.status).toBe(400)
    expect(problemSchema.parse(answer.json).errors?.map((error) => error.parameter)).toContain(parameter)
  })
})

test('nobody reviews a test of their own, in whatever way the two are named', async () => {
  const tenant = newTenant()
  await pushPeople(tenant, [person('ada', { email: 'ada@x.example' }), person('bo', { email: 'bo@x.example' })])
  const [ada, bo] = await listPeople(tenant)
  const rows = [
    procedure('A', { tester: { person_id: ada?.id }, reviewer: { email: 'bo@x.example' } }),
    procedure('B', { tester: { person_id: ada?.id }, reviewer: { email: 'Ada@x.example' } }),
    procedure('C', { tester: { email: 'bo@x.example' }, reviewer: { person_id: bo?.id, email: 'other@x.example' } }),
  ]
  const refused = await pushProcedures(tenant, rows)
  expect([refused.status, problemSchema.parse(refused.json).errors?.map(({ pointer }) => pointer)]).toEqual([
    422,
    ['/test_procedures/1/reviewer', '/test_procedures/2/reviewer'],
  ])
  expect(await listProcedures(tenant)).toEqual([])
  expect((await pushProcedures(tenant, rows.slice(0, 1))).status).toBe(200)
})

test('procedures with long texts come in shorter pages, and are whole', async () => {
  const tenant = newTenant()
  const text = 'x'.repeat(20_000)
  const rows = Array.from({ length: 450 }, (_, index) =>
    procedure(`P${String(index).padStart(3, '0')}`, { objective: text, procedure_text: text }),
  )
  expect((await pushProcedures(tenant, rows)).status).toBe(200)
  const first = z.array(z.unknown()).parse((await get(tenant, `${procedures}?limit=1000&sort=reference`)).json)
  expect(first.length).toBeLessThan(rows.length)
  const seen = await pagesOf(tenant, `${procedures}?limit=1000&sort=reference`)
  expect(seen.map(({ external_id }) => external_id)).toEqual(rows.map(({ external_id }) => external_id))
})
