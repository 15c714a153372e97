import { expandedFindingSchema, findingSchema, logEntrySchema, problemSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { planBody, plans } from './plans.ts'
import { type FindingsUnderTest, type Principal, findingBody, newTenant, path, startFindings } from './service.ts'

let service: FindingsUnderTest
let tenant: Principal
let id: string
/** Changes of all texts, with 0.8 MB of log each: more than one response can hold. */
const changes = 24

beforeAll(async () => {
  service = await startFindings()
  tenant = newTenant()
  id = findingSchema.parse((await service.call(tenant, 'POST', path, { body: findingBody() })).json).id
  const fields = ['condition', 'criteria', 'cause', 'consequence']
  for (let count = 0; count < changes; count += 1) {
    const text = `${count} ${'x'.repeat(99_000)}`
    const body = Object.fromEntries(fields.map((field) => [field, text]))
    const answer = await service.call(tenant, 'PATCH', `${path}/${id}`, { body, headers: { 'if-match': '*' } })
    if (answer.status !== 200) throw new Error(`the finding was not changed: ${answer.text.slice(0, 200)}`)
  }
})
afterAll(async () => await service.close())

const all = Array.from({ length: changes + 1 }, (_, index) => index + 1)

/** All of a list, and how many each of its pages has. */
async function walk<T>(first: string, schema: z.ZodType<T>): Promise<{ items: T[]; sizes: number[] }> {
  const items: T[] = []
  const sizes: number[] = []
  for (let next: string | undefined = first; next !== undefined;) {
    const answer = await service.call(tenant, 'GET', next)
    expect([answer.status, answer.text.slice(0, 200)]).toEqual([200, expect.any(String)])
    const page = z.array(schema).parse(answer.json)
    items.push(...page)
    sizes.push(page.length)
    next = /^<([^>]+)>; rel="next"$/.exec(answer.headers['link'] ?? '')?.[1]
  }
  return { items, sizes }
}

describe('lists larger than the limit of a response', () => {
  test.each([
    ['the log of a finding', () => `${path}/${id}/log?limit=100`],
    ['the log of the tenant', () => '/api/v1/remediation-log?limit=1000'],
  ])('%s is returned in shorter pages and complete', async (_what, target) => {
    const { items, sizes } = await walk(target(), logEntrySchema)
    expect(items.map(({ seq }) => seq)).toEqual(all)
    expect(Math.max(...sizes)).toBeLessThan(all.length)
  })

  test('findings are returned in shorter pages and complete', async () => {
    const text = 'y'.repeat(99_000)
    const long = findingBody({ condition: text, criteria: text, cause: text, consequence: text })
    const others = newTenant()
    const made: string[] = []
    for (let count = 0; count < 45; count += 1) {
      const answer = await service.call(others, 'POST', path, { body: long })
      made.push(findingSchema.parse(answer.json).id)
    }
    const mine = tenant
    tenant = others
    const { items, sizes } = await walk(`${path}?limit=200&sort=created_at`, findingSchema)
    tenant = mine
    expect(items.map((finding) => finding.id)).toEqual(made)
    expect(Math.max(...sizes)).toBeLessThan(made.length)
  })

  test('findings with long plans are returned in shorter pages and complete', async () => {
    const others = newTenant()
    // Three bytes each, and 60 kB a plan: of fifteen findings with twenty each 18 MB.
    const description = '漢'.repeat(20_000)
    const keys = Array.from({ length: 15 }, (_, index) => `long-${index}`)
    for (const key of keys) {
      const answer = await service.call(others, 'POST', path, { body: findingBody({ external_id: key }) })
      expect(answer.status, answer.text.slice(0, 200)).toBe(201)
      const plan = { ...planBody, finding: `ext:${key}`, description }
      const items = Array.from({ length: 20 }, (_, index) => ({ ...plan, external_id: `${key}-${index}` }))
      const made = await service.call(others, 'POST', `${plans}/bulk`, { body: { mode: 'atomic', items } })
      expect(made.status, made.text.slice(0, 200)).toBe(200)
    }
    const mine = tenant
    tenant = others
    const { items, sizes } = await walk(`${path}?expand=action_plans&limit=100&sort=created_at`, expandedFindingSchema)
    tenant = mine
    expect(items.map((finding) => finding.external_id)).toEqual(keys)
    for (const { action_plans: found = [] } of items) {
      expect(found.map((plan) => plan.description)).toEqual(Array.from({ length: 20 }, () => description))
    }
    expect(Math.max(...sizes)).toBeLessThan(keys.length)
  })

  test('an export is complete', async () => {
    const answer = await service.call(tenant, 'GET', '/api/v1/remediation-log', {
      headers: { accept: 'application/x-ndjson' },
    })
    const lines = answer.text.trimEnd().split('\n')
    expect(lines.map((line) => logEntrySchema.parse(JSON.parse(line)).seq)).toEqual(all)
  })

  test('the chain is verified to its end', async () => {
    const { json } = await service.call(tenant, 'GET', `${path}/${id}/log/verify`)
    expect(json).toMatchObject({ is_intact: true, entries: all.length })
  })

  test('a finding cannot be expanded by a list that is too large', async () => {
    const answer = await service.call(tenant, 'GET', `${path}/${id}?expand=log`)
    expect([answer.status, problemSchema.parse(answer.json).errors]).toEqual([
      400,
      [{ parameter: 'expand', code: 'too_big', detail: expect.any(String) }],
    ])
  })

  test('a plan of action and milestones is complete', async () => {
    const answer = await service.call(tenant, 'GET', '/api/v1/exports/poam.json?status=draft,open')
    const shape = z.object({
      'plan-of-action-and-milestones': z.object({
        risks: z.array(z.object({ 'risk-log': z.object({ entries: z.array(z.unknown()) }) })),
      }),
    })
    const document = shape.parse(JSON.parse(answer.text))['plan-of-action-and-milestones']
    expect(document.risks.map((risk) => risk['risk-log'].entries.length)).toEqual([all.length])
  })
})
