import { actionPlanSchema, findingSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
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
let tenant: Principal
const ada = { external_id: 'hr-1', name: 'Ada Lund', email: 'ada@x.example' }

beforeAll(async () => {
  service = await startFindings({ universe: true })
  tenant = newTenant()
  await service.universe?.push(tenant.tenantId, 'people', { people: [ada] })
})
afterAll(async () => await service.close())

async function idOfAda(): Promise<string> {
  const rows = await service.asSuperuser.system(async (tx) =>
    tx.query<{ id: string }>({
      text: 'select id from universe.person where tenant_id = $1',
      values: [tenant.tenantId],
    }),
  )
  return rows[0]?.id ?? expect.fail('nobody')
}

const named = { email: 'Ada@X.example', name: 'Ada' }

describe('a person who is named by an e-mail address', () => {
  test('gets the id of the synced person and is found by it; an unknown address does not change', async () => {
    const id = await idOfAda()
    const finding = await openFinding(service, tenant, { owner: named })
    expect(finding.owner).toEqual({ ...named, person_id: id })
    const found = await service.call(tenant, 'GET', `${path}?owner=${id}`)
    expect(found.json).toMatchObject([{ id: finding.id }])
    const owner = { email: 'nobody@x.example' }
    expect((await openFinding(service, tenant, { owner })).owner).toEqual(owner)
    // Nor is anybody another tenant's.
    expect((await openFinding(service, newTenant(), { owner: named })).owner).toEqual(named)
  })

  test('is linked in plans, status changes and bulk requests, and counts as the same person for the four-eyes rule', async () => {
    const id = await idOfAda()
    const finding = await openFinding(service, tenant, { owner: { person_id: id }, severity: 'low' })
    const plan = { title: 'Do it', owner: named, due_date: '2030-01-01' }
    const made = await service.call(tenant, 'POST', `${path}/${finding.id}/action-plans`, { body: plan })
    expect(actionPlanSchema.parse(made.json).owner).toEqual({ ...named, person_id: id })
    const items = [{ ...findingBody({ external_id: 'bulk' }), owner: named }, { title: 7 }]
    await service.call(tenant, 'POST', `${path}/bulk`, { body: { mode: 'best_effort', items } })
    const bulk = await service.call(tenant, 'GET', `${path}/ext:bulk`)
    expect(findingSchema.parse(bulk.json).owner).toEqual({ ...named, person_id: id })
    const acceptance = {
      to: 'risk_accepted',
      approver: named,
      accepted_until: new Date().toISOString().slice(0, 10),
      reason: 'r',
    }
    const accepted = await service.call(tenant, 'POST', `${path}/${finding.id}/status`, { body: acceptance })
    expect(findingSchema.parse(accepted.json).accepted_by).toEqual({ ...named, person_id: id })
  })

  test('is stored without an id while the universe does not answer', async () => {
    await service.universe?.stop()
    expect((await openFinding(service, tenant, { owner: named })).owner).toEqual(named)
  })
})
