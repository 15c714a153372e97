import { findingSchema, logEntrySchema, problemSchema, transitionsSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  type FindingsUnderTest,
  type Principal,
  completeFields,
  findingBody,
  newTenant,
  path,
  startFindings,
} from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

async function open(tenant: Principal, given: object = {}) {
  const body = { ...findingBody(), ...completeFields, status: 'open', ...given }
  const answer = await service.call(tenant, 'POST', path, { body })
  expect(answer.status, answer.text).toBe(201)
  return findingSchema.parse(answer.json)
}

async function move(tenant: Principal, id: string, body: object, headers: Record<string, string> = {}) {
  return await service.call(tenant, 'POST', `${path}/${id}/status`, { body, headers })
}

/** Puts a finding into a status without the steps that lead there. */
async function placed(tenant: Principal, status: string, set = '', given: object = {}) {
  const finding = await open(tenant, given)
  await service.asSuperuser.system(async (tx) => {
    await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
    await tx.execute({
      text: `update findings.finding set status = $2, version = version + 1 ${set} where id = $1`,
      values: [finding.id, status],
    })
  })
  return finding
}

const day = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)
const accept = { to: 'risk_accepted', reason: 'The system is replaced in May.', approver: { name: 'Cleo' } }
const validate = { to: 'closed', note: 'Seen on site.', validated_by: { name: 'Bo' } }
const evidence = { evidence_id: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be0e5', sha256: 'a'.repeat(64), size: 10 }

describe('moving the status of a finding', () => {
  test('is rejected without write:findings', async () => {
    const tenant = newTenant()
    const finding = await open(tenant)
    expect((await move({ ...tenant, scopes: ['read:findings'] }, finding.id, { to: 'cancelled' })).status).toBe(403)
  })

  test('of another tenant returns 404', async () => {
    const finding = await open(newTenant())
    expect((await move(newTenant(), finding.id, { to: 'cancelled', reason: 'x' })).status).toBe(404)
  })

  test('to a status that is not allowed returns 409 with the allowed ones', async () => {
    const tenant = newTenant()
    const finding = await open(tenant)
    const answer = await move(tenant, finding.id, validate)
    expect(answer.status).toBe(409)
    expect(answer.json).toMatchObject({
      code: 'invalid_transition',
      allowed: ['in_remediation', 'risk_accepted', 'cancelled'],
    })
    expect((await service.call(tenant, 'GET', `${path}/${finding.id}`)).json).toEqual(finding)
  })

  test('to a status that needs more returns 409 with everything that is missing', async () => {
    const tenant = newTenant()
    const draft = findingSchema.parse((await service.call(tenant, 'POST', path, { body: findingBody() })).json)
    const answer = await move(tenant, draft.id, { to: 'open' })
    expect(answer.status).toBe(409)
    const { allowed, errors } = problemSchema.parse(answer.json)
    expect(allowed).toEqual(['open', 'cancelled'])
    expect(errors?.map(({ code }) => code)).toEqual(
      ['criteria', 'cause', 'consequence', 'entity_ids', 'owner'].map((field) => `missing_${field}`),
    )
    const withoutPlan = await move(tenant, (await open(tenant)).id, { to: 'in_remediation' })
    expect([withoutPlan.status, problemSchema.parse(withoutPlan.json).errors?.[0]?.code]).toEqual([
      409,
      'missing_action_plan',
    ])
  })

  test.each([
    ['cancelling without a reason', 'open', { to: 'cancelled' }, ['/reason']],
    ['accepting without anything', 'open', { to: 'risk_accepted' }, ['/approver', '/accepted_until', '/reason']],
    ['accepting for too long', 'open', { ...accept, accepted_until: day(740) }, ['/accepted_until']],
    ['accepting until yesterday', 'open', { ...accept, accepted_until: day(-1) }, ['/accepted_until']],
    ['closing unseen', 'pending_validation', { to: 'closed' }, ['/validated_by', '/note', '/evidence_refs']],
    [
      'closing by the owner',
      'pending_validation',
      { ...validate, validated_by: { name: 'ada LUND' }, evidence_refs: [evidence] },
      ['/validated_by'],
    ],
    [
      'closing by somebody who may be the owner',
      'pending_validation',
      { ...validate, validated_by: { email: 'ada@example.org' }, evidence_refs: [evidence] },
      ['/validated_by'],
    ],
    ['refusing without a reason', 'pending_validation', { to: 'in_remediation' }, ['/reason']],
  ])('is rejected with a pointer to the error: %s', async (_what, status, body, pointers) => {
    const tenant = newTenant()
    const finding = await placed(tenant, status)
    const answer = await move(tenant, finding.id, body)
    expect([answer.status, problemSchema.parse(answer.json).code], answer.text).toEqual([409, 'invalid_transition'])
    const { errors, allowed } = problemSchema.parse(answer.json)
    expect(errors?.map(({ pointer }) => pointer)).toEqual(pointers)
    expect(allowed).toContain(body.to)
  })

  test('checks If-Match if it is sent', async () => {
    const tenant = newTenant()
    const finding = await open(tenant)
    const body = { to: 'cancelled', reason: 'Raised in error.' }
    expect((await move(tenant, finding.id, body, { 'if-match': '"7.2026-01-01"' })).status).toBe(412)
    expect((await move(tenant, finding.id, body, { 'if-match': `"1.${day(0)}"` })).status).toBe(200)
  })

  test('to risk_accepted stores the approver and the end date, and reopening before that date needs a reason', async () => {
    const tenant = newTenant()
    const finding = await open(tenant)
    const answer = await move(tenant, finding.id, { ...accept, accepted_until: day(20) })
    expect(findingSchema.parse(answer.json)).toMatchObject({
      status: 'risk_accepted',
      accepted_until: day(20),
      accepted_by: { name: 'Cleo' },
      is_acceptance_expired: false,
    })
    const silent = await move(tenant, finding.id, { to: 'open' })
    expect([silent.status, problemSchema.parse(silent.json)]).toMatchObject([
      409,
      { code: 'invalid_transition', allowed: ['open'], errors: [{ pointer: '/reason' }] },
    ])
    const back = await move(tenant, finding.id, { to: 'open', reason: 'It is not replaced after all.' })
    expect(findingSchema.parse(back.json)).toMatchObject({ status: 'open', accepted_until: null, accepted_by: null })
  })

  test('to closed requires four eyes, and evidence if the finding is critical or high', async () => {
    const tenant = newTenant()
    const first = await placed(tenant, 'pending_validation')
    expect((await move(tenant, first.id, validate)).status).toBe(409)
    const closed = await move(tenant, first.id, { ...validate, evidence_refs: [evidence] })
    expect(findingSchema.parse(closed.json)).toMatchObject({
      status: 'closed',
      closed_date: day(0),
      validated_by: { name: 'Bo' },
    })
    const second = await placed(tenant, 'pending_validation')
    const note = { body: 'Screenshots', evidence_refs: [evidence] }
    expect((await service.call(tenant, 'POST', `${path}/${second.id}/log`, { body: note })).status).toBe(201)
    expect((await move(tenant, second.id, validate)).status).toBe(200)
    const low = await placed(tenant, 'pending_validation', '', { severity: 'low' })
    expect((await move(tenant, low.id, validate)).status).toBe(200)
  })

  test('to closed is rejected while a plan is unfinished', async () => {
    const tenant = newTenant()
    const { id } = await placed(tenant, 'pending_validation', '', { severity: 'low' })
    const plan = { title: 'More', owner: { name: 'Ada' }, due_date: day(30) }
    const made = await service.call(tenant, 'POST', `${path}/${id}/action-plans`, { body: plan })
    const refused = await move(tenant, id, validate)
    expect([refused.status, problemSchema.parse(refused.json).errors?.map(({ code }) => code)]).toEqual([
      409,
      ['unfinished_action_plans'],
    ])
    const moves = await service.call(tenant, 'GET', `${path}/${id}/transitions`)
    expect(transitionsSchema.parse(moves.json).transitions.find(({ to }) => to === 'closed')?.missing).toMatchObject([
      { code: 'unfinished_action_plans' },
    ])
    const planned = `/api/v1/action-plans/${z.object({ id: z.string() }).parse(made.json).id}/status`
    await service.call(tenant, 'POST', planned, { body: { to: 'cancelled', reason: 'Not needed.' } })
    expect((await move(tenant, id, validate)).status).toBe(200)
    // The validator cannot become the owner, nor can somebody who may be the same person.
    const owned = async (owner: object) => {
      const answer = await service.call(tenant, 'PATCH', `${path}/${id}`, {
        body: { owner },
        headers: { 'if-match': '*' },
      })
      return [answer.status, problemSchema.safeParse(answer.json).data?.errors?.map(({ code }) => code)]
    }
    expect(await owned({ name: 'BO' })).toEqual([422, ['same_person']])
    expect(await owned({ email: 'bo@example.org', name: null })).toEqual([422, ['not_comparable']])
    expect(await owned({ email: 'cleo@example.org', name: 'Cleo' })).toEqual([200, undefined])
  })

  test('to closed cannot be validated by a person whom a partial patch made the owner', async () => {
    const tenant = newTenant()
    const owner = { email: 'ada@example.org', name: 'Ada Lund' }
    const { id } = await placed(tenant, 'pending_validation', '', { severity: 'low', owner })
    const body = { owner: { email: 'bo@example.org' } }
    await service.call(tenant, 'PATCH', `${path}/${id}`, { body, headers: { 'if-match': '*' } })
    const own = await move(tenant, id, { ...validate, validated_by: { name: 'Bo Ray' } })
    expect([own.status, problemSchema.parse(own.json).errors]).toMatchObject([
      409,
      [{ pointer: '/validated_by', code: 'not_comparable' }],
    ])
    expect((await move(tenant, id, { ...validate, validated_by: { email: 'cleo@example.org' } })).status).toBe(200)
  })

  test('to closed again requires new evidence after a reopening or a failed validation', async () => {
    const tenant = newTenant()
    const { id } = await placed(tenant, 'pending_validation')
    const proved = { ...validate, evidence_refs: [evidence] }
    const told = { body: 'Screenshots', evidence_refs: [evidence] }
    const tell = async () => await service.call(tenant, 'POST', `${path}/${id}/log`, { body: told })
    const unproved = async () => {
      const answer = await move(tenant, id, validate)
      return [answer.status, problemSchema.parse(answer.json).errors?.map(({ pointer }) => pointer)]
    }
    const again = async () => {
      await service.asSuperuser.system(async (tx) => {
        await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
        await tx.execute({
          text: `update findings.finding set status = 'pending_validation', version = version + 1 where id = $1`,
          values: [id],
        })
      })
    }
    await tell()
    expect((await move(tenant, id, { to: 'in_remediation', reason: 'It is not remedied.' })).status).toBe(200)
    await again()
    expect(await unproved()).toEqual([409, ['/evidence_refs']])
    expect((await move(tenant, id, proved)).status).toBe(200)
    // The evidence shows that it is not remedied.
    expect((await move(tenant, id, { to: 'open', reason: 'It is back.', evidence_refs: [evidence] })).status).toBe(200)
    await again()
    expect(await unproved()).toEqual([409, ['/evidence_refs']])
    await tell()
    expect((await move(tenant, id, validate)).status).toBe(200)
  })

  test('to closed at a lower severity does not allow raising the severity later without evidence', async () => {
    const tenant = newTenant()
    const { id } = await placed(tenant, 'pending_validation', '', { severity: 'critical' })
    const rate = async (body: object) => {
      const answer = await service.call(tenant, 'PATCH', `${path}/${id}`, { body, headers: { 'if-match': '*' } })
      return [
        answer.status,
        problemSchema.safeParse(answer.json).data?.errors?.map(({ pointer, code }) => [pointer, code]),
      ]
    }
    expect(await rate({ severity: 'medium' })).toEqual([200, undefined])
    expect((await move(tenant, id, validate)).status).toBe(200)
    for (const severity of ['high', 'critical']) {
      expect(await rate({ severity, title: 'Raised' })).toEqual([422, [['/severity', 'missing_evidence']]])
    }
    expect(await rate({ severity: 'low' })).toEqual([200, undefined])
    const told = { kind: 'evidence_linked', body: 'Screenshots', evidence_refs: [evidence] }
    expect((await service.call(tenant, 'POST', `${path}/${id}/log`, { body: told })).status).toBe(201)
    expect(await rate({ severity: 'critical' })).toEqual([200, undefined])
  })

  test('from closed to open is counted, and allowed within twelve months', async () => {
    const tenant = newTenant()
    const closed = `, closed_on = current_date, validated_by = '{"name":"Bo"}'`
    const recent = await placed(tenant, 'closed', closed)
    const answer = await move(tenant, recent.id, { to: 'open', reason: 'It is back.' })
    expect(findingSchema.parse(answer.json)).toMatchObject({ status: 'open', reopened_count: 1, closed_date: null })
    const old = await placed(tenant, 'closed', closed.replace('current_date', 'current_date - 400'))
    const refused = await move(tenant, old.id, { to: 'open', reason: 'It is back.' })
    expect([refused.status, problemSchema.parse(refused.json).errors?.[0]?.code]).toEqual([409, 'closed_too_long'])
  })

  test('is logged with the reason and both statuses', async () => {
    const tenant = newTenant()
    const finding = await open(tenant)
    // A note without words says nothing beside the reason.
    await move(tenant, finding.id, { to: 'cancelled', reason: 'Raised in error.', note: ' ' })
    const log = z
      .array(logEntrySchema)
      .parse((await service.call(tenant, 'GET', `${path}/${finding.id}/log?after_seq=1`)).json)
    expect(log).toMatchObject([
      {
        seq: 2,
        kind: 'status_change',
        body: 'Raised in error.',
        changes: [{ field: 'status', from: 'open', to: 'cancelled' }],
      },
    ])
    const other = await open(tenant)
    await move(tenant, other.id, { to: 'cancelled', reason: 'Raised in error.', note: 'The control is there.' })
    expect((await service.call(tenant, 'GET', `${path}/${other.id}/log?after_seq=1`)).json).toMatchObject([
      { body: 'Raised in error.\n\nThe control is there.' },
    ])
    const after = await move(tenant, finding.id, { to: 'open', reason: 'x' })
    expect([after.status, problemSchema.parse(after.json).allowed]).toEqual([409, []])
  })
})

describe('the moves of a finding', () => {
  test('are listed with the requirements of each', async () => {
    const tenant = newTenant()
    const finding = await open(tenant)
    const answer = await service.call(tenant, 'GET', `${path}/${finding.id}/transitions`)
    expect(transitionsSchema.parse(answer.json)).toEqual({
      status: 'open',
      transitions: [
        {
          to: 'in_remediation',
          requires: [],
          missing: [{ code: 'missing_action_plan', detail: expect.any(String) }],
        },
        { to: 'risk_accepted', requires: ['approver', 'accepted_until', 'reason'], missing: [] },
        { to: 'cancelled', requires: ['reason'], missing: [] },
      ],
    })
    expect((await service.call(newTenant(), 'GET', `${path}/${finding.id}/transitions`)).status).toBe(404)
  })
})
