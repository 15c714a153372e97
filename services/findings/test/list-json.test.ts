import { type Finding, findingSorts } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findingList } from '../src/finding/list/store.ts'
import {
  type FindingsUnderTest,
  type Principal,
  findingBody,
  newTenant,
  path,
  readFindings,
  startFindings,
} from './service.ts'

let service: FindingsUnderTest
let tenant: Principal
beforeAll(async () => {
  service = await startFindings()
  tenant = newTenant()
})
afterAll(async () => await service.close())

async function make(body: object): Promise<Finding> {
  const made = await service.call(tenant, 'POST', path, { body: { ...findingBody(), ...body } })
  expect(made.status, made.text).toBe(201)
  const read = await service.call(tenant, 'GET', String(made.headers['location']))
  return readFindings.parse([read.json])[0] ?? expect.fail('not there')
}

async function list(query: string): Promise<Finding[]> {
  const answer = await service.call(tenant, 'GET', `${path}?${query}`)
  expect(answer.status, answer.text).toBe(200)
  return readFindings.parse(answer.json)
}

const titles = async (query: string) => (await list(query)).map(({ title }) => title)

describe('a finding in a list', () => {
  test('equals the finding read by id, for any text and on any day', async () => {
    await make({ entity_ids: [] })
    await make({
      entity_ids: [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()],
      title: 'Quotes " \\ / and 😀',
      condition: 'Line\nfeed\ttab \u0001 \u007f \u2028 é',
      owner: { email: 'Ada.Lund@x.example', name: '"Ada"' },
      custom: { zero: 0, tiny: 1e-7, huge: 1e300, yes: true, none: null, text: '"\\\n', 'é ü': -1.5 },
      identified_date: '2024-02-29',
      target_date: '2024-03-01',
      external_id: 'a/b"c',
      management_response: { agreement: 'disagree', text: 'No.' },
    })
    for (const day of [undefined, '2030-01-01']) {
      service.setToday(day)
      for (const listed of await list('limit=50')) {
        const { json } = await service.call(tenant, 'GET', `${path}/${listed.id}`)
        expect(listed).toEqual(json)
        expect(Object.keys(listed).toSorted()).toEqual(Object.keys(Object(json)).toSorted())
      }
    }
    service.setToday(undefined)
  })

  test('is listed exactly once over all pages in every order, also when sorted by two members', async () => {
    for (const [severity, target_date] of [
      ['critical', '2030-01-02'],
      ['low', '2030-01-01'],
      ['critical', '2030-01-01'],
      ['critical', '2030-01-01'],
      ['medium', '2029-01-01'],
    ]) {
      await make({ severity, target_date })
    }
    const rank = ['critical', 'high', 'medium', 'low']
    const all = await list('limit=1000')
    for (const sort of findingSorts) {
      const whole = await list(`limit=1000&sort=${sort}`)
      expect(whole.map(({ id }) => id).toSorted()).toEqual(all.map(({ id }) => id).toSorted())
      const steps: Finding[] = []
      for (let next: string | undefined = `${path}?limit=2&sort=${sort}`; next !== undefined;) {
        const answer = await service.call(tenant, 'GET', next)
        expect(answer.status, answer.text).toBe(200)
        steps.push(...readFindings.parse(answer.json))
        next = /<([^>]+)>/.exec(answer.headers['link'] ?? '')?.[1]
      }
      expect(steps, sort).toEqual(whole)
    }
    const keyOf = ({ severity, target_date }: Finding) => `${rank.indexOf(severity)} ${target_date}`
    const both = (await list('limit=1000&sort=-severity,target_date')).map(keyOf)
    expect(both).toEqual(both.toSorted())
    const reverse = (await list('limit=1000&sort=severity,-target_date')).map(keyOf)
    expect(reverse).toEqual(both.toReversed())
  })

  test.each(findingSorts)(
    'of any size in the order %s is read from its index, also by a plan for all keys',
    async (sort) => {
      const { text, values } = findingList.page({ sort, after: undefined, limit: 38 }, [], ['2026-11-28'])
      const plan = await service.asService.write(service.assertionOf(tenant.tenantId), async (tx) => {
        // A small table is always scanned, unless that is forbidden: what is asked is whether the index can serve.
        await tx.execute({ text: 'set local enable_seqscan = off', values: [] })
        await tx.execute({ text: 'set local enable_bitmapscan = off', values: [] })
        return await tx.query<{ 'QUERY PLAN': string }>({ text: `explain (costs off) ${text}`, values })
      })
      const lines = plan.map((row) => row['QUERY PLAN']).join('\n')
      expect(lines).toMatch(/Index Scan (?:Backward )?using finding_by_/)
      expect(lines).not.toContain('Sort')
    },
  )

  test('is found by each of its entities, and a cursor of one order is rejected by another', async () => {
    const [a, b, c] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()]
    for (const entity of [a, b, c]) await make({ title: entity, entity_ids: [entity] })
    expect(await titles(`entity_id=${a},${b}&sort=created_at`)).toEqual([a, b])
    expect(await titles(`entity_id=${a}&entity_id=${c}&sort=created_at`)).toEqual([a, c])
    expect((await service.call(tenant, 'GET', `${path}?entity_id=${a},x`)).status).toBe(400)
    const first = await service.call(tenant, 'GET', `${path}?limit=1&sort=-severity,target_date`)
    const cursor = new URL(/<([^>]+)>/.exec(String(first.headers['link']))?.[1] ?? '', 'http://x').searchParams.get(
      'cursor',
    )
    expect((await service.call(tenant, 'GET', `${path}?limit=1&sort=-severity&cursor=${cursor}`)).status).toBe(400)
  })
})
