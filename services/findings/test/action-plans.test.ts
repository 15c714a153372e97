import {
  actionPlanSchema,
  actionPlanStatuses,
  actionPlanStubSchema,
  findingSchema,
  logEntrySchema,
  problemSchema,
  recommendationSchema,
} from '@postern/contracts'
import { sqlError } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type FindingsUnderTest, appendToLog, newTenant, openFinding, path, startFindings } from './service.ts'
import { day, evidence, planBody, planCalls, plans, pointers } from './plans.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

const { propose, proposed, patch, move, read } = planCalls(() => service)

describe('proposing an action plan', () => {
  test('is rejected without write:findings, and for a missing finding', async () => {
    const tenant = newTenant()
    const { id } = await openFinding(service, tenant)
    expect((await propose({ ...tenant, scopes: ['read:findings'] }, id)).status).toBe(403)
    expect((await propose(newTenant(), id)).status).toBe(404)
    expect((await propose(tenant, crypto.randomUUID())).status).toBe(404)
  })

  test.each([
    ['no owner', { owner: undefined }, '/owner'],
    ['no due date', { due_date: undefined }, '/due_date'],
    ['a due date before the finding', { due_date: '2001-01-01' }, '/due_date'],
    ['a due date in no year', { due_date: '0000-01-01' }, '/due_date'],
    ['a link that is not https', { external_url: 'javascript:alert(1)' }, '/external_url'],
    ['a link with spaces', { external_url: 'https://a b/' }, '/external_url'],
    ['money in words', { estimated_cost: { amount: 'much', currency: 'EUR' } }, '/estimated_cost/amount'],
    ['a status', { status: 'verified' }, '/status'],
    ['a recommendation of nothing', { recommendation_ids: [crypto.randomUUID()] }, '/recommendation_ids'],
  ])('is rejected with a pointer to the error: %s', async (_what, given, pointer) => {
    const tenant = newTenant()
    const { id } = await openFinding(service, tenant)
    const answer = await propose(tenant, id, given)
    expect(answer.status, answer.text).toBe(422)
    expect(pointers(answer.json)).toContain(pointer)
    expect(await read(tenant, plans)).toEqual([])
  })

  test('returns the plan, its location and its entity tag', async () => {
    const tenant = newTenant()
    const finding = await openFinding(service, tenant)
    const recommended = recommendationSchema.parse(
      (await service.call(tenant, 'POST', `${path}/${finding.id}/recommendations`, { body: { text: 'x' } })).json,
    )
    const given = {
      external_id: 'JIRA-7',
      recommendation_ids: [recommended.id],
      estimated_cost: { amount: '1250.50', currency: 'EUR' },
      external_url: 'https://jira.example.org/browse/7',
      custom: { team: 'IAM' },
    }
    const answer = await propose(tenant, finding.id, given)
    const plan = actionPlanSchema.parse(answer.json)
    expect(plan).toMatchObject({
      ...planBody,
      ...given,
      finding_id: finding.id,
      reference: `AP-${day(0).slice(0, 4)}-0001`,
      original_due_date: day(30),
      status: 'proposed',
      percent_complete: 0,
      extensions: [],
      is_overdue: false,
    })
    expect(answer.headers['location']).toBe(`${plans}/${plan.id}`)
    for (const address of [plan.id, `ref:${plan.reference}`, 'ext:JIRA-7']) {
      expect(await read(tenant, `${plans}/${address}`)).toEqual(plan)
      expect((await service.call(newTenant(), 'GET', `${plans}/${address}`)).status).toBe(404)
    }
    expect((await propose(tenant, finding.id, { external_id: 'JIRA-7' })).status).toBe(409)
    const foreign = await openFinding(service, tenant)
    expect((await propose(tenant, foreign.id, { recommendation_ids: [recommended.id] })).status).toBe(422)
    const stub = await propose({ ...tenant, scopes: ['write:findings'] }, finding.id)
    actionPlanStubSchema.strict().parse(stub.json)
  })
})

