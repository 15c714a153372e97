import { actionPlanSchema, bulkResultSchema, listActionPlans, problemSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  type FindingsUnderTest,
  type Principal,
  completeFields,
  findingBody,
  newTenant,
  openFinding,
  path,
  readFindings,
  startFindings,
} from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

const plans = listActionPlans.path
const owner = { name: 'Ben Ode' }

async function bulk(tenant: Principal, of: string, items: readonly object[], mode = 'best_effort', headers = {}) {
  const answer = await service.call(tenant, 'POST', `${of}/bulk`, { body: { mode, items }, headers })
  expect([answer.status, answer.text]).toEqual([200, answer.text])
  return z.array(bulkResultSchema).parse(answer.json)
}

async function findingsOf(tenant: Principal) {
  return readFindings.parse((await service.call(tenant, 'GET', `${path}?sort=created_at`)).json)
}

const codesOf = (results: readonly z.infer<typeof bulkResultSchema>[]) =>
  results.map(({ status, problem }) => problem?.code ?? status)

/** Removes members that differ between requests. */
function comparable(text: string, id: string): string {
  return text.replaceAll(id, 'ID').replaceAll(/"instance":"[^"]+"/g, '')
}

const ownedBy = (id: string, given: object) => findingBody({ external_id: id, owner: given })
const warned = (index: number) => [[`/items/${index}/owner/email`, 'unusable_address']]

const cost = (amount: object) => [{ finding: 'ext:f', external_id: 'p', estimated_cost: amount }]

