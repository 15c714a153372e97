import {
  actionPlanSchema,
  logEntrySchema,
  problemSchema,
  recommendationSchema,
  recommendationStubSchema,
  transitionsSchema,
} from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { evidence, planCalls } from './plans.ts'
import { type FindingsUnderTest, type Principal, newTenant, openFinding, path, startFindings } from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

const recommendations = '/api/v1/recommendations'
const readList = z.array(recommendationSchema)

async function submit(tenant: Principal, findingId: string, body: object = { text: 'Recertify each quarter.' }) {
  return await service.call(tenant, 'POST', `${path}/${findingId}/recommendations`, { body })
}

async function submitted(tenant: Principal, given: object = {}) {
  const finding = await openFinding(service, tenant)
  const answer = await submit(tenant, finding.id, { text: 'Recertify each quarter.', ...given })
  expect(answer.status, answer.text).toBe(201)
  return { finding, recommendation: recommendationSchema.parse(answer.json), etag: answer.headers['etag'] ?? '' }
}

async function patch(tenant: Principal, id: string, body: object, etag = '*') {
  return await service.call(tenant, 'PATCH', `${recommendations}/${id}`, { body, headers: { 'if-match': etag } })
}

const { propose, patch: patchPlan, move: movePlan } = planCalls(() => service)

async function submittedTo(tenant: Principal, findingId: string) {
  return recommendationSchema.parse((await submit(tenant, findingId)).json).id
}

async function acceptedOf(tenant: Principal, findingId: string) {
  const id = await submittedTo(tenant, findingId)
  expect((await patch(tenant, id, { response: 'accepted' })).status).toBe(200)
  return id
}

/** A plan that carries recommendations out, brought to a status. */
async function planned(tenant: Principal, findingId: string, recommended: readonly string[], to = 'proposed') {
  const answer = await propose(tenant, findingId, { recommendation_ids: recommended })
  const { id } = actionPlanSchema.parse(answer.json)
  const steps = [
    ['approved', {}],
    ['in_progress', {}],
    ['implemented', { percent_complete: 100, note: 'n' }],
    ['verified', { verified_by: { email: 'bo@example.org' }, evidence_refs: [evidence] }],
  ] as const
  for (const [step, body] of steps.slice(0, steps.findIndex(([status]) => status === to) + 1)) {
    expect((await movePlan(tenant, id, step, body)).status).toBe(200)
  }
  return id
}

async function statusOf(tenant: Principal, id: string) {
  return recommendationSchema.parse((await service.call(tenant, 'GET', `${recommendations}/${id}`)).json).status
}

