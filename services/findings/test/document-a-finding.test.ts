import { findingSchema, findingStubSchema, problemSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FindingsUnderTest, completeFields, findingBody, newTenant, path, startFindings } from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

const today = () => new Date().toISOString().slice(0, 10)
const daysFromToday = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)

async function post(principal: ReturnType<typeof newTenant>, body: unknown) {
  return await service.call(principal, 'POST', path, { body })
}

describe('documenting a finding', () => {
  test('is rejected for an unsigned request', async () => {
    const answer = await fetch(service.url + path, {
      method: 'POST',
      body: JSON.stringify(findingBody()),
      headers: { 'content-type': 'application/json' },
    })
    expect(answer.status).toBe(401)
    expect(problemSchema.parse(await answer.json()).code).toBe('unsigned_request')
  })

  test('is rejected for a request signed with an unknown key', async () => {
    const answer = await service.stranger.call(newTenant(), 'POST', path, { body: findingBody() })
    expect(answer.status).toBe(401)
  })

  test('is rejected without write:findings, even if the caller can read', async () => {
    const answer = await post(newTenant(['read:findings', 'write:evidence']), findingBody())
    expect(answer.status).toBe(403)
    expect(answer.json).toMatchObject({ code: 'insufficient_scope', required_scope: 'write:findings' })
  })

  test.each([
    ['no title', { title: undefined }, '/title'],
    ['a title of spaces', { title: '   ' }, '/title'],
    ['a title that is too long', { title: 'x'.repeat(256) }, '/title'],
    ['a title on two lines', { title: 'one\ntwo' }, '/title'],
    ['no condition', { condition: '' }, '/condition'],
    ['NUL in a text', { condition: 'a\u0000b' }, '/condition'],
    ['half a character', { condition: '\ud800' }, '/condition'],
    ['an unknown severity', { severity: 'info' }, '/severity'],
    ['a status that only work can reach', { status: 'closed' }, '/status'],
    ['a field that findings do not have', { tenant_id: crypto.randomUUID() }, '/tenant_id'],
    ['a field that only the service sets', { version: 7 }, '/version'],
    ['a day that does not exist', { identified_date: '2026-02-30' }, '/identified_date'],
    ['a day in the future', { identified_date: daysFromToday(3) }, '/identified_date'],
    ['a day before 1900', { identified_date: '0000-01-01' }, '/identified_date'],
    ['a target before 1900', { target_date: '1066-10-14' }, '/target_date'],
    ['an entity twice', { entity_ids: [completeFields.entity_ids[0], completeFields.entity_ids[0]] }, '/entity_ids'],
    ['51 entities', { entity_ids: Array.from({ length: 51 }, () => crypto.randomUUID()) }, '/entity_ids'],
    ['a repeat of nothing', { repeat_of_id: crypto.randomUUID() }, '/repeat_of_id'],
    ['an owner without a name', { owner: {} }, '/owner'],
    ['a disagreement without reasons', { management_response: { agreement: 'disagree' } }, '/management_response/text'],
    ['two custom fields whose names differ by a space', { custom: { a: 1, ' a': 2 } }, '/custom/ a'],
    ['a custom field with a name that is lost when trimmed', { custom: { ' __proto__ ': 1 } }, '/custom/ __proto__ '],
    ['a custom field that holds a list', { custom: { a: [] } }, '/custom/a'],
    ['an open finding without its cause', { ...completeFields, status: 'open', cause: undefined }, '/cause'],
    ['an open finding about nothing', { ...completeFields, status: 'open', entity_ids: [] }, '/entity_ids'],
  ])('is rejected with a pointer to the error: %s', async (_what, wrong, pointer) => {
    const tenant = newTenant()
    const answer = await post(tenant, { ...findingBody(), ...wrong })
    expect(answer.status).toBe(422)
    const { code, errors = [] } = problemSchema.parse(answer.json)
    expect(code).toBe('invalid_content')
    expect(errors.map((error) => error.pointer)).toContain(pointer)
    expect((await service.call(tenant, 'GET', path)).text).toBe('[]')
  })

  test.each([
    ['not JSON', '{', 'application/json', 400],
    ['not an object', '[]', 'application/json', 422],
    ['nothing', '', 'application/json', 422],
    ['a form', 'title=x', 'application/x-www-form-urlencoded', 415],
  ])('is rejected if the body is %s', async (_what, body, type, status) => {
    const answer = await service.call(newTenant(), 'POST', path, { body, headers: { 'content-type': type } })
    expect(answer.status).toBe(status)
    expect(answer.headers['content-type']).toMatch(/^application\/problem\+json/)
  })

  test('returns the finding, its location and its entity tag', async () => {
    const tenant = newTenant()
    const answer = await post(tenant, {
      ...findingBody({
        severity: 'critical',
        external_id: 'SAP-1',
        custom: { ticket: 'T-1', sox: true, cost: 1.5, none: null },
      }),
      ...completeFields,
      status: 'open',
      management_response: { agreement: 'partially', text: 'Since May.' },
    })
    expect(answer.status).toBe(201)
    const finding = findingSchema.parse(answer.json)
    expect(finding).toMatchObject({
      ...completeFields,
      reference: `F-${today().slice(0, 4)}-0001`,
      external_id: 'SAP-1',
      status: 'open',
      type: 'control_deficiency',
      custom: { ticket: 'T-1', sox: true, cost: 1.5, none: null },
      management_response: { agreement: 'partially', text: 'Since May.' },
      identified_date: today(),
      target_date: daysFromToday(30),
      is_overdue: false,
      is_repeat: false,
      age_days: 0,
      version: 1,
      created_by: { type: 'api_key', label: 'A test key' },
    })
    expect(answer.headers['location']).toBe(`${path}/${finding.id}`)
    expect(answer.headers['etag']).toBe(`"1.${today()}"`)
    const read = await service.call(tenant, 'GET', `${path}/${finding.id}`)
    expect(read.json).toEqual(finding)
    expect(read.headers['etag']).toBe(answer.headers['etag'])
  })

  test.each([
    ['critical', 30],
    ['high', 90],
    ['medium', 180],
    ['low', 365],
  ] as const)(
    'a %s finding is due %i days after its identification unless it has a target date',
    async (severity, days) => {
      const tenant = newTenant()
      const identified = daysFromToday(-10)
      const byDefault = await post(tenant, findingBody({ severity, identified_date: identified }))
      expect(findingSchema.parse(byDefault.json)).toMatchObject({ target_date: daysFromToday(days - 10), age_days: 10 })
      const agreed = await post(tenant, findingBody({ severity, target_date: '2031-01-31' }))
      expect(findingSchema.parse(agreed.json).target_date).toBe('2031-01-31')
    },
  )

  test('accepts the current day of time zones ahead of UTC', async () => {
    const tenant = newTenant()
    const tomorrow = daysFromToday(1)
    const answer = await post(tenant, findingBody({ severity: 'high', identified_date: tomorrow }))
    expect(answer).toMatchObject({ status: 201, json: { identified_date: tomorrow, age_days: 0 } })
    expect(answer.json).toMatchObject({ target_date: daysFromToday(91) })
    const summary = await service.call(tenant, 'GET', `${path}/summary?group_by=age_bucket`)
    expect(summary.json).toMatchObject([{ key: '0-30', total: 1 }])
  })

  test('keeps the order of the entities', async () => {
    const entity_ids = Array.from({ length: 50 }, () => crypto.randomUUID())
    const tenant = newTenant()
    const made = findingSchema.parse((await post(tenant, findingBody({ entity_ids }))).json)
    expect(made.entity_ids).toEqual(entity_ids)
    expect((await service.call(tenant, 'GET', `${path}/${made.id}`)).json).toEqual(made)
  })

  test('returns only id, reference, version and status to a caller that cannot read', async () => {
    const answer = await post(newTenant(['write:findings']), findingBody({ title: 'Not for everyone' }))
    expect(answer.status).toBe(201)
    const stub = findingStubSchema.strict().parse(answer.json)
    expect(stub).toMatchObject({ version: 1, status: 'draft' })
    expect(answer.text).not.toContain('Not for everyone')
  })

  test('an external_id is unique per tenant, and a rejected finding leaves no gap in the references', async () => {
    const tenant = newTenant()
    await post(tenant, findingBody({ external_id: 'X' }))
    const refused = await post(tenant, findingBody({ external_id: 'X' }))
    expect(refused.status).toBe(409)
    expect(refused.json).toMatchObject({ code: 'conflict', errors: [{ pointer: '/external_id', code: 'taken' }] })
    const next = await post(tenant, findingBody({ external_id: 'Y' }))
    expect(findingSchema.parse(next.json).reference).toMatch(/-0002$/)
    expect((await post(newTenant(), findingBody({ external_id: 'X' }))).status).toBe(201)
  })

  test('concurrently created findings get different references without gaps', async () => {
    const tenant = newTenant()
    const answers = await Promise.all(Array.from({ length: 20 }, async () => await post(tenant, findingBody())))
    const references = answers.map((answer) => findingSchema.parse(answer.json).reference).toSorted()
    const numbers = Array.from({ length: 20 }, (_, index) => String(index + 1).padStart(4, '0'))
    expect(references).toEqual(numbers.map((number) => `F-${today().slice(0, 4)}-${number}`))
  })

  test('a reference can have more than four digits', async () => {
    const tenant = newTenant()
    await post(tenant, findingBody())
    await service.asService.write(service.assertionOf(tenant.tenantId), async (tx) => {
      await tx.execute({ text: 'delete from findings.free_number', values: [] })
      await tx.execute({ text: 'update findings.reference_counter set last_number = 9999', values: [] })
    })
    const next = findingSchema.parse((await post(tenant, findingBody())).json)
    expect(next.reference).toMatch(/-10000$/)
    expect((await service.call(tenant, 'GET', `${path}/ref:${next.reference}`)).json).toEqual(next)
  })
})