describe('changing many findings', () => {
  test('rejects more than 500 items, an empty list, an unknown mode, and a key without write:findings', async () => {
    const tenant = newTenant()
    const send = async (body: object, by = tenant) => {
      const { status, json } = await service.call(by, 'POST', `${path}/bulk`, { body })
      return [status, problemSchema.parse(json).code]
    }
    expect(await send({ items: Array.from({ length: 501 }, () => findingBody()) })).toEqual([413, 'content_too_large'])
    expect(await send({ items: [] })).toEqual([422, 'invalid_content'])
    expect(await send({ items: [findingBody()], mode: 'some' })).toEqual([422, 'invalid_content'])
    expect(await send({ items: [findingBody()] }, newTenant(['read:findings']))).toEqual([403, 'insufficient_scope'])
    expect(await findingsOf(tenant)).toEqual([])
  })

  test('an invalid e-mail address of an owner is dropped with a warning, for new and changed findings', async () => {
    const tenant = newTenant()
    const send = async (items: readonly object[]) => {
      const results = await bulk(tenant, path, items, 'atomic')
      return results.map(({ status, warnings }) => [status, warnings?.map(({ pointer, code }) => [pointer, code])])
    }
    expect(
      await send([
        ownedBy('1', { email: 'ada@x.example' }),
        ownedBy('2', { email: 'n/a', name: 'Bo' }),
        ownedBy('3', { email: 'Cy Berg' }),
        ownedBy('4', { email: 'x'.repeat(300) }),
      ]),
    ).toEqual([
      [201, undefined],
      [201, warned(1)],
      [201, warned(2)],
      [201, warned(3)],
    ])
    const owners = async () => (await findingsOf(tenant)).map(({ owner: each }) => each)
    expect(await owners()).toEqual([{ email: 'ada@x.example' }, { name: 'Bo' }, { name: 'Cy Berg' }, null])
    expect(await send([{ external_id: '1', owner: { email: 'n/a', name: 'Di' } }])).toEqual([[200, warned(0)]])
    expect(await owners()).toContainEqual({ name: 'Di' })
  })

  test('an invalid e-mail address of a verifier or approver rejects the item', async () => {
    const tenant = newTenant()
    await openFinding(service, tenant, { external_id: 'f' })
    const plan = {
      finding: 'ext:f',
      external_id: 'p',
      title: 'T',
      description: 'D',
      owner: { email: 'n/a' },
      due_date: '2030-01-01',
    }
    const [made, refused] = await bulk(tenant, plans, [
      plan,
      { ...plan, external_id: 'q', verified_by: { email: 'n/a' } },
    ])
    expect(made).toMatchObject({ status: 201, warnings: [{ pointer: '/items/0/owner/email' }] })
    expect(refused?.problem?.errors).toMatchObject([{ pointer: '/items/1/verified_by/email' }])
  })

  test('concurrent upserts of a missing finding create it once', async () => {
    const tenant = newTenant()
    expect(codesOf(await bulk(tenant, path, [findingBody()]))).toEqual([201])
    const send = async (title: string) =>
      await bulk(tenant, path, [{ ...findingBody({ title }), external_id: 'N-1' }], 'atomic')
    const waiting = async () =>
      await service.asSuperuser.system(async (tx) => {
        const text = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
        return await tx.query({ text, values: [] })
      })
    let sent: ReturnType<typeof send>[] = []
    // A creation waits, behind the look for a finding that is there.
    await service.asSuperuser.system(async (tx) => {
      await tx.execute({ text: 'lock table findings.finding in share mode', values: [] })
      sent = ['one', 'two'].map(send)
      await expect.poll(waiting).toHaveLength(2)
    })
    const results = await Promise.all(sent)
    expect(results.flatMap(codesOf).toSorted()).toEqual([200, 201])
    expect(await findingsOf(tenant)).toHaveLength(2)
  })

  test('a full upsert accepts cancelled findings that it does not change', async () => {
    const tenant = newTenant()
    const item = { ...findingBody({ title: 'Unchanged' }), external_id: 'C-1' }
    expect(codesOf(await bulk(tenant, path, [item]))).toEqual([201])
    const [made] = await findingsOf(tenant)
    const cancel = { to: 'cancelled', reason: 'Raised in error.' }
    await service.call(tenant, 'POST', `${path}/${made?.id}/status`, { body: cancel })
    const other = { ...findingBody(), external_id: 'C-2' }
    expect(codesOf(await bulk(tenant, path, [item, other], 'atomic'))).toEqual([200, 201])
    const changed = { ...item, title: 'Changed' }
    expect(codesOf(await bulk(tenant, path, [changed, other]))).toEqual(['conflict', 200])
  })

  test('an item can be a whole finding as it was read', async () => {
    const tenant = newTenant()
    const opened = await openFinding(service, tenant, { external_id: 'f' })
    await openFinding(service, tenant, { external_id: 'g' })
    const { id, version, ...rest } = opened
    const outdated = { ...opened, version: version - 1, reference: 'F-2020-0001' }
    const refusals = await bulk(tenant, path, [
      { ...opened, reference: 'F-2020-0001' },
      { ...rest, id, title: 'Changed', reference: 'F-2020-0001' },
      outdated,
      { ...opened, external_id: 'h', colour: 'red', severity: 'hihg' },
    ])
    expect(codesOf(refusals)).toEqual([
      'invalid_content',
      'precondition_required',
      'precondition_failed',
      'invalid_content',
    ])
    expect(refusals.map(({ problem }) => problem?.errors?.map(({ pointer, code }) => [pointer, code]))).toEqual([
      [['/items/0/reference', 'read_only']],
      [['/items/1/version', 'required']],
      undefined,
      [
        ['/items/3/severity', 'invalid_value'],
        ['/items/3/colour', 'unknown'],
      ],
    ])
    expect(refusals[3]?.problem?.errors?.[0]?.detail).toContain('did you mean `high`?')
    const before = await findingsOf(tenant)
    expect(codesOf(await bulk(tenant, path, before, 'atomic'))).toEqual([200, 200])
    expect(await findingsOf(tenant)).toEqual(before)
    const writer = { ...tenant, scopes: ['write:findings'] as const }
    expect(codesOf(await bulk(writer, path, [opened]))).toEqual(['invalid_content'])
    const titled = { ...rest, title: 'By external id', age_days: 9 }
    expect(codesOf(await bulk(tenant, path, [{ ...before[1], title: 'By id' }, titled]))).toEqual([200, 200])
    expect((await findingsOf(tenant)).map(({ title, status }) => [title, status])).toEqual([
      ['By external id', 'open'],
      ['By id', 'open'],
    ])
  })

  test('an item is a merge patch, also of nested objects, and keeps absent members', async () => {
    const tenant = newTenant()
    const response = { agreement: 'partially', text: 'In part.', responded_at: null }
    const item = { ...findingBody({ external_id: 'f' }), ...completeFields, management_response: response }
    expect(codesOf(await bulk(tenant, path, [item]))).toEqual([201])
    const changed = {
      external_id: 'f',
      owner: { email: 'ada@example.org' },
      management_response: { agreement: 'agree' },
    }
    expect(codesOf(await bulk(tenant, path, [changed]))).toEqual([200])
    expect(await findingsOf(tenant)).toMatchObject([
      {
        // A new address means another person, so the old name is removed.
        owner: { email: 'ada@example.org' },
        management_response: { agreement: 'agree', text: 'In part.' },
      },
    ])
    expect((await findingsOf(tenant))[0]).not.toHaveProperty('owner.name')
    const plan = { title: 'x', owner: { name: 'Ben Ode' }, due_date: '2031-01-01' }
    expect(codesOf(await bulk(tenant, plans, [{ ...plan, ...cost({ amount: '10.00' })[0] }]))).toEqual([
      'invalid_content',
    ])
    expect(codesOf(await bulk(tenant, plans, [{ ...plan, ...cost({ amount: '10.00', currency: 'EUR' })[0] }]))).toEqual(
      [201],
    )
    expect(codesOf(await bulk(tenant, plans, cost({ amount: '12.50' })))).toEqual([200])
    expect(codesOf(await bulk(tenant, plans, [{ external_id: 'p', owner: { name: null } }]))).toEqual([
      'invalid_content',
    ])
    expect((await service.call(tenant, 'GET', `${plans}/ext:p`)).json).toMatchObject({
      estimated_cost: { amount: '12.50', currency: 'EUR' },
      owner: { name: 'Ben Ode' },
    })
  })

  test('best_effort stores the valid items and returns errors of the others with pointers into the request', async () => {
    const tenant = newTenant()
    const results = await bulk(tenant, path, [
      findingBody({ external_id: 'one' }),
      { ...findingBody(), severity: 'dreadful', colour: 'red' },
      { title: 'Without other fields' },
      findingBody({ repeat_of_id: crypto.randomUUID() }),
      { ...findingBody(), status: 'open' },
      findingBody({ external_id: 'two' }),
    ])
    expect(codesOf(results)).toEqual([
      201,
      'invalid_content',
      'invalid_content',
      'invalid_content',
      'invalid_content',
      201,
    ])
    expect(results.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5])
    const pointers = results.map(({ problem }) => problem?.errors?.map(({ pointer }) => pointer))
    expect(pointers[1]).toEqual(['/items/1/severity', '/items/1/colour'])
    expect(pointers[2]).toEqual(['/items/2/condition', '/items/2/severity'])
    expect(pointers[3]).toEqual(['/items/3/repeat_of_id'])
    expect(pointers[4]).toContain('/items/4/owner')
    const stored = await findingsOf(tenant)
    expect(stored.map(({ external_id, id, reference }) => [external_id, id, reference])).toEqual([
      ['one', results[0]?.id, results[0]?.reference],
      ['two', results[5]?.id, results[5]?.reference],
    ])
    const log = await service.call(tenant, 'GET', '/api/v1/remediation-log')
    expect(log.json).toMatchObject([
      { kind: 'created', finding_id: results[0]?.id },
      { kind: 'created', finding_id: results[5]?.id },
    ])
  })

  test('atomic stores all or nothing, and leaves no gap in the references', async () => {
    const tenant = newTenant()
    const items = [findingBody({ external_id: 'one' }), { title: 'Without other fields' }]
    expect(codesOf(await bulk(tenant, path, items, 'atomic'))).toEqual(['not_applied', 'invalid_content'])
    expect(await findingsOf(tenant)).toEqual([])
    expect((await service.call(tenant, 'GET', '/api/v1/remediation-log')).json).toEqual([])
    const made = await bulk(tenant, path, [items[0] ?? {}], 'atomic')
    expect(made[0]?.reference).toMatch(/^F-\d{4}-0001$/)
  })

  test('an existing external id is updated, even twice in one request, and only changes are logged', async () => {
    const tenant = newTenant()
    const first = await bulk(tenant, path, [findingBody({ external_id: 'one', title: 'Before' })])
    const results = await bulk(tenant, path, [
      findingBody({ external_id: 'one', title: 'Between' }),
      { external_id: 'one', title: 'After', version: 2 },
      { external_id: 'one', title: 'After' },
      { external_id: 'one', title: 'Never', version: 1 },
    ])
    expect(results.map(({ status, id, version }) => [status, id, version])).toEqual([
      [200, first[0]?.id, 2],
      [200, first[0]?.id, 3],
      [200, first[0]?.id, 3],
      [412, undefined, undefined],
    ])
    const [stored] = await findingsOf(tenant)
    expect(stored).toMatchObject({ title: 'After', version: 3 })
    const read = await service.call(tenant, 'GET', `${path}/${stored?.id}`)
    expect(read.headers['etag']).toBe(results[1]?.etag)
    expect((await service.call(tenant, 'GET', '/api/v1/remediation-log')).json).toHaveLength(3)
  })

  test('status open opens a draft and does not change later statuses', async () => {
    const tenant = newTenant()
    const item = { ...findingBody({ external_id: 'one' }), ...completeFields }
    await bulk(tenant, path, [item])
    expect(codesOf(await bulk(tenant, path, [{ external_id: 'one', status: 'open' }]))).toEqual([200])
    const [opened] = await findingsOf(tenant)
    expect(opened?.status).toBe('open')
    const reason = { to: 'cancelled', reason: 'Raised in error.' }
    await service.call(tenant, 'POST', `${path}/${opened?.id}/status`, { body: reason })
    expect(codesOf(await bulk(tenant, path, [{ ...item, title: 'Again', status: 'open' }]))).toEqual(['conflict'])
    expect((await findingsOf(tenant))[0]?.status).toBe('cancelled')
  })

  test('an id requires its version, and an id of another tenant is treated as missing', async () => {
    const [ours, theirs] = [newTenant(), newTenant()]
    const foreign = await openFinding(service, theirs, { external_id: 'theirs' })
    const own = await openFinding(service, ours)
    expect(codesOf(await bulk(ours, path, [{ id: own.id, title: 'Changed' }]))).toEqual(['precondition_required'])
    for (const change of [{ version: 1, title: 'Taken' }, { title: 'Taken' }]) {
      const missing = crypto.randomUUID()
      const answers = await Promise.all(
        [foreign.id, missing].map(async (id) => {
          const body = { mode: 'best_effort', items: [{ id, ...change }] }
          const { status, text } = await service.call(ours, 'POST', `${path}/bulk`, { body })
          return [status, comparable(text, id)]
        }),
      )
      expect(answers[0]).toEqual(answers[1])
    }
    const upsert = await bulk(ours, path, [findingBody({ external_id: 'theirs' })])
    expect(codesOf(upsert)).toEqual([201])
    expect(upsert[0]?.id).not.toBe(foreign.id)
    const unchanged = await service.call(theirs, 'GET', `${path}/${foreign.id}`)
    expect(unchanged.json).toEqual(foreign)
    expect(codesOf(await bulk(ours, path, [{ id: own.id, version: 1, title: 'Changed' }]))).toEqual([200])
  })

  test('is applied once for one Idempotency-Key', async () => {
    const tenant = newTenant()
    const headers = { 'idempotency-key': crypto.randomUUID() }
    const first = await bulk(tenant, path, [findingBody(), findingBody()], 'best_effort', headers)
    expect(await bulk(tenant, path, [findingBody(), findingBody()], 'best_effort', headers)).toEqual(first)
    expect(await findingsOf(tenant)).toHaveLength(2)
  })

  test('accepts 500 items with all their log entries', async () => {
    const tenant = newTenant()
    const items = Array.from({ length: 500 }, (_, index) => (index < 120 ? findingBody() : {}))
    const results = await bulk(tenant, path, items)
    expect(results.filter(({ status }) => status === 201)).toHaveLength(120)
    expect(results.filter(({ status }) => status === 422)).toHaveLength(380)
    const answer = await service.call(tenant, 'GET', '/api/v1/remediation-log?count=true&limit=1')
    expect(answer.headers['x-total-count']).toBe('120')
  })

  test('two concurrent requests with the same findings in different order do not deadlock', async () => {
    const tenant = newTenant()
    const items = Array.from({ length: 10 }, (_, index) => findingBody({ external_id: `f-${index}` }))
    const made = await bulk(tenant, path, items, 'atomic')
    const titled = (title: string) => items.map((item) => ({ ...item, title }))
    const [a, b] = await Promise.all([
      bulk(tenant, path, titled('A'), 'atomic'),
      bulk(tenant, path, titled('B').toReversed(), 'atomic'),
    ])
    expect(codesOf([...a, ...b])).toEqual(Array.from({ length: 20 }, () => 200))
    expect((await service.call(tenant, 'GET', `${path}/${made[0]?.id}/log/verify`)).json).toMatchObject({
      is_intact: true,
      entries: 3,
    })
  })
})

