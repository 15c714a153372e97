import { documentedFindingSchema, findingSchema, problemSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type FindingsUnderTest,
  type Principal,
  closedFinding,
  completeFields,
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

const document = async (tenant: Principal, given: object) =>
  await service.call(tenant, 'POST', path, { body: findingBody(given) })

describe('a finding that repeats another', () => {
  test('must name a closed finding of the tenant: open, foreign and missing ones are rejected', async () => {
    const [tenant, other] = [newTenant(), newTenant()]
    const open = await openFinding(service, tenant)
    const closed = await closedFinding(service, tenant)
    const foreign = await closedFinding(service, other)
    const refusal = async (id: string) => {
      const answer = await document(tenant, { repeat_of_id: id })
      return [answer.status, problemSchema.parse(answer.json).errors]
    }
    expect(await refusal(open.id)).toEqual([
      422,
      [{ pointer: '/repeat_of_id', code: 'not_closed', detail: expect.any(String) }],
    ])
    expect(await refusal(foreign.id)).toEqual(await refusal(crypto.randomUUID()))
    const made = await document(tenant, { repeat_of_id: closed.id })
    expect(findingSchema.parse(made.json)).toMatchObject({ is_repeat: true, repeat_of_id: closed.id })
  })

  test('a draft cannot become the repeat of an open finding either, also without the service', async () => {
    const tenant = newTenant()
    const open = await openFinding(service, tenant)
    const draft = findingSchema.parse((await document(tenant, {})).json)
    const body = { repeat_of_id: open.id }
    const answer = await service.call(tenant, 'PATCH', `${path}/${draft.id}`, { body, headers: { 'if-match': '*' } })
    expect([answer.status, problemSchema.parse(answer.json).errors?.[0]?.code]).toEqual([422, 'not_closed'])
    const past = service.asService.write(service.assertionOf(tenant.tenantId), async (tx) =>
      tx.execute({
        text: 'update findings.finding set repeat_of_id = $2, version = version + 1 where id = $1',
        values: [draft.id, open.id],
      }),
    )
    await expect(past).rejects.toMatchObject({ constraint: 'finding_repeats_what_has_ended' })
  })

  test('can still change if the repeated finding is reopened', async () => {
    const tenant = newTenant()
    const closed = await closedFinding(service, tenant)
    const made = findingSchema.parse((await document(tenant, { repeat_of_id: closed.id })).json)
    const reopened = await service.call(tenant, 'POST', `${path}/${closed.id}/status`, {
      body: { to: 'open', reason: 'Seen again' },
    })
    expect(reopened).toMatchObject({ status: 200 })
    const patched = await service.call(tenant, 'PATCH', `${path}/${made.id}`, {
      body: { title: 'Changed' },
      headers: { 'if-match': '*' },
    })
    expect(patched).toMatchObject({ status: 200, json: { title: 'Changed', repeat_of_id: closed.id } })
    const cancelled = await service.call(tenant, 'POST', `${path}/${made.id}/status`, {
      body: { to: 'cancelled', reason: 'Not one' },
    })
    expect(cancelled).toMatchObject({ status: 200 })
  })

  test('gets a suggested severity that is not applied', async () => {
    const tenant = newTenant()
    const { id } = await closedFinding(service, tenant, { severity: 'high' })
    const made = documentedFindingSchema.parse((await document(tenant, { repeat_of_id: id, severity: 'high' })).json)
    expect(made).toMatchObject({ severity: 'high', suggested_severity: 'critical', possible_repeats: [] })
  })
})

describe('a new finding', () => {
  test('returns closed findings about the same entity with similar criteria, and no others', async () => {
    const [tenant, other] = [newTenant(), newTenant()]
    const entity = [crypto.randomUUID()]
    const closed = await closedFinding(service, tenant, { entity_ids: entity })
    await closedFinding(service, tenant, { entity_ids: entity, criteria: 'Doors are locked at night.' })
    await closedFinding(service, tenant, { entity_ids: [crypto.randomUUID()] })
    await openFinding(service, tenant, { entity_ids: entity })
    await closedFinding(service, other, { entity_ids: entity })
    const given = { ...completeFields, entity_ids: entity }
    const made = documentedFindingSchema.parse((await document(tenant, given)).json)
    const { id, reference, title, severity } = closed
    const today = new Date().toISOString().slice(0, 10)
    expect(made.possible_repeats).toEqual([{ id, reference, title, severity, closed_date: today, similarity: 1 }])
    const blind = await document({ ...tenant, scopes: ['write:findings'] }, given)
    expect(Object.keys(Object(blind.json))).toEqual(['id', 'reference', 'version', 'status'])
  })
})