describe('the status of an action plan', () => {
  test('can go from proposed to verified, and the finding and the recommendation follow', async () => {
    const tenant = newTenant()
    const finding = await openFinding(service, tenant)
    const submit = await service.call(tenant, 'POST', `${path}/${finding.id}/recommendations`, { body: { text: 'x' } })
    const { id: recommendation } = recommendationSchema.parse(submit.json)
    await service.call(tenant, 'PATCH', `/api/v1/recommendations/${recommendation}`, {
      body: { response: 'accepted' },
      headers: { 'if-match': '*' },
    })
    const { id } = actionPlanSchema.parse(
      (await propose(tenant, finding.id, { recommendation_ids: [recommendation] })).json,
    )
    const statuses = async () => [
      findingSchema.parse(await read(tenant, `${path}/${finding.id}`)).status,
      recommendationSchema.parse(await read(tenant, `/api/v1/recommendations/${recommendation}`)).status,
    ]
    const toPending = async () =>
      await service.call(tenant, 'POST', `${path}/${finding.id}/status`, { body: { to: 'pending_validation' } })

    expect((await move(tenant, id, 'approved')).status).toBe(200)
    expect(await statuses()).toEqual(['in_remediation', 'accepted'])
    expect((await move(tenant, id, 'in_progress')).status).toBe(200)
    const early = await toPending()
    expect([early.status, problemSchema.parse(early.json).errors?.[0]?.code]).toEqual([409, 'unfinished_action_plans'])
    const implemented = await move(tenant, id, 'implemented', { percent_complete: 100, note: 'Done.' })
    expect(actionPlanSchema.parse(implemented.json)).toMatchObject({ percent_complete: 100, completed_date: day(0) })
    expect(await statuses()).toEqual(['in_remediation', 'implemented'])
    const bo = { email: 'bo@example.org', name: 'Bo' }
    const verified = await move(tenant, id, 'verified', { verified_by: bo, evidence_refs: [evidence] })
    expect(actionPlanSchema.parse(verified.json)).toMatchObject({ verified_by: bo, verified_date: day(0) })
    expect(await statuses()).toEqual(['in_remediation', 'verified'])
    expect((await toPending()).status).toBe(200)

    const log = z
      .array(logEntrySchema)
      .parse(await read(tenant, `${path}/${finding.id}/log?kind=status_change,validation`))
    expect(log.map(({ changes }) => changes.find(({ field }) => field === 'status')?.to)).toEqual([
      'accepted',
      'approved',
      'in_remediation',
      'in_progress',
      'implemented',
      'implemented',
      'verified',
      'verified',
      'pending_validation',
    ])
  })

  test.each([
    ['rejecting without a reason', [], 'rejected', {}, ['/reason']],
    [
      'saying that it is done without saying what',
      ['approved', 'in_progress'],
      'implemented',
      {},
      ['/percent_complete', '/note'],
    ],
    ['blocking without a reason', ['approved', 'in_progress'], 'blocked', {}, ['/reason']],
    ['cancelling without a reason', ['approved'], 'cancelled', {}, ['/reason']],
  ] as const)('is rejected with a pointer to the error: %s', async (_what, way, to, body, expected) => {
    const tenant = newTenant()
    const { plan } = await proposed(tenant)
    for (const step of way) expect((await move(tenant, plan.id, step)).status).toBe(200)
    const answer = await move(tenant, plan.id, to, body)
    const { code, allowed } = problemSchema.parse(answer.json)
    expect([answer.status, code, allowed?.includes(to)]).toEqual([409, 'invalid_transition', true])
    expect(pointers(answer.json)).toEqual(expected)
    expect(
      (await move(tenant, plan.id, to, { reason: 'r', note: 'n', percent_complete: to === 'implemented' ? 100 : 0 }))
        .status,
    ).toBe(200)
  })

  test('cannot become verified by its owner, or without evidence if the finding is critical or high', async () => {
    const tenant = newTenant()
    const { plan } = await proposed(tenant)
    for (const step of ['approved', 'in_progress']) await move(tenant, plan.id, step)
    await move(tenant, plan.id, 'implemented', { percent_complete: 100, note: 'n' })
    const own = await move(tenant, plan.id, 'verified', { verified_by: { email: 'ADA@example.org' } })
    expect(pointers(own.json)).toEqual(['/verified_by', '/evidence_refs'])
    // The owner has only an address, so a name cannot be compared.
    const named = await move(tenant, plan.id, 'verified', { verified_by: { name: 'Ada' }, evidence_refs: [evidence] })
    expect([named.status, problemSchema.parse(named.json).errors]).toMatchObject([
      409,
      [{ pointer: '/verified_by', code: 'not_comparable' }],
    ])
    // The same applies to a new owner with only an address.
    await patch(tenant, plan.id, { owner: { email: 'bo@example.org', name: 'Bo Ray' } })
    await patch(tenant, plan.id, { owner: { email: 'ada@example.org' } })
    const taken = await move(tenant, plan.id, 'verified', { verified_by: { name: 'Ada' }, evidence_refs: [evidence] })
    expect(problemSchema.parse(taken.json).errors).toMatchObject([{ code: 'not_comparable' }])
    const back = await move(tenant, plan.id, 'in_progress', { reason: 'Not all.' })
    expect(actionPlanSchema.parse(back.json)).toMatchObject({ percent_complete: 99, completed_date: null })
  })

  test('that cannot be reached returns 409 with the allowed ones', async () => {
    const tenant = newTenant()
    const { plan, finding } = await proposed(tenant)
    const answer = await move(tenant, plan.id, 'verified')
    expect(answer.status).toBe(409)
    expect(problemSchema.parse(answer.json).allowed).toEqual(['approved', 'rejected', 'cancelled'])
    expect((await move(newTenant(), plan.id, 'approved')).status).toBe(404)
    await service.call(tenant, 'POST', `${path}/${finding.id}/status`, { body: { to: 'cancelled', reason: 'x' } })
    const refused = {
      status: 409,
      code: 'invalid_transition',
      allowed: [],
      detail: expect.stringContaining('cancelled'),
    }
    expect((await move(tenant, plan.id, 'approved')).json).toMatchObject(refused)
    expect((await patch(tenant, plan.id, { status: 'approved' })).json).toMatchObject(refused)
    const conflict = { status: 409, code: 'conflict', detail: expect.stringContaining('cancelled') }
    expect((await patch(tenant, plan.id, { title: 'x' })).json).toMatchObject(conflict)
    expect((await propose(tenant, finding.id)).json).toMatchObject(conflict)
    const ended = (await proposed(tenant)).plan.id
    await move(tenant, ended, 'rejected', { reason: 'Too dear.' })
    const over = { ...refused, detail: expect.stringContaining('rejected') }
    expect((await move(tenant, ended, 'approved')).json).toMatchObject(over)
    expect((await patch(tenant, ended, { status: 'approved' })).json).toMatchObject(over)
  })

  test('can change by PATCH in the same way', async () => {
    const tenant = newTenant()
    const { plan } = await proposed(tenant)
    expect((await patch(tenant, plan.id, { status: 'verified' })).status).toBe(409)
    const answer = await patch(tenant, plan.id, { status: 'approved', title: 'New', percent_complete: 5 })
    expect(actionPlanSchema.parse(answer.json)).toMatchObject({
      status: 'approved',
      title: 'New',
      percent_complete: 5,
      version: 2,
    })
  })

  test('changes only along the state machine, also without the service', async () => {
    const tenant = newTenant()
    const { plan, finding } = await proposed(tenant)
    const set = async (from: string, to: string) =>
      await service.asSuperuser
        .system(async (tx) => {
          const place = `update findings.action_plan set status = $2, version = version + 1,
            percent_complete = case when $2 in ('implemented', 'verified') then 100 else 0 end,
            completed_on = case when $2 in ('implemented', 'verified') then current_date end,
            verified_on = case when $2 = 'verified' then current_date end,
            verified_by = case when $2 = 'verified' then '{"email":"bo@example.org"}'::jsonb end where id = $1`
          await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
          await tx.execute({ text: place, values: [plan.id, from] })
          const busy = `update findings.finding set status = 'in_remediation' where id = $1`
          await tx.execute({ text: busy, values: [finding.id] })
          await tx.execute({ text: 'set local session_replication_role = origin', values: [] })
          await tx.execute({ text: place, values: [plan.id, to] })
          const entry = { action_plan_id: plan.id, changes: [{ field: 'status', from, to }], body: 'Why.' }
          await appendToLog(tx, tenant.tenantId, finding.id, { ...entry, evidence_refs: [{}] })
        })
        .then(() => true)
        .catch((error: unknown) => sqlError(error).constraint ?? 'other')
    const moves: string[] = []
    for (const from of actionPlanStatuses) {
      for (const to of actionPlanStatuses.filter((status) => status !== from)) {
        const outcome = await set(from, to)
        if (outcome === true) moves.push(`${from} ${to}`)
        else expect(['action_plan_status_transition', 'action_plan_end_is_final']).toContain(outcome)
      }
    }
    expect(moves.toSorted()).toEqual(
      [
        'proposed approved',
        'proposed rejected',
        'proposed cancelled',
        'approved in_progress',
        'approved cancelled',
        'in_progress implemented',
        'in_progress blocked',
        'in_progress cancelled',
        'blocked in_progress',
        'blocked cancelled',
        'implemented verified',
        'implemented in_progress',
      ].toSorted(),
    )
  })
})

