import { type Poam, poamSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type FindingsUnderTest,
  type Principal,
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

const target = '/api/v1/exports/poam.json'

async function get(tenant: Principal, query = '', accept = '*/*') {
  return await service.call(tenant, 'GET', `${target}${query}`, { headers: { accept } })
}

async function exported(tenant: Principal, query = ''): Promise<Poam['plan-of-action-and-milestones']> {
  const answer = await get(tenant, query)
  expect(answer.status, answer.text.slice(0, 300)).toBe(200)
  return poamSchema.parse(JSON.parse(answer.text))['plan-of-action-and-milestones']
}

async function post(tenant: Principal, to: string, body: object): Promise<string> {
  const answer = await service.call(tenant, 'POST', to, { body })
  expect(answer.status, answer.text).toBeLessThan(300)
  return String(Reflect.get(Object(answer.json), 'id'))
}

/** Findings of one moment, straight into the database. */
async function manyFindings({ tenantId }: Principal, count: number): Promise<void> {
  await service.asSuperuser.system(async (tx) =>
    tx.execute({
      text: `insert into findings.finding (
          tenant_id, year, number, title, condition, severity, type, status, identified_on, target_on,
          created_by_type, created_by_id, created_by_label)
        select $1, 2026, n, 'Finding ' || n, 'c', 'low', 'observation', 'draft', date '2026-01-01', date '2026-02-01',
          'api_key', 'k', 'l'
        from generate_series(1, $2::integer) n`,
      values: [tenantId, count],
    }),
  )
}

/** Returns the defined UUIDs (`uuid`) and the references (`…-uuid`). */
function uuidsOf(value: unknown): { readonly defined: string[]; readonly referred: string[] } {
  const defined: string[] = []
  const referred: string[] = []
  const walk = (inner: unknown): void => {
    if (typeof inner !== 'object' || inner === null) return
    for (const [name, member] of Object.entries(inner)) {
      if (name === 'uuid') defined.push(String(member))
      else if (name.endsWith('-uuid')) referred.push(String(member))
      else if (name === 'party-uuids' && Array.isArray(member)) referred.push(...member.map(String))
      else walk(member)
    }
  }
  walk(value)
  return { defined, referred }
}

const valuesOf = (props: readonly { readonly name: string; readonly value: string }[]) =>
  Object.fromEntries(props.map(({ name, value }) => [name, value]))

describe('a plan of action and milestones is rejected', () => {
  test('without the scope, with an unknown parameter, or for an unknown media type', async () => {
    expect((await get(newTenant(['write:findings', 'read:universe']))).status).toBe(403)
    expect((await get(newTenant(), '?limit=1')).json).toMatchObject({ status: 400, code: 'bad_request' })
    expect((await get(newTenant(), '?status=lost')).status).toBe(400)
    expect((await get(newTenant(), '', 'text/csv')).status).toBe(406)
  })

  test('with 404 if the filter selects no finding, because the document cannot be empty', async () => {
    const tenant = newTenant()
    await openFinding(service, newTenant())
    expect((await get(tenant)).json).toMatchObject({ status: 404, code: 'not_found' })
    await post(tenant, path, findingBody())
    expect((await get(tenant)).status).toBe(404)
    expect((await exported(tenant, '?status=draft'))['poam-items']).toHaveLength(1)
  })

  test('for more than 20,000 findings', async () => {
    const tenant = newTenant()
    await manyFindings(tenant, 20_001)
    const answer = await get(tenant, '?status=draft')
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('20000')])
    expect((await exported(tenant, '?status=draft&q=finding%201999'))['poam-items']).toHaveLength(11)
  })
})