describe('a recommendation', () => {
  test('is rejected without write:findings, and for a missing finding', async () => {
    const tenant = newTenant()
    const { id } = await openFinding(service, tenant)
    expect((await submit({ ...tenant, scopes: ['read:findings'] }, id)).status).toBe(403)
    const foreign = await submit(newTenant(), id)
    const unknown = await submit(newTenant(), crypto.randomUUID())
    expect([foreign.status, unknown.status]).toEqual([404, 404])
    expect((await submit(tenant, id, { text: '' })).status).toBe(422)
  })

  test('gets a number within its finding and a default priority by severity', async () => {
    const tenant = newTenant()
    const { finding, recommendation, etag } = await submitted(tenant, { external_id: 'X' })
    expect(recommendation).toMatchObject({
      reference: `R${finding.reference.slice(1)}.1`,
      finding_id: finding.id,
      priority: 'high',
      response: 'pending',
      status: 'submitted',
    })
    const second = recommendationSchema.parse((await submit(tenant, finding.id, { text: 'x', priority: 'low' })).json)
    expect([second.reference.at(-1), second.priority]).toEqual(['2', 'low'])
    for (const address of [recommendation.id, `ref:${recommendation.reference}`, 'ext:X']) {
      const read = await service.call(tenant, 'GET', `${recommendations}/${address}`)
      expect(read.json).toEqual(recommendation)
      expect(read.headers['etag']).toBe(etag)
      expect((await service.call(newTenant(), 'GET', `${recommendations}/${address}`)).status).toBe(404)
    }
    expect((await submit(tenant, finding.id, { text: 'x', external_id: 'X' })).status).toBe(409)
  })

  test('returns only id, reference, version and status to a caller that cannot read', async () => {
    const tenant = newTenant()
    const { id } = await openFinding(service, tenant)
    const answer = await submit({ ...tenant, scopes: ['write:findings'] }, id)
    expect(recommendationStubSchema.strict().parse(answer.json).version).toBe(1)
  })

  test('can change only with If-Match', async () => {
    const tenant = newTenant()
    const { recommendation, etag } = await submitted(tenant)
    const target = `${recommendations}/${recommendation.id}`
    expect((await service.call(tenant, 'PATCH', target, { body: { text: 'x' } })).status).toBe(428)
    expect((await patch(tenant, recommendation.id, { text: 'x' }, '"9.2026-01-01"')).status).toBe(412)
    expect((await patch(newTenant(), recommendation.id, { text: 'x' }, etag)).status).toBe(404)
    expect(
      recommendationSchema.parse((await patch(tenant, recommendation.id, { text: 'x' }, etag)).json),
    ).toMatchObject({
      text: 'x',
      version: 2,
    })
  })

  test('can be rejected only with a rationale, and then is final', async () => {
    const tenant = newTenant()
    const { recommendation } = await submitted(tenant)
    const silent = await patch(tenant, recommendation.id, { response: 'rejected' })
    expect(silent.status).toBe(422)
    expect(problemSchema.parse(silent.json).errors).toEqual([
      expect.objectContaining({ pointer: '/response_rationale' }),
    ])
    const rejected = await patch(tenant, recommendation.id, { response: 'rejected', response_rationale: 'Too dear.' })
    expect(recommendationSchema.parse(rejected.json).status).toBe('rejected')
    const after = await patch(tenant, recommendation.id, { status: 'superseded' })
    expect([after.status, problemSchema.parse(after.json).allowed]).toEqual([409, []])
  })

  test('blocks the remediation of its finding if all were rejected, until another is submitted or the risk is accepted', async () => {
    const tenant = newTenant()
    const { finding, recommendation } = await submitted(tenant)
    await patch(tenant, recommendation.id, { response: 'rejected', response_rationale: 'Too dear.' })
    const plan = { title: 'Another way', owner: { name: 'Bo' }, due_date: '2030-01-01' }
    const made = await service.call(tenant, 'POST', `${path}/${finding.id}/action-plans`, { body: plan })
    const target = `/api/v1/action-plans/${z.object({ id: z.string() }).parse(made.json).id}/status`
    for (const body of [{ to: 'approved' }, { to: 'cancelled', reason: 'Not agreed to.' }]) {
      expect((await service.call(tenant, 'POST', target, { body })).status).toBe(200)
    }
    const move = async () =>
      await service.call(tenant, 'POST', `${path}/${finding.id}/status`, { body: { to: 'pending_validation' } })
    const refused = await move()
    expect([refused.status, problemSchema.parse(refused.json)]).toMatchObject([
      409,
      { code: 'invalid_transition', errors: [{ code: 'recommendations_rejected' }] },
    ])
    const moves = await service.call(tenant, 'GET', `${path}/${finding.id}/transitions`)
    expect(transitionsSchema.parse(moves.json).transitions.find(({ to }) => to === 'risk_accepted')?.missing).toEqual(
      [],
    )
    // Past the service too.
    const past = service.asService.write(service.assertionOf(tenant.tenantId), async (tx) =>
      tx.execute({
        text: `update findings.finding set status = 'pending_validation', version = version + 1 where id = $1`,
        values: [finding.id],
      }),
    )
    await expect(past).rejects.toMatchObject({ constraint: 'finding_recommendations_rejected' })
    expect((await submit(tenant, finding.id, { text: 'A cheaper one.' })).status).toBe(201)
    expect((await move()).status).toBe(200)
  })

  test('of a cancelled finding cannot change', async () => {
    const tenant = newTenant()
    const { recommendation, finding } = await submitted(tenant)
    const cancelled = { to: 'cancelled', reason: 'Raised in error.' }
    expect((await patch(tenant, recommendation.id, { text: 'Better.' })).status).toBe(200)
    await service.call(tenant, 'POST', `${path}/${finding.id}/status`, { body: cancelled })
    expect((await patch(tenant, recommendation.id, { text: 'Best.' })).status).toBe(409)
    expect((await submit(tenant, finding.id, { text: 'Another.' })).status).toBe(409)
  })

  test('is accepted, implemented and verified in this order if it has no plan', async () => {
    const tenant = newTenant()
    const {
      recommendation: { id },
      finding,
    } = await submitted(tenant)
    const early = await patch(tenant, id, { status: 'implemented' })
    expect([early.status, problemSchema.parse(early.json).allowed]).toEqual([
      409,
      ['accepted', 'rejected', 'superseded'],
    ])
    for (const [body, status] of [
      [{ response: 'partially_accepted' }, 'accepted'],
      [{ status: 'implemented' }, 'implemented'],
      [{ status: 'verified' }, 'verified'],
    ] as const) {
      expect(recommendationSchema.parse((await patch(tenant, id, body)).json).status).toBe(status)
    }
    const log = z.array(logEntrySchema).parse((await service.call(tenant, 'GET', `${path}/${finding.id}/log`)).json)
    expect(log.slice(1).every((entry) => entry.recommendation_id === id)).toBe(true)
    expect(log.slice(1).map(({ kind }) => kind)).toEqual([
      'created',
      'field_change',
      'status_change',
      'status_change',
      'status_change',
    ])
  })
})