describe('listing action plans', () => {
  test('returns those of the tenant or of one finding, filtered, in pages', async () => {
    const tenant = newTenant()
    const { finding, plan } = await proposed(tenant, { due_date: day(5), external_id: 'A' })
    const other = await proposed(tenant, { title: 'Encrypt', owner: { name: 'Bo' } })
    await move(tenant, other.plan.id, 'approved')
    const ids = async (target: string, principal = tenant) =>
      z
        .array(actionPlanSchema)
        .parse(await read(principal, target))
        .map(({ id }) => id)
    const [a, b] = [plan.id, other.plan.id]
    for (const [target, expected] of [
      [plans, [b, a]],
      [`${plans}?sort=due_date`, [a, b]],
      [`${plans}?sort=-due_date`, [b, a]],
      [`${plans}?status=approved`, [b]],
      [`${plans}?owner=bo`, [b]],
      [`${plans}?due_before=${day(6)}`, [a]],
      [`${plans}?due_after=${day(6)}`, [b]],
      [`${plans}?external_id=A`, [a]],
      [`${plans}?q=ENCR`, [b]],
      [`${plans}?overdue=true`, []],
      [`${plans}?finding_id=${finding.id}`, [a]],
      [`${path}/${finding.id}/action-plans`, [a]],
    ] as const) {
      expect(await ids(target), target).toEqual(expected)
    }
    const first = await service.call(tenant, 'GET', `${plans}?limit=1&sort=due_date&count=true`)
    expect(first.headers['x-total-count']).toBe('2')
    expect(await ids(/^<([^>]+)>/.exec(first.headers['link'] ?? '')?.[1] ?? '')).toEqual([b])
    expect(await ids(plans, newTenant())).toEqual([])
    expect((await service.call(newTenant(), 'GET', `${path}/${finding.id}/action-plans`)).status).toBe(404)
  })
})
