import { actionPlanSchema, findingSchema, logEntrySchema, recommendationSchema } from '@postern/contracts'
import { verifyExport } from '@postern/log-chain'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  type FindingsUnderTest,
  type Principal,
  findingBody,
  newTenant,
  openFinding,
  path,
  startFindings,
} from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

async function get(tenant: Principal, target: string, accept: string) {
  return await service.call(tenant, 'GET', target, { headers: { accept } })
}

/** Creates more findings than one batch of an export, all with the same time. */
async function manyFindings(tenant: Principal, count: number): Promise<void> {
  await service.asService.write(service.assertionOf(tenant.tenantId), async (tx) =>
    tx.execute({
      text: `insert into findings.finding (
          tenant_id, year, number, title, condition, severity, type, status, identified_on, target_on,
          created_by_type, created_by_id, created_by_label)
        select (select tenancy.tenant_id()), 2026, n, 'Finding ' || n, 'c', 'low', 'observation', 'draft',
          date '2026-01-01', date '2026-02-01', 'api_key', 'k', 'l'
        from generate_series(1, $1::integer) n`,
      values: [count],
    }),
  )
}

const linesOf = (text: string) => text.split('\n').filter((line) => line !== '')

describe('a list as NDJSON or CSV', () => {
  test('is rejected without the scope, and for an unknown media type', async () => {
    expect((await get(newTenant(['write:findings']), path, 'text/csv')).status).toBe(403)
    for (const accept of ['text/html', 'application/json;q=0', 'text/csv;q=0, image/*']) {
      const answer = await get(newTenant(), path, accept)
      expect([answer.status, answer.json], accept).toMatchObject([406, { code: 'not_acceptable' }])
    }
    expect((await get(newTenant(), `${path}?cursor=x`, 'text/csv')).status).toBe(400)
  })

  test.each([
    ['*/*', 'application/json'],
    ['application/json, text/csv;q=0.9', 'application/json'],
    ['text/csv;q=0.9, application/json;q=0.1', 'text/csv'],
    ['text/*', 'text/csv'],
    ['application/x-ndjson', 'application/x-ndjson'],
    ['TEXT/CSV', 'text/csv'],
  ])('is chosen by Accept: %s', async (accept, mediaType) => {
    const answer = await get(newTenant(), path, accept)
    expect(answer.status).toBe(200)
    expect(answer.headers['content-type']).toMatch(new RegExp(`^${mediaType}(;|$)`))
    expect(answer.headers['vary']).toBe('accept')
  })

  test('contains each row of the filtered result once, ignores the limit, and has no rows of other tenants', async () => {
    const tenant = newTenant()
    await manyFindings(tenant, 601)
    await manyFindings(newTenant(), 3)
    const lines = linesOf((await get(tenant, `${path}?limit=2`, 'application/x-ndjson')).text)
    const findings = lines.map((line) => findingSchema.parse(JSON.parse(line)))
    expect(new Set(findings.map(({ id }) => id)).size).toBe(601)
    expect(lines).toHaveLength(601)
    // Like an export that outlives its assertion, so that the rest is read as one result.
    const headers = service.signedHeaders(tenant, 'GET', path, 35)
    const late = await fetch(service.url + path, { headers: { ...headers, accept: 'application/x-ndjson' } })
    expect(linesOf(await late.text())).toEqual(lines)
    const csv = (await get(tenant, `${path}?q=finding%2060`, 'text/csv')).text.split('\r\n')
    expect(csv.length).toBe(1 + ['60', '600', '601'].length + 1)
    expect(csv[0]).toMatch(/^id,reference,external_id,title,status,/)
  })

  test('as CSV neutralizes formulas and quotes special characters', async () => {
    const tenant = newTenant()
    for (const title of ['=HYPERLINK("http://x")', '+1', '-1', '@SUM(A1)', 'a, "b"']) {
      const body = { ...findingBody(), title, custom: { n: 1 }, owner: { name: 'Ada' } }
      expect((await service.call(tenant, 'POST', path, { body })).status).toBe(201)
    }
    const body = findingBody({ condition: '\n=1+1' })
    expect((await service.call(tenant, 'POST', path, { body })).status).toBe(201)
    const answer = await get(tenant, `${path}?sort=created_at`, 'text/csv')
    expect(answer.headers['content-disposition']).toBe('attachment; filename="findings.csv"')
    for (const cell of [
      `"'=HYPERLINK(""http://x"")"`,
      `'+1`,
      `'-1`,
      `'@SUM(A1)`,
      `"a, ""b"""`,
      `"{""n"":1}"`,
      'false',
      `"'\n=1+1"`,
    ]) {
      expect(answer.text).toContain(`,${cell},`)
    }
  })

  test('of action plans contains the same rows as the list', async () => {
    const tenant = newTenant()
    const { id } = await openFinding(service, tenant)
    const body = { title: 'Do', owner: { name: 'Bo' }, due_date: '2030-01-01' }
    await service.call(tenant, 'POST', `${path}/${id}/action-plans`, { body })
    const [line = ''] = linesOf((await get(tenant, '/api/v1/action-plans', 'application/x-ndjson')).text)
    expect(actionPlanSchema.parse(JSON.parse(line))).toMatchObject({ title: 'Do', finding_id: id })
    expect((await get(tenant, '/api/v1/action-plans', 'text/csv')).text).toContain(',2030-01-01,')
  })

  test('of recommendations, or of parts of one finding, contains only those', async () => {
    const tenant = newTenant()
    const [one, two] = [await openFinding(service, tenant), await openFinding(service, tenant)]
    for (const { id } of [one, two]) {
      await service.call(tenant, 'POST', `${path}/${id}/recommendations`, { body: { text: '=Recertify\r\nquarterly' } })
      const body = { title: 'Do', owner: { name: 'Bo' }, due_date: '2030-01-01' }
      await service.call(tenant, 'POST', `${path}/${id}/action-plans`, { body })
    }
    for (const [list, whole, ofOne] of [
      ['recommendations', 2, 1],
      ['action-plans', 2, 1],
      ['log', undefined, 3],
    ] as const) {
      const all = await get(tenant, `/api/v1/${list}?limit=1`, 'application/x-ndjson')
      if (whole !== undefined) expect(linesOf(all.text), list).toHaveLength(whole)
      const lines = linesOf((await get(tenant, `${path}/${one.id}/${list}?limit=1`, 'application/x-ndjson')).text)
      expect(lines.map((line) => z.object({ finding_id: z.string() }).parse(JSON.parse(line)).finding_id)).toEqual(
        Array.from({ length: ofOne }, () => one.id),
      )
      const csv = await get(tenant, `${path}/${one.id}/${list}`, 'text/csv')
      expect(csv.headers['content-disposition']).toBe(`attachment; filename="${list}.csv"`)
      const unknown = await get(tenant, `${path}/ref:F-1999-0001/${list}`, 'text/csv')
      expect([unknown.status, unknown.json]).toMatchObject([404, { code: 'not_found' }])
      expect((await get(newTenant(), `${path}/${one.id}/${list}`, 'text/csv')).status).toBe(404)
    }
    const csv = (await get(tenant, '/api/v1/recommendations', 'text/csv')).text
    expect(csv).toContain(`,"'=Recertify\r\nquarterly",`)
  })

  test.each(['one\n=two', 'one\r=two'])('as CSV keeps %j in one cell', async (text) => {
    const tenant = newTenant()
    const { id } = await openFinding(service, tenant)
    await service.call(tenant, 'POST', `${path}/${id}/recommendations`, { body: { text } })
    expect((await get(tenant, '/api/v1/recommendations', 'text/csv')).text).toContain(`,"${text}",`)
  })

  test('as CSV has a column for every member of the contract, and for parts of members', async () => {
    for (const [target, schema] of [
      [path, findingSchema],
      ['/api/v1/action-plans', actionPlanSchema],
      ['/api/v1/remediation-log', logEntrySchema],
      ['/api/v1/recommendations', recommendationSchema],
    ] as const) {
      const header = (await get(newTenant(), target, 'text/csv')).text.trimEnd().split(',')
      const members = Object.keys(schema.shape)
      const isPart = (column: string): boolean => members.some((member) => column.startsWith(`${member}_`))
      expect(header.filter((column) => !isPart(column) || members.includes(column)).toSorted(), target).toEqual(
        members.toSorted(),
      )
    }
  })

  test('of the tracker log can be verified offline', async () => {
    const tenant = newTenant()
    const { id } = await openFinding(service, tenant)
    for (let n = 0; n < 3; n += 1)
      await service.call(tenant, 'POST', `${path}/${id}/log`, { body: { body: `note ${n}` } })
    const lines = linesOf((await get(tenant, '/api/v1/remediation-log', 'application/x-ndjson')).text)
    expect(lines.map((line) => logEntrySchema.parse(JSON.parse(line)).position)).toEqual([1, 2, 3, 4])
    expect(await verifyExport(lines)).toMatchObject({ isIntact: true, entries: 4 })
  })
})
