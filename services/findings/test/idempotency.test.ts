import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FindingsUnderTest, type Principal, findingBody, newTenant, path, startFindings } from './service.ts'

let findings: FindingsUnderTest
beforeAll(async () => (findings = await startFindings()))
afterAll(async () => await findings.close())

const headers = () => ({ 'idempotency-key': randomUUID() })

async function titlesOf(principal: Principal): Promise<unknown> {
  const { json } = await findings.call({ ...principal, scopes: ['read:findings'] }, 'GET', path)
  return Array.isArray(json) ? json.map(({ title }: { title: string }) => title) : json
}

/** Blocks changes of a tenant until `work` is done. */
async function whileChangesWait(principal: Principal, work: () => Promise<void>): Promise<void> {
  await findings.call(principal, 'POST', path, { body: findingBody({ title: 'first of all' }) })
  await findings.asSuperuser.system(async (tx) => {
    await tx.execute({ text: 'lock table findings.finding in share mode', values: [] })
    await work()
  })
}

const claims = async (tenantId: string) =>
  await findings.asSuperuser.system(
    async (tx) =>
      await tx.query({
        text: 'select claim_id from findings.idempotency_record where tenant_id = $1',
        values: [tenantId],
      }),
  )

/** Returns the metric of assertions that PostgreSQL rejected. */
async function refusals(): Promise<string[]> {
  const text = await (await fetch(`${findings.url}/internal/metrics`)).text()
  return text
    .split('\n')
    .filter((line) => line.startsWith('postern_database_failures_total') && line.includes('kind="assertion"'))
}

test('a request that arrives after its assertion expired returns 408, does nothing and raises no alert', async () => {
  const principal = newTenant()
  const before = await refusals()
  expect(before).toHaveLength(1)
  const idempotencyKey = randomUUID()
  const send = async (target: string, content: object, ago: number) => {
    const body = JSON.stringify(content)
    const signed = findings.signedHeaders(principal, 'POST', target, ago, { body, idempotencyKey })
    return await fetch(findings.url + target, { method: 'POST', headers: signed, body })
  }
  const late = await send(path, findingBody(), 61)
  expect([late.status, await late.json()]).toMatchObject([408, { code: 'request_timeout' }])
  const many = await send(`${path}/bulk`, { mode: 'best_effort', items: [findingBody()] }, 61)
  expect(many.status).toBe(408)
  expect([await titlesOf(principal), await claims(principal.tenantId)]).toEqual([[], []])
  // The same request in time succeeds.
  expect((await send(path, findingBody(), 30)).status).toBe(201)
  expect(await refusals()).toEqual(before)
})

describe('an Idempotency-Key', () => {
  test.each(['', 'a b', 'x'.repeat(256)])('%j is rejected and creates nothing', async (key) => {
    const principal = newTenant()
    const answer = await findings.call(principal, 'POST', path, {
      body: findingBody(),
      headers: { 'idempotency-key': key },
    })
    expect([answer.status, answer.json]).toMatchObject([400, { errors: [{ parameter: 'Idempotency-Key' }] }])
    expect(await titlesOf(principal)).toEqual([])
  })

  test.each(['x', '~'.repeat(255), '"8e03978e-40d5-43e8-bc93-6894a57f9324"'])('may be %j', async (key) => {
    const request = { body: findingBody(), headers: { 'idempotency-key': key } }
    expect(await findings.call(newTenant(), 'POST', path, request)).toMatchObject({ status: 201 })
  })

  test('is rejected with a different body', async () => {
    const principal = newTenant()
    const key = headers()
    expect(await findings.call(principal, 'POST', path, { body: findingBody(), headers: key })).toMatchObject({
      status: 201,
    })
    const other = await findings.call(principal, 'POST', path, { body: findingBody({ title: 'Other' }), headers: key })
    expect([other.status, other.json]).toMatchObject([422, { code: 'idempotency_key_reused' }])
    expect(await titlesOf(principal)).toEqual(['Access is not recertified'])
  })

  test('belongs to its principal and tenant', async () => {
    const principal = newTenant()
    const request = { body: findingBody(), headers: headers() }
    const answers = [
      await findings.call(principal, 'POST', path, request),
      await findings.call({ ...principal, id: randomUUID() }, 'POST', path, request),
      await findings.call(newTenant(), 'POST', path, request),
    ]
    expect(answers.map(({ status, headers: given }) => [status, given['idempotent-replayed']])).toEqual([
      [201, undefined],
      [201, undefined],
      [201, undefined],
    ])
  })
})