describe('a recommendation that plans carry out', () => {
  test('takes the status of its plans once it is accepted, even if they came first', async () => {
    const tenant = newTenant()
    const { id: finding } = await openFinding(service, tenant)
    const late = await submittedTo(tenant, finding)
    await planned(tenant, finding, [late], 'verified')
    expect(await statusOf(tenant, late)).toBe('submitted')
    const answer = await patch(tenant, late, { response: 'partially_accepted' })
    expect(recommendationSchema.parse(answer.json)).toMatchObject({ status: 'verified', version: 4 })
    expect(answer.headers['etag']).toMatch(/^"4\./)
    const log = z
      .array(logEntrySchema)
      .parse((await service.call(tenant, 'GET', `${path}/${finding}/log?kind=status_change&limit=1000`)).json)
    const moves = log.filter(({ recommendation_id }) => recommendation_id === late)
    expect(moves.map(({ changes }) => changes[0]?.to)).toEqual(['accepted', 'implemented', 'verified'])
  })

  test('goes back if an unfinished plan is added, and forward if it is removed', async () => {
    const tenant = newTenant()
    const { id: finding } = await openFinding(service, tenant)
    const id = await acceptedOf(tenant, finding)
    await planned(tenant, finding, [id], 'implemented')
    expect(await statusOf(tenant, id)).toBe('implemented')
    const second = await planned(tenant, finding, [id])
    expect(await statusOf(tenant, id)).toBe('accepted')
    expect((await patchPlan(tenant, second, { recommendation_ids: [] })).status).toBe(200)
    expect(await statusOf(tenant, id)).toBe('implemented')
    expect((await patchPlan(tenant, second, { recommendation_ids: [id] })).status).toBe(200)
    expect(await statusOf(tenant, id)).toBe('accepted')
    // And one that is not yet carried out, as far as the plan that comes to carry it out.
    const other = await acceptedOf(tenant, finding)
    const done = await planned(tenant, finding, [], 'implemented')
    expect((await patchPlan(tenant, done, { recommendation_ids: [other] })).status).toBe(200)
    expect(await statusOf(tenant, other)).toBe('implemented')
  })

  test('can be moved by people only if it has no live plan', async () => {
    const tenant = newTenant()
    const { id: finding } = await openFinding(service, tenant)
    const id = await acceptedOf(tenant, finding)
    const [refused, cancelled] = [await planned(tenant, finding, [id]), await planned(tenant, finding, [id])]
    const derived = await patch(tenant, id, { status: 'implemented' })
    expect([derived.status, problemSchema.parse(derived.json).errors?.[0]?.code]).toEqual([422, 'derived'])
    expect((await movePlan(tenant, refused, 'rejected', { reason: 'Too dear.' })).status).toBe(200)
    expect((await patch(tenant, id, { status: 'implemented' })).status).toBe(422)
    expect((await movePlan(tenant, cancelled, 'cancelled', { reason: 'Done already.' })).status).toBe(200)
    for (const status of ['implemented', 'verified']) expect((await patch(tenant, id, { status })).status).toBe(200)
    expect(await statusOf(tenant, id)).toBe('verified')
  })

  test('is limited to a thousand per finding', async () => {
    const tenant = newTenant()
    const { id: finding } = await openFinding(service, tenant)
    const last = await submittedTo(tenant, finding)
    await service.asSuperuser.system(async (tx) => {
      await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
      const text = `update findings.recommendation set number = 999, reference = reference || '99' where id = $1`
      await tx.execute({ text, values: [last] })
    })
    expect((await submit(tenant, finding)).status).toBe(201)
    const answer = await submit(tenant, finding)
    expect([answer.status, problemSchema.parse(answer.json)]).toMatchObject([
      409,
      { code: 'conflict', detail: expect.stringContaining('1000') },
    ])
  })

  test('with a final status returns 409, with a code for status changes and one for other changes', async () => {
    const tenant = newTenant()
    const { id: finding } = await openFinding(service, tenant)
    const id = await acceptedOf(tenant, finding)
    expect((await patch(tenant, id, { status: 'superseded' })).status).toBe(200)
    for (const [body, code] of [
      [{ custom: {} }, 'conflict'],
      [{ text: 'x' }, 'conflict'],
      [{ status: 'verified' }, 'invalid_transition'],
    ] as const) {
      const answer = await patch(tenant, id, body)
      expect([answer.status, problemSchema.parse(answer.json).code]).toEqual([409, code])
    }
  })
})

describe('listing recommendations', () => {
  test('returns those of the tenant or of one finding, filtered, in pages', async () => {
    const tenant = newTenant()
    const { finding, recommendation } = await submitted(tenant, { external_id: 'A' })
    const other = await submitted(tenant, { text: 'Encrypt backups.' })
    await patch(tenant, other.recommendation.id, { response: 'accepted' })
    const ids = async (target: string, principal = tenant) =>
      readList.parse((await service.call(principal, 'GET', target)).json).map(({ id }) => id)
    const [a, b] = [recommendation.id, other.recommendation.id]
    for (const [target, expected] of [
      [recommendations, [b, a]],
      [`${recommendations}?sort=created_at`, [a, b]],
      [`${recommendations}?sort=-updated_at`, [b, a]],
      [`${recommendations}?status=accepted`, [b]],
      [`${recommendations}?external_id=A`, [a]],
      [`${recommendations}?q=BACKUPS`, [b]],
      [`${recommendations}?finding_id=${finding.id}`, [a]],
      [`${path}/${finding.id}/recommendations`, [a]],
      [`${path}/ref:${finding.reference}/recommendations?status=accepted`, []],
    ] as const) {
      expect(await ids(target), target).toEqual(expected)
    }
    const first = await service.call(tenant, 'GET', `${recommendations}?limit=1&count=true`)
    expect(first.headers['x-total-count']).toBe('2')
    expect(await ids(/^<([^>]+)>/.exec(first.headers['link'] ?? '')?.[1] ?? '')).toEqual([a])
    expect(await ids(recommendations, newTenant())).toEqual([])
    expect((await service.call(newTenant(), 'GET', `${path}/${finding.id}/recommendations`)).status).toBe(404)
  })
})