describe('a plan of action and milestones', () => {
  test('contains findings, recommendations, plans and logs in OSCAL terms', async () => {
    const tenant = newTenant()
    const finding = await openFinding(service, tenant, {
      title: 'Rights of *leavers* <b>stay</b>',
      corrective_action: 'Recertify.',
      identified_date: '2026-01-05',
      target_date: '2026-06-30',
    })
    const of = `${path}/${finding.id}`
    const recommendationId = await post(tenant, `${of}/recommendations`, { text: 'Recertify each quarter.' })
    const owner = { name: 'Bo Ek', email: 'bo.ek@harbourline.example' }
    const plan = { title: 'Build it', owner, due_date: '2026-05-31', recommendation_ids: [recommendationId] }
    const planId = await post(tenant, `${of}/action-plans`, plan)
    const dropped = await post(tenant, `${of}/action-plans`, { ...plan, title: 'Buy it', recommendation_ids: [] })
    await post(tenant, `/api/v1/action-plans/${dropped}/status`, { to: 'rejected', reason: 'Too dear.' })
    await post(tenant, `/api/v1/action-plans/${planId}/status`, { to: 'approved' })
    const evidence = { evidence_id: crypto.randomUUID(), sha256: 'ab'.repeat(32), size: 7 }
    await post(tenant, `${of}/log`, { body: 'Seen.', evidence_refs: [evidence] })

    const document = await exported(tenant)
    expect(document.metadata).toMatchObject({ 'oscal-version': '1.2.0', version: document.metadata['last-modified'] })
    expect(document['poam-items']).toMatchObject([
      { title: String.raw`Rights of \*leavers\* \<b\>stay\</b\>`, remarks: 'Recertify.' },
    ])
    expect(document.findings).toMatchObject([
      {
        description: 'No recertification since January.',
        target: {
          'target-id': `entity-${completeFields.entity_ids[0]}`,
          status: { state: 'not-satisfied', reason: 'fail' },
        },
        remarks: completeFields.cause,
      },
    ])
    expect(valuesOf(document.findings[0]?.props ?? [])).toMatchObject({
      reference: finding.reference,
      severity: 'high',
    })
    const [risk] = document.risks
    expect(risk).toMatchObject({
      statement: completeFields.consequence,
      status: 'remediating',
      deadline: '2026-06-30T23:59:59Z',
      remediations: [
        { lifecycle: 'recommendation', description: 'Recertify each quarter.' },
        {
          lifecycle: 'planned',
          title: 'Build it',
          tasks: [{ type: 'milestone', timing: { 'on-date': { date: '2026-05-31T23:59:59Z' } } }],
        },
      ],
    })
    const person = document.metadata.parties.find(({ name }) => name === 'Bo Ek')
    expect(person).toMatchObject({ type: 'person', 'email-addresses': [owner.email] })
    expect(risk?.remediations?.[1]?.tasks?.[0]?.['responsible-roles']).toEqual([
      { 'role-id': 'owner', 'party-uuids': [person?.uuid] },
    ])
    const entries = risk?.['risk-log']?.entries ?? []
    expect(entries.map(({ 'status-change': status }) => status)).toContain('remediating')
    expect(entries.at(-1)).toMatchObject({ title: 'note', description: 'Seen.' })
    expect(document.observations).toMatchObject([{ collected: '2026-01-05T00:00:00Z', 'relevant-evidence': [{}] }])
    expect(valuesOf(document.observations[0]?.['relevant-evidence']?.[0]?.props ?? [])).toEqual({
      'evidence-id': evidence.evidence_id,
      sha256: evidence.sha256,
      size: '7',
    })
  })

  test('escapes texts, replaces characters that XML does not allow, and rewrites leap days before 2000', async () => {
    const tenant = newTenant()
    const created = await post(
      tenant,
      path,
      findingBody({ title: '# of keys', condition: '1. x\u001b[0m &copy;', identified_date: '1996-02-29' }),
    )
    const document = await exported(tenant, '?status=draft')
    expect(created).not.toBe('')
    expect(document.observations).toMatchObject([
      {
        title: String.raw`\# of keys`,
        description: '1\\. x\ufffd\\[0m \\&copy;',
        types: ['discovery'],
        collected: '1996-02-28T12:00:00-12:00',
      },
    ])
  })

  test('has only valid references and unique UUIDs, also with many findings and long logs', async () => {
    const tenant = newTenant()
    const made = []
    for (let n = 0; n < 30; n += 1) made.push(await openFinding(service, tenant, { title: `Finding ${n}` }))
    const of = `${path}/${made[3]?.id}`
    for (let n = 0; n < 60; n += 1) await post(tenant, `${of}/log`, { body: `note ${n}` })
    await post(tenant, `${of}/recommendations`, { text: 'Do.' })
    await openFinding(service, newTenant(), { title: 'Of another tenant' })
    const document = await exported(tenant)
    const { defined, referred } = uuidsOf(document)
    expect(new Set(defined).size).toBe(defined.length)
    expect(referred.filter((uuid) => !defined.includes(uuid))).toEqual([])
    for (const list of ['observations', 'risks', 'findings', 'poam-items'] as const) {
      expect(document[list].map(({ title }) => title)).toEqual(made.map(({ title }) => title))
    }
    const notes = (document.risks[3]?.['risk-log']?.entries ?? []).flatMap(({ description = [] }) => description)
    expect(notes).toEqual(Array.from({ length: 60 }, (_, n) => `note ${n}`))
    // Like an export that outlives its assertion, so that the rest is read as one result.
    const headers = service.signedHeaders(tenant, 'GET', target, 35)
    const late = await fetch(service.url + target, { headers })
    expect(poamSchema.parse(await late.json())['plan-of-action-and-milestones']).toEqual(document)
  })

  test('is identical while nothing changes, keeps UUIDs when a finding changes, and shares none between tenants', async () => {
    const [one, two] = [newTenant(), newTenant()]
    const finding = await openFinding(service, one)
    await openFinding(service, two)
    const first = await get(one)
    expect((await get(one)).text).toBe(first.text)
    await post(one, `${path}/${finding.id}/log`, { body: 'Later.' })
    const [before, after, other] = [poamSchema.parse(JSON.parse(first.text)), await exported(one), await exported(two)]
    const { defined } = uuidsOf(before)
    expect(uuidsOf(after).defined).toEqual(expect.arrayContaining(defined))
    expect(defined.filter((uuid) => uuidsOf(other).defined.includes(uuid))).toEqual([])
    expect(after.metadata.version).not.toBe(before['plan-of-action-and-milestones'].metadata.version)
    // A different selection is a different document about the same findings.
    const part = await exported(one, '?severity=high')
    expect(part.uuid).not.toBe(after.uuid)
    expect(part['poam-items']).toEqual(after['poam-items'])
    expect(first.text).not.toContain(one.tenantId)
  })

  test.each([
    ['*/*', 'application/json; charset=utf-8'],
    ['application/oscal+json', 'application/oscal+json; charset=utf-8'],
    ['application/json;q=0.5, application/oscal+json', 'application/oscal+json; charset=utf-8'],
  ])('requested as %s is a file of type %s', async (accept, type) => {
    const tenant = newTenant()
    await openFinding(service, tenant)
    const answer = await get(tenant, '', accept)
    expect([answer.headers['content-type'], answer.headers['vary']]).toEqual([type, 'accept'])
    expect(answer.headers['content-disposition']).toBe('attachment; filename="poam.json"')
  })
})
