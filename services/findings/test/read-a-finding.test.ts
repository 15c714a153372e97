import { findingSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FindingsUnderTest, findingBody, newTenant, path, startFindings } from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

async function aFinding(tenant = newTenant(), given: Parameters<typeof findingBody>[0] = {}) {
  const answer = await service.call(tenant, 'POST', path, { body: findingBody(given) })
  return { tenant, finding: findingSchema.parse(answer.json) }
}

describe('reading a finding', () => {
  test('is rejected for a request that is unsigned or signed with an unknown key', async () => {
    const { tenant, finding } = await aFinding()
    const target = `${path}/${finding.id}`
    expect((await fetch(service.url + target)).status).toBe(401)
    expect((await service.stranger.call(tenant, 'GET', target)).status).toBe(401)
    expect((await service.call(tenant, 'GET', target)).status).toBe(200)
  })

  test('is rejected if a signed request is sent again or to another path', async () => {
    const { tenant, finding } = await aFinding()
    const target = `${path}/${finding.id}`
    const headers = service.signedHeaders(tenant, 'GET', target)
    expect((await fetch(service.url + path, { headers })).status).toBe(401)
    expect((await fetch(service.url + target, { headers })).status).toBe(200)
    expect((await fetch(service.url + target, { headers })).status).toBe(401)
  })

  test('is rejected if the tenant of a signed request was changed', async () => {
    const { tenant, finding } = await aFinding()
    const target = `${path}/${finding.id}`
    const other = newTenant()
    const mine = service.signedHeaders(other, 'GET', target)
    const theirs = service.signedHeaders(tenant, 'GET', target)
    const forged = { ...mine, 'postern-context': theirs['postern-context'] ?? '' }
    expect((await fetch(service.url + target, { headers: forged })).status).toBe(401)
    const borrowed = { ...mine, 'postern-assertion': theirs['postern-assertion'] ?? '' }
    expect((await fetch(service.url + target, { headers: borrowed })).status).toBe(401)
  })

  test('is rejected without read:findings', async () => {
    const { tenant, finding } = await aFinding()
    const writer = { ...tenant, scopes: ['write:findings', 'read:universe'] }
    const answer = await service.call(writer, 'GET', `${path}/${finding.id}`)
    expect(answer.status).toBe(403)
    expect(answer.json).toMatchObject({ required_scope: 'read:findings' })
  })

  test("another tenant's finding returns the same bytes as a missing one", async () => {
    const { tenant, finding } = await aFinding(newTenant(), { external_id: 'SAP-1' })
    const stranger = newTenant()
    const headers = { 'x-request-id': 'the-same-request' }
    const missing = await service.call(stranger, 'GET', `${path}/${crypto.randomUUID()}`, { headers })
    expect(missing.status).toBe(404)
    for (const address of [finding.id, `ref:${finding.reference}`, 'ext:SAP-1']) {
      const theirs = await service.call(stranger, 'GET', `${path}/${address}`, { headers })
      expect(theirs.text).toBe(missing.text)
      expect({ ...theirs.headers, date: '' }).toEqual({ ...missing.headers, date: '' })
      expect((await service.call(tenant, 'GET', `${path}/${address}`)).status).toBe(200)
    }
  })

  test.each(['x', 'ref:', 'ref:f-2026-0001', 'ext:', 'id:1', '00000000-0000-0000-0000-00000000000g', '%27', 'ext:%00'])(
    'an invalid address (%s) returns 404',
    async (address) => {
      expect((await service.call(newTenant(), 'GET', `${path}/${address}`)).status).toBe(404)
    },
  )

  test('an unknown parameter is rejected', async () => {
    const { tenant, finding } = await aFinding()
    const answer = await service.call(tenant, 'GET', `${path}/${finding.id}?format=xml`)
    expect(answer.status).toBe(400)
    expect(answer.json).toMatchObject({ errors: [{ parameter: 'format' }] })
  })

  test('finds it by id, by reference and by any external id', async () => {
    const external_id = "it's 100 % / A&B?ü"
    const { tenant, finding } = await aFinding(newTenant(), { external_id })
    const addresses = [
      finding.id,
      finding.id.toUpperCase(),
      `ref:${finding.reference}`,
      `ext:${encodeURIComponent(external_id)}`,
    ]
    for (const address of addresses) {
      expect((await service.call(tenant, 'GET', `${path}/${address}`)).json).toEqual(finding)
    }
  })

  test('returns 304 for a known entity tag until the day or the finding changes', async () => {
    const { tenant, finding } = await aFinding(newTenant(), { target_date: '2030-01-01' })
    const target = `${path}/${finding.id}`
    try {
      service.setToday('2030-01-01')
      const first = await service.call(tenant, 'GET', target)
      const headers = { 'if-none-match': first.headers['etag'] ?? '' }
      const second = await service.call(tenant, 'GET', target, { headers })
      expect([second.status, second.text, second.headers['etag']]).toEqual([304, '', first.headers['etag']])
      expect(findingSchema.parse(first.json).is_overdue).toBe(false)

      service.setToday('2030-01-02')
      const third = await service.call(tenant, 'GET', target, { headers })
      expect(third.status).toBe(200)
      expect(findingSchema.parse(third.json).is_overdue).toBe(true)
    } finally {
      service.setToday(undefined)
    }
  })

  test('a tag of another finding does not return 304', async () => {
    const { tenant, finding } = await aFinding()
    const answer = await service.call(tenant, 'GET', `${path}/${finding.id}`, { headers: { 'if-none-match': '"x"' } })
    expect(answer.status).toBe(200)
  })
})
