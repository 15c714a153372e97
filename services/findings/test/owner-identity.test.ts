import { findingsSummarySchema } from '@postern/contracts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { type FindingsUnderTest, type Principal, findingBody, newTenant, path, startFindings } from './service.ts'

let service: FindingsUnderTest
let tenant: Principal
const ids = new Map<string, string>()
beforeAll(async () => {
  service = await startFindings({ universe: true })
  tenant = newTenant()
  await service.universe?.push(tenant.tenantId, 'people', {
    people: [
      { external_id: 'ada', name: 'Ada Lund', email: 'ada@x.example' },
      { external_id: 'bo', name: 'Bo Berg', email: 'bo@x.example' },
      { external_id: 'other bo', name: 'Bo Berg' },
    ],
  })
  const rows = await service.asSuperuser.system(async (tx) =>
    tx.query<{ id: string; external_id: string }>({
      text: 'select id, external_id from universe.person where tenant_id = $1',
      values: [tenant.tenantId],
    }),
  )
  for (const { id, external_id } of rows) ids.set(external_id, id)
  const owners = {
    'by id': { person_id: ids.get('ada') },
    'by address': { email: 'Ada@X.example' },
    'by name': { name: 'ada lund' },
    'a Bo': { name: 'Bo Berg' },
    'the Bo': { email: 'bo@x.example' },
    'a guest': { email: 'guest@y.example', name: 'Gil Guest' },
  }
  for (const [title, owner] of Object.entries(owners)) {
    const id = await create(path, findingBody({ title, owner }))
    await create(`${path}/${id}/action-plans`, { title, owner, due_date: '2030-01-01' })
  }
})
afterAll(async () => await service.close())

async function create(target: string, body: object): Promise<string> {
  const { status, json, text } = await service.call(tenant, 'POST', target, { body })
  expect(status, text).toBe(201)
  return z.object({ id: z.string() }).parse(json).id
}

const idOf = (name: string): string => ids.get(name) ?? expect.fail(name)

async function titlesOf(target: string, owner: string): Promise<string[]> {
  const answer = await service.call(tenant, 'GET', `${target}?owner=${encodeURIComponent(owner)}`)
  const items = z.array(z.object({ title: z.string() })).parse(answer.json)
  return items.map(({ title }) => title).toSorted()
}

test.each([path, '/api/v1/action-plans'])(
  'the id, the e-mail address and the name of a person find the same in %s, however the owner is named',
  async (target) => {
    for (const owner of ['nobody@x.example', 'Ada', crypto.randomUUID()]) {
      expect(await titlesOf(target, owner), owner).toEqual([])
    }
    for (const owner of [idOf('ada'), idOf('ada').toUpperCase(), 'ada@x.example', 'ADA@X.example', 'Ada Lund']) {
      expect(await titlesOf(target, owner), owner).toEqual(['by address', 'by id', 'by name'])
    }
    expect(await titlesOf(target, 'gil guest')).toEqual(['a guest'])
  },
)

test('a name that two people have belongs to neither of them, and finds what both own', async () => {
  expect(await titlesOf(path, idOf('other bo'))).toEqual([])
  expect(await titlesOf(path, idOf('bo'))).toEqual(['the Bo'])
  expect(await titlesOf(path, 'Bo Berg')).toEqual(['a Bo', 'the Bo'])
})

test('exports and summaries know the same person, and nobody of another tenant', async () => {
  for (const owner of [idOf('ada'), 'ada@x.example', 'Ada Lund']) {
    const query = `owner=${encodeURIComponent(owner)}`
    const csv = await service.call(tenant, 'GET', `${path}?format=csv&fields=title&${query}`)
    expect(csv.text.trim().split('\r\n'), owner).toHaveLength(1 + 3)
    const summary = await service.call(tenant, 'GET', `${path}/summary?group_by=owner&${query}`)
    expect(findingsSummarySchema.parse(summary.json), owner).toMatchObject([{ key: 'ada@x.example', total: 3 }])
    expect((await service.call(newTenant(), 'GET', `${path}?${query}`)).json).toEqual([])
  }
  const all = await service.call(tenant, 'GET', `${path}/summary?group_by=owner`)
  expect(findingsSummarySchema.parse(all.json).map(({ key, total }) => [key, total])).toEqual([
    ['ada@x.example', 3],
    ...['Bo Berg', 'bo@x.example', 'guest@y.example'].map((key) => [key, 1]),
  ])
})

test('a name that more than 1,000 people have is refused, and an id of one of them is not', async () => {
  const large = newTenant()
  const push = async (from: number, to: number): Promise<void> => {
    const numbers = Array.from({ length: to - from }, (_none, at) => from + at)
    const people = numbers.map((number) => ({ external_id: `anna ${number}`, name: 'Anna Berg' }))
    await service.universe?.push(large.tenantId, 'people', { people })
  }
  const read = async (target: string) => await service.call(large, 'GET', target)
  await push(0, 1000)
  expect((await read(`${path}?owner=anna%20berg`)).status).toBe(200)
  await push(1000, 1001)
  for (const target of [path, '/api/v1/action-plans', `${path}/summary`]) {
    const refused = await read(`${target}?owner=anna%20berg`)
    expect([target, refused.status, refused.json]).toEqual([
      target,
      400,
      expect.objectContaining({ errors: [expect.objectContaining({ parameter: 'owner', code: 'too_many' })] }),
    ])
  }
  const { status, text } = await service.call(large, 'POST', path, {
    body: findingBody({ owner: { name: 'Anna Berg' } }),
  })
  expect(status, text).toBe(201)
  const summary = await read(`${path}/summary?group_by=owner`)
  expect(findingsSummarySchema.parse(summary.json)).toMatchObject([{ key: 'Anna Berg', total: 1 }])
})

test('while the universe does not answer, an id finds owners with that id, and other searches return 503', async () => {
  await service.universe?.stop()
  expect(await titlesOf(path, idOf('ada'))).toContain('by id')
  for (const owner of ['ada@x.example', 'Ada Lund', `${idOf('ada')},Ada Lund`]) {
    const refused = await service.call(tenant, 'GET', `${path}?owner=${encodeURIComponent(owner)}`)
    expect([owner, refused.status]).toEqual([owner, 503])
  }
})
