import { findingsSummarySchema } from '@postern/contracts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FindingsUnderTest, newTenant, openFinding, path, startFindings } from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

const summary = `${path}/summary`
const [e1, e2] = [crypto.randomUUID(), crypto.randomUUID()]

test('a summary is rejected without read:findings, and for an unknown group', async () => {
  expect((await service.call(newTenant(['write:findings']), 'GET', summary)).status).toBe(403)
  expect((await service.call(newTenant(), 'GET', `${summary}?group_by=title`)).status).toBe(400)
  expect((await service.call(newTenant(), 'GET', `${summary}?limit=1`)).status).toBe(400)
})

test('a summary counts only the filtered findings of the tenant, for each kind of group', async () => {
  const tenant = newTenant()
  await openFinding(service, newTenant(), { severity: 'low' })
  const late = { identified_date: '2024-01-01', target_date: '2024-02-01' }
  await openFinding(service, tenant, { severity: 'critical', entity_ids: [e1, e2], ...late })
  await openFinding(service, tenant, { severity: 'high', entity_ids: [e1], owner: { email: 'Bo@example.org' } })
  const groups = async (query: string) => {
    const answer = await service.call(tenant, 'GET', `${summary}${query}`)
    expect(answer.status, answer.text).toBe(200)
    return findingsSummarySchema.parse(answer.json).map(({ key, total, overdue }) => [key, total, overdue])
  }
  expect((await service.call(tenant, 'GET', summary)).json).toEqual([
    { key: 'critical', total: 1, overdue: 1, by_severity: { critical: 1, high: 0, medium: 0, low: 0 } },
    { key: 'high', total: 1, overdue: 0, by_severity: { critical: 0, high: 1, medium: 0, low: 0 } },
  ])
  expect(await groups('?group_by=status')).toEqual([['open', 2, 1]])
  expect(await groups('?group_by=entity')).toEqual([
    [e1, 2, 1],
    [e2, 1, 1],
  ])
  expect(await groups('?group_by=owner')).toEqual([
    ['Ada Lund', 1, 1],
    ['bo@example.org', 1, 0],
  ])
  expect(await groups('?group_by=age_bucket')).toEqual([
    ['0-30', 1, 0],
    ['366+', 1, 1],
  ])
  expect(await groups('?group_by=status&overdue=true')).toEqual([['open', 1, 1]])
  expect(await groups('?severity=low')).toEqual([])
})