describe('changing many action plans', () => {
  const plan = { title: 'Recertify', owner, due_date: '2031-01-31' }

  test('creates, changes and moves plans, and rejects incomplete items', async () => {
    const tenant = newTenant()
    const finding = await openFinding(service, tenant, { external_id: 'F1', severity: 'low' })
    const made = await bulk(tenant, plans, [
      { ...plan, finding: 'ext:F1', external_id: 'J-1', status: 'approved' },
      { ...plan, finding: finding.id, external_id: 'J-2' },
      { ...plan, external_id: 'J-3' },
      { ...plan, finding: 'ext:F2', external_id: 'J-4' },
      { finding: 'ext:F1', external_id: 'J-5' },
      { ...plan, finding: 'ext:F1', external_id: 'J-6', status: 'implemented' },
    ])
    expect(codesOf(made)).toEqual([
      201,
      201,
      'invalid_content',
      'invalid_content',
      'invalid_content',
      'invalid_transition',
    ])
    expect(made[2]?.problem?.errors?.[0]?.pointer).toBe('/items/2/finding')
    expect(made[3]?.problem?.errors?.[0]?.pointer).toBe('/items/3/finding')

    const moved = await bulk(tenant, plans, [
      { external_id: 'J-1', status: 'in_progress' },
      { external_id: 'J-1', status: 'implemented', percent_complete: 100, note: 'All done.' },
      { external_id: 'J-2', status: 'cancelled' },
      { external_id: 'J-2', due_date: '2031-02-28' },
      { external_id: 'J-2', owner, finding: 'ext:F1' },
      { external_id: 'J-2', finding: crypto.randomUUID() },
    ])
    expect(codesOf(moved)).toEqual([200, 200, 'invalid_transition', 'invalid_content', 200, 'invalid_content'])
    expect(moved[2]?.problem?.errors?.[0]?.pointer).toBe('/items/2/reason')
    const stored = z.array(actionPlanSchema).parse((await service.call(tenant, 'GET', `${plans}?sort=created_at`)).json)
    expect(stored.map(({ external_id, status }) => [external_id, status])).toEqual([
      ['J-1', 'implemented'],
      ['J-2', 'proposed'],
    ])
    expect((await service.call(tenant, 'GET', `${path}/${finding.id}`)).json).toMatchObject({
      status: 'in_remediation',
    })
  })

  test('an item can be a whole plan as it was read', async () => {
    const tenant = newTenant()
    await openFinding(service, tenant, { external_id: 'F1' })
    const [made] = await bulk(tenant, plans, [{ ...plan, finding: 'ext:F1', external_id: 'J-1', status: 'approved' }])
    const read = async () => actionPlanSchema.parse((await service.call(tenant, 'GET', `${plans}/${made?.id}`)).json)
    const before = await read()
    const elsewhere = { ...before, finding_id: crypto.randomUUID() }
    expect(codesOf(await bulk(tenant, plans, [elsewhere, before, { ...before, title: 'Again' }]))).toEqual([
      'invalid_content',
      200,
      200,
    ])
    expect(await read()).toMatchObject({ title: 'Again', status: 'approved', version: before.version + 1 })
  })

  test('a plan with a final status accepts an item that changes nothing and rejects others', async () => {
    const tenant = newTenant()
    await openFinding(service, tenant, { external_id: 'F1' })
    const item = { ...plan, finding: 'ext:F1', external_id: 'J-1' }
    await bulk(tenant, plans, [item, { external_id: 'J-1', status: 'rejected', reason: 'Not worth it.' }])
    const results = await bulk(tenant, plans, [item, { ...item, title: 'Another' }])
    expect(codesOf(results)).toEqual([200, 'conflict'])
  })

  test('ids of another tenant are treated as missing', async () => {
    const [ours, theirs] = [newTenant(), newTenant()]
    const foreign = await openFinding(service, theirs)
    const [theirPlan] = await bulk(theirs, plans, [{ ...plan, finding: foreign.id }])
    const own = await openFinding(service, ours)
    const ask = async (id: string, item: object) => {
      const body = { mode: 'best_effort', items: [item] }
      const { status, text } = await service.call(ours, 'POST', `${plans}/bulk`, { body })
      return [status, comparable(text, id)]
    }
    const random = crypto.randomUUID()
    const planId = theirPlan?.id ?? ''
    expect(await ask(foreign.id, { ...plan, finding: foreign.id })).toEqual(
      await ask(random, { ...plan, finding: random }),
    )
    expect(await ask(planId, { id: planId, version: 1 })).toEqual(await ask(random, { id: random, version: 1 }))
    const [recommended] = [foreign.id, random].map((id) => ({ ...plan, finding: own.id, recommendation_ids: [id] }))
    expect(await ask(foreign.id, recommended ?? {})).toEqual(
      await ask(random, { ...plan, finding: own.id, recommendation_ids: [random] }),
    )
    expect((await service.call(ours, 'GET', plans)).json).toEqual([])
  })
})