describe('a finding that is documented twice with one Idempotency-Key', () => {
  test('is created once, and both responses have the same bytes', async () => {
    const principal = newTenant()
    const request = { body: findingBody(), headers: headers() }
    const first = await findings.call(principal, 'POST', path, request)
    const second = await findings.call(principal, 'POST', path, request)
    expect(second.headers['idempotent-replayed']).toBe('true')
    const shown = ({ status, text, headers: given }: typeof first) => [
      status,
      text,
      given['etag'],
      given['location'],
      given['content-type'],
    ]
    expect(shown(second)).toEqual(shown(first))
    expect(await titlesOf(principal)).toEqual(['Access is not recertified'])
  })

  test('is rejected for a key that can no longer read the first response', async () => {
    const principal = newTenant()
    const request = { body: findingBody(), headers: headers() }
    expect(await findings.call(principal, 'POST', path, request)).toMatchObject({ status: 201 })
    const narrowed = await findings.call({ ...principal, scopes: ['write:findings'] }, 'POST', path, request)
    expect([narrowed.status, narrowed.json]).toMatchObject([422, { code: 'idempotency_key_reused' }])
  })

  test('is created by the second attempt if the first was rejected', async () => {
    const principal = newTenant()
    const body = findingBody({ external_id: 'taken' })
    await findings.call(principal, 'POST', path, { body })
    const request = { body, headers: headers() }
    expect(await findings.call(principal, 'POST', path, request)).toMatchObject({
      status: 409,
      json: { code: 'conflict' },
    })
    expect(await claims(principal.tenantId)).toEqual([])
  })

  test('is rejected while the first attempt is running', async () => {
    const principal = newTenant()
    const request = { body: findingBody(), headers: headers() }
    let first: ReturnType<FindingsUnderTest['call']> | undefined
    await whileChangesWait(principal, async () => {
      first = findings.call(principal, 'POST', path, request)
      await expect.poll(async () => await claims(principal.tenantId)).toHaveLength(1)
      const second = await findings.call(principal, 'POST', path, request)
      expect([second.status, second.json]).toMatchObject([409, { code: 'request_in_progress' }])
      expect(second.headers['retry-after']).toBe('1')
    })
    expect(await first).toMatchObject({ status: 201 })
    expect(await findings.call(principal, 'POST', path, request)).toMatchObject({
      status: 201,
      text: (await first)?.text,
    })
  })

  test('is created once even if the first attempt was wrongly considered dead', async () => {
    const principal = newTenant()
    const request = { body: findingBody(), headers: headers() }
    const attempts: ReturnType<FindingsUnderTest['call']>[] = []
    await whileChangesWait(principal, async () => {
      attempts.push(findings.call(principal, 'POST', path, request))
      await expect.poll(async () => await claims(principal.tenantId)).toHaveLength(1)
      const [before] = await claims(principal.tenantId)
      const text = `update findings.idempotency_record set claimed_at = claimed_at - interval '61 seconds' where tenant_id = $1`
      await findings.asSuperuser.system(async (tx) => await tx.execute({ text, values: [principal.tenantId] }))
      attempts.push(findings.call(principal, 'POST', path, request))
      await expect.poll(async () => (await claims(principal.tenantId))[0]?.['claim_id']).not.toBe(before?.['claim_id'])
    })
    const statuses = (await Promise.all(attempts)).map(({ status }) => status)
    expect(statuses.toSorted()).toEqual([201, 409])
    expect(await titlesOf(principal)).toEqual(['Access is not recertified', 'first of all'])
  })
})

describe('every other POST about a finding, sent twice with one Idempotency-Key,', () => {
  const person = { name: 'Ada Lund' }
  const plan = { title: 'Recertify', owner: person, due_date: '2099-01-31' }
  const extension = { to: '2099-06-30', reason: 'The vendor is late.', approved_by: person }

  test.each([
    ['recommendations', (id: string) => `${path}/${id}/recommendations`, { text: 'Recertify every quarter.' }],
    ['action plans', (id: string) => `${path}/${id}/action-plans`, plan],
    ['log entries', (id: string) => `${path}/${id}/log`, { kind: 'note', body: 'Asked the owner.' }],
    ['a new status', (id: string) => `${path}/${id}/status`, { to: 'cancelled', reason: 'Raised in error.' }],
    [
      'a plan’s new status',
      (_id: string, planId: string) => `/api/v1/action-plans/${planId}/status`,
      { to: 'approved' },
    ],
    ['an extension', (_id: string, planId: string) => `/api/v1/action-plans/${planId}/extensions`, extension],
  ])('applies %s once and returns the same response', async (_what, targetOf, body) => {
    const principal = newTenant()
    const finding = await findings.call(principal, 'POST', path, { body: findingBody() })
    const id = idOf(finding.json)
    const made = await findings.call(principal, 'POST', `${path}/${id}/action-plans`, { body: plan })
    const request = { body, headers: headers() }
    const target = targetOf(id, idOf(made.json))
    const first = await findings.call(principal, 'POST', target, request)
    expect(first.status, first.text).toBeLessThan(300)
    const log = await findings.call(principal, 'GET', `${path}/${id}/log`)
    const second = await findings.call(principal, 'POST', target, request)
    expect([second.status, second.text, second.headers['etag'], second.headers['location']]).toEqual([
      first.status,
      first.text,
      first.headers['etag'],
      first.headers['location'],
    ])
    expect(second.headers['idempotent-replayed']).toBe('true')
    expect((await findings.call(principal, 'GET', `${path}/${id}/log`)).text).toBe(log.text)
  })
})

function idOf(json: unknown): string {
  return typeof json === 'object' && json !== null && 'id' in json ? String(json.id) : ''
}
