import { randomUUID } from 'node:crypto'
import { actionPlanSchema, actionPlanStatuses, logEntrySchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { day, evidence, planBody, planCalls, plans, pointers } from './plans.ts'
import { type FindingsUnderTest, newTenant, path, startFindings } from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

const { proposed, patch, move, read } = planCalls(() => service)

/** The patch that verifies a plan. */
const by = (email: string) => ({ status: 'verified', verified_by: { email }, evidence_refs: [evidence] })

describe('changing an action plan', () => {
  test('needs If-Match', async () => {
    const tenant = newTenant()
    const { plan, etag } = await proposed(tenant)
    expect((await service.call(tenant, 'PATCH', `${plans}/${plan.id}`, { body: { title: 'x' } })).status).toBe(428)
    expect((await patch(tenant, plan.id, { title: 'x' }, '"5.2026-01-01"')).status).toBe(412)
    expect((await patch(newTenant(), plan.id, { title: 'x' }, etag)).status).toBe(404)
    expect((await patch(tenant, plan.id, { title: 'x' }, etag)).status).toBe(200)
  })

  test('logs progress, owner and other fields in separate entries', async () => {
    const tenant = newTenant()
    const { plan, finding } = await proposed(tenant)
    const body = { percent_complete: 40, owner: { name: 'Bo' }, title: 'New', recommendation_ids: [] }
    expect((await patch(tenant, plan.id, body)).status).toBe(200)
    expect((await patch(tenant, plan.id, { percent_complete: 100 })).status).toBe(422)
    const log = z.array(logEntrySchema).parse(await read(tenant, `${path}/${finding.id}/log?after_seq=2`))
    expect(log.map(({ kind, action_plan_id }) => [kind, action_plan_id])).toEqual([
      ['field_change', plan.id],
      ['owner_change', plan.id],
      ['progress', plan.id],
    ])
  })

  test.each(['proposed', 'approved', 'in_progress', 'blocked'] as const)(
    'rejects 100 percent while the plan is %s, also with an unchanged status, in single and bulk requests',
    async (status) => {
      const tenant = newTenant()
      const { plan } = await proposed(tenant)
      for (const to of actionPlanStatuses.slice(1, actionPlanStatuses.indexOf(status) + 1)) {
        expect((await move(tenant, plan.id, to, { reason: 'r' })).status).toBe(200)
      }
      const before = await read(tenant, `${plans}/${plan.id}`)
      const whole = { status, percent_complete: 100 }
      const answer = await patch(tenant, plan.id, whole)
      expect([answer.status, pointers(answer.json)]).toEqual([422, ['/percent_complete']])
      const { version } = actionPlanSchema.parse(before)
      const { json } = await service.call(tenant, 'POST', `${plans}/bulk`, {
        body: { mode: 'best_effort', items: [{ id: plan.id, version, ...whole }] },
      })
      expect(json).toMatchObject([{ status: 422, problem: { errors: [{ pointer: '/items/0/percent_complete' }] } }])
      expect(await read(tenant, `${plans}/${plan.id}`)).toEqual(before)
      expect((await patch(tenant, plan.id, { status, percent_complete: 99 })).status).toBe(200)
    },
  )

  test('allows at most a hundred changes of the due date over all routes', async () => {
    const tenant = newTenant()
    const { plan } = await proposed(tenant)
    const told = { extension_reason: 'Again.', extension_approved_by: { name: 'Cleo' } }
    for (let turn = 1; turn <= 100; turn += 1) {
      const moved = await patch(tenant, plan.id, { ...told, due_date: day(30 + turn) })
      expect(moved.status, moved.text).toBe(200)
    }
    const before = await read(tenant, `${plans}/${plan.id}`)
    const refusals = [
      await patch(tenant, plan.id, { ...told, due_date: day(200) }),
      await patch(tenant, plan.id, { ...told, due_date: day(200), status: 'approved' }),
      await service.call(tenant, 'POST', `${plans}/${plan.id}/extensions`, {
        body: { to: day(200), reason: 'Again.', approved_by: { name: 'Cleo' } },
      }),
    ]
    for (const refusal of refusals) {
      expect([refusal.status, refusal.json]).toMatchObject([
        409,
        { detail: expect.stringContaining('at most 100 times') },
      ])
    }
    expect(await read(tenant, `${plans}/${plan.id}`)).toEqual(before)
    expect((await patch(tenant, plan.id, { title: 'Another' })).status).toBe(200)
  })

  test('requires a reason and an approver for a new due date, and keeps the original one', async () => {
    const tenant = newTenant()
    const { plan, finding } = await proposed(tenant)
    const silent = await patch(tenant, plan.id, { due_date: day(60) })
    expect([silent.status, pointers(silent.json)]).toEqual([422, ['/extension_reason', '/extension_approved_by']])
    const told = { due_date: day(60), extension_reason: 'Vendor is late.', extension_approved_by: { name: 'Cleo' } }
    expect((await patch(tenant, plan.id, { ...told, title: 'Another' })).status).toBe(200)
    const ofTitle = z.array(logEntrySchema).parse(await read(tenant, `${path}/${finding.id}/log?kind=field_change`))
    expect(ofTitle.map(({ body, changes }) => [body, changes.map(({ field }) => field)])).toEqual([[null, ['title']]])
    const extend = async (to: string, reason = 'Again.') =>
      await service.call(tenant, 'POST', `${plans}/${plan.id}/extensions`, {
        body: { to, reason, approved_by: { name: 'Cleo' } },
      })
    expect((await extend(day(60))).status).toBe(422)
    for (const nothing of [' \n', '\u0085']) expect((await extend(day(90), nothing)).status).toBe(422)
    expect((await patch(tenant, plan.id, { ...told, due_date: day(70), extension_reason: '\u0085' })).status).toBe(422)
    const answer = await extend(day(90))
    expect(answer.status, answer.text).toBe(201)
    expect(actionPlanSchema.parse(answer.json)).toMatchObject({
      due_date: day(90),
      original_due_date: day(30),
      extension_count: 2,
      extensions: [
        { number: 1, from: day(30), to: day(60), reason: 'Vendor is late.', approved_by: { name: 'Cleo' } },
        { number: 2, from: day(60), to: day(90), reason: 'Again.', created_by: { type: 'api_key' } },
      ],
    })
    service.setToday(day(100))
    const late = actionPlanSchema.parse(await read(tenant, `${plans}/${plan.id}`))
    service.setToday(undefined)
    expect(late).toMatchObject({ is_overdue: true, days_overdue: 10, days_late_vs_original: 70 })
    const agreed = { field: 'extension_approved_by', from: null, to: { name: 'Cleo' } }
    const log = z.array(logEntrySchema).parse(await read(tenant, `${path}/${finding.id}/log?kind=due_date_change`))
    expect(log.map(({ body, changes }) => [body, changes])).toEqual([
      ['Vendor is late.', [{ field: 'due_date', from: day(30), to: day(60) }, agreed]],
      ['Again.', [{ field: 'due_date', from: day(60), to: day(90) }, agreed]],
    ])
    const [created] = z
      .array(logEntrySchema)
      .parse(await read(tenant, `${path}/${finding.id}/log?kind=created`))
      .filter(({ action_plan_id: of }) => of === plan.id)
    expect(created?.changes).toEqual([
      { field: 'status', from: null, to: 'proposed' },
      { field: 'owner', from: null, to: plan.owner },
      { field: 'due_date', from: null, to: day(30) },
    ])
  })

  test.each([
    ['a note alone', { note: 'Half done.' }, ['/note']],
    ['evidence with the status that it has', { status: 'in_progress', evidence_refs: [evidence] }, ['/evidence_refs']],
    [
      'who has verified it, and why',
      { reason: 'Why.', verified_by: { name: 'Bo' }, title: 'x' },
      ['/reason', '/verified_by'],
    ],
    [
      'why a due date moves that stays',
      { due_date: planBody.due_date, extension_reason: 'Late.', extension_approved_by: { name: 'Bo' } },
      ['/extension_reason', '/extension_approved_by'],
    ],
  ])('rejects members that would have no effect: %s', async (_what, body, expected) => {
    const tenant = newTenant()
    const { plan } = await proposed(tenant)
    for (const to of ['approved', 'in_progress']) await move(tenant, plan.id, to)
    const before = actionPlanSchema.parse(await read(tenant, `${plans}/${plan.id}`))
    const answer = await patch(tenant, plan.id, body)
    expect([answer.status, pointers(answer.json)]).toEqual([422, expected])
    const { json } = await service.call(tenant, 'POST', `${plans}/bulk`, {
      body: { mode: 'best_effort', items: [{ id: plan.id, version: before.version, ...body }] },
    })
    const errors = expected.map((pointer) => ({ pointer: `/items/0${pointer}`, code: 'unused' }))
    expect(json).toMatchObject([{ status: 422, problem: { errors } }])
    expect(await read(tenant, `${plans}/${plan.id}`)).toEqual(before)
    // The control: with the change that it belongs to, it is accepted.
    const whole = { status: 'blocked', reason: 'r', note: 'n', evidence_refs: [evidence] }
    expect((await patch(tenant, plan.id, whole)).status).toBe(200)
  })

  test('rejects a percentage that does not fit the new status', async () => {
    const tenant = newTenant()
    const { plan } = await proposed(tenant)
    await move(tenant, plan.id, 'approved')
    for (const answer of [
      await move(tenant, plan.id, 'in_progress', { percent_complete: 100 }),
      await patch(tenant, plan.id, { status: 'in_progress', percent_complete: 100 }),
    ]) {
      expect([answer.status, pointers(answer.json)]).toEqual([409, ['/percent_complete']])
    }
    await move(tenant, plan.id, 'in_progress', { percent_complete: 99 })
    await move(tenant, plan.id, 'implemented', { percent_complete: 100, note: 'n' })
    const verified = { verified_by: { email: 'bo@example.org' }, evidence_refs: [evidence] }
    const half = await move(tenant, plan.id, 'verified', { ...verified, percent_complete: 50 })
    expect([half.status, pointers(half.json)]).toEqual([409, ['/percent_complete']])
    expect((await move(tenant, plan.id, 'verified', { ...verified, percent_complete: 100 })).status).toBe(200)
  })

  test('does not let the request that verifies a plan change its owner', async () => {
    const tenant = newTenant()
    const { plan } = await proposed(tenant, { owner: { person_id: randomUUID(), email: 'ada@example.org' } })
    for (const to of ['approved', 'in_progress']) await move(tenant, plan.id, to)
    await move(tenant, plan.id, 'implemented', { percent_complete: 100, note: 'n' })
    const given = await patch(tenant, plan.id, { ...by('ada@example.org'), owner: { email: 'bo@example.org' } })
    expect([given.status, pointers(given.json)]).toEqual([422, ['/owner']])
    // A second address of the same person does not help.
    const owner = { person_id: plan.owner.person_id, email: 'ada@example.com' }
    const renamed = await patch(tenant, plan.id, { ...by('ada@example.org'), owner })
    expect([renamed.status, pointers(renamed.json)]).toEqual([409, ['/verified_by']])
    const whole = { ...by('bo@example.org'), owner: plan.owner }
    expect((await patch(tenant, plan.id, whole)).status).toBe(200)
  })
})
