/**
 * @promise Data: Quarantined, rejected and purged files never prove a remedy.
 * @alsoShownBy services/evidence/test/evidence-references.test.ts
 */

import { type EvidenceRef, actionPlanSchema, findingSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  type FindingsUnderTest,
  type Principal,
  completeFields,
  findingBody,
  newTenant,
  path,
  readFindings,
  startFindings,
} from './service.ts'

const known: EvidenceRef = { evidence_id: crypto.randomUUID(), sha256: 'a'.repeat(64), size: 10 }
const unknown: EvidenceRef = { ...known, size: 11 }

let service: FindingsUnderTest
let [tenant, other]: Principal[] = []
let entity: string
let theirs: string
let procedure: string
let ada: string
let gone: string
let stranger: string

beforeAll(async () => {
  const evidence = { unknown: async (_request: unknown, refs: readonly EvidenceRef[]) => refs.filter(isUnknown) }
  service = await startFindings({ universe: true, references: { evidence } })
  const sides = [newTenant(), newTenant()] as const
  for (const { tenantId } of sides) {
    await service.universe?.push(tenantId, 'entities', {
      entities: [{ external_id: 'bank', name: 'Bank', type: 'process' }],
    })
    await service.universe?.push(tenantId, 'test-procedures', {
      test_procedures: [{ external_id: 'p', title: 'Access' }],
    })
    await service.universe?.push(tenantId, 'people', {
      people: [
        { external_id: 'ada', name: 'Ada' },
        { external_id: 'gone', name: 'Gil', active: false },
      ],
    })
  }
  ;[tenant, other] = sides
  ;[entity, theirs] = [await idOf('entity', sides[0]), await idOf('entity', sides[1])]
  procedure = await idOf('test_procedure', sides[0])
  ;[ada, gone] = [await idOf('person', sides[0], 'ada'), await idOf('person', sides[0], 'gone')]
  stranger = await idOf('person', sides[1], 'ada')
})
afterAll(async () => await service.close())

/** Evidence that an administrator purged. */
const purged = new Set<string>()
const isUnknown = ({ evidence_id: id, size }: EvidenceRef) => size !== known.size || purged.has(id)

async function idOf(
  table: 'entity' | 'test_procedure' | 'person',
  { tenantId }: Principal,
  externalId?: string,
): Promise<string> {
  const rows = await service.asSuperuser.system(async (tx) =>
    tx.query<{ id: string }>({
      text: `select id from universe.${table} where tenant_id = $1 and external_id = coalesce($2, external_id)`,
      values: [tenantId, externalId ?? null],
    }),
  )
  return rows[0]?.id ?? expect.fail(`no ${table}`)
}

const by = (): Principal => tenant ?? expect.fail('no tenant')
const post = async (target: string, body: object, principal = by()) =>
  await service.call(principal, 'POST', target, { body })
const patch = async (target: string, body: object) => {
  const headers = { 'if-match': '*', 'content-type': 'application/merge-patch+json' }
  return await service.call(by(), 'PATCH', target, { body: JSON.stringify(body), headers })
}
const read = async (at: string) => (await service.call(by(), 'GET', at)).text
const who = (id: string) => ({ person_id: id })
const planOf = (owner: string) => ({ title: 'Do it', owner: who(owner), due_date: '2030-01-01' })
const refusal = z.object({ status: z.int(), errors: z.array(z.object({ pointer: z.string(), code: z.string() })) })

/** Returns the status and the pointers to unknown references. */
function refused({ json }: { readonly json: unknown }) {
  const { status, errors } = refusal.parse(json)
  return [status, errors.map(({ pointer, code }) => `${code} ${pointer}`)]
}

async function total(): Promise<number> {
  return readFindings.parse((await service.call(by(), 'GET', path)).json).length
}

const inAYear = new Date(Date.now() + 365 * 86_400_000).toISOString().slice(0, 10)
const findingsAbout = async (address: string, principal = by()) =>
  readFindings.parse((await service.call(principal, 'GET', `${path}?limit=1000&entity_id=${address}`)).json)
const named = (ref: EvidenceRef) => ({ evidence_refs: [known, ref] })
const open = () => ({ ...findingBody(), ...completeFields, entity_ids: [entity], status: 'open' })
const documented = async (body: object) => findingSchema.parse((await post(path, body)).json)

describe('what a finding names', () => {
  test('must exist: unknown ids are reported with pointers, and nothing is stored', async () => {
    const before = await total()
    const body = findingBody({
      entity_ids: [crypto.randomUUID(), entity, crypto.randomUUID()],
      test_procedure_id: entity,
    })
    expect(refused(await post(path, body))).toEqual([
      422,
      ['unknown /entity_ids/0', 'unknown /entity_ids/2', 'unknown /test_procedure_id'],
    ])
    expect(await total()).toBe(before)
  })

  test('must belong to the tenant: ids of another tenant return the same bytes as unknown ids', async () => {
    const said = async (id: string) =>
      (await post(path, findingBody({ entity_ids: [id] }))).text.replace(/"instance":"[^"]*"/, '')
    expect(await said(theirs)).toBe(await said(crypto.randomUUID()))
    expect((await post(path, findingBody({ entity_ids: [theirs] }), other)).status).toBe(201)
  })

  test('can be named by `ref:` and `ext:` addresses, which are stored as ids', async () => {
    const repeated = await documented({ ...open(), external_id: 'repeated', severity: 'low' })
    const done = { to: 'risk_accepted', reason: 'r', approver: { name: 'Eve' }, accepted_until: inAYear }
    expect((await post(`${path}/${repeated.id}/status`, done)).status).toBe(200)
    const wrong = { entity_ids: ['ext:bank', 'ext:none', 'ref:AE-9999'], test_procedure_id: 'ext:none' }
    const pointers = ['unknown /entity_ids/1', 'unknown /entity_ids/2', 'unknown /test_procedure_id']
    expect(refused(await post(path, findingBody(wrong)))).toEqual([422, pointers])
    for (const repeat of ['ext:none', 'ref:F-1999-0001', crypto.randomUUID()]) {
      const body = findingBody({ repeat_of_id: repeat })
      expect(refused(await post(path, body)), repeat).toEqual([422, ['unknown /repeat_of_id']])
    }
    const ids = { entity_ids: [entity], test_procedure_id: procedure, repeat_of_id: repeated.id }
    const addresses = { entity_ids: ['ext:bank', 'ref:AE-0001', entity], test_procedure_id: 'ext:p' }
    const made = await documented(findingBody({ ...addresses, repeat_of_id: `ref:${repeated.reference}` }))
    expect(made).toMatchObject(ids)
    const changed = await patch(`${path}/${made.id}`, { ...addresses, repeat_of_id: 'ext:repeated' })
    expect(changed.json).toMatchObject({ ...ids, version: made.version })
    const items = [{ ...findingBody({ ...addresses, repeat_of_id: 'ext:repeated' }), external_id: 'addressed' }]
    expect((await post(`${path}/bulk`, { items })).json).toMatchObject([{ status: 201 }])
    expect((await service.call(by(), 'GET', `${path}/ext:addressed`)).json).toMatchObject(ids)
  })

  test('filters a list by any of its addresses', async () => {
    const { id } = await documented(open())
    const expected = await findingsAbout(entity)
    expect(expected.map((finding) => finding.id)).toContain(id)
    for (const address of ['ext:bank', 'ref:AE-0001', `ext:bank,ext:none,${entity}`]) {
      expect(await findingsAbout(address), address).toEqual(expected)
    }
    expect(await findingsAbout('ext:none')).toEqual([])
    expect(await findingsAbout(entity, newTenant())).toEqual([])
  })

  test('is looked up once per request, and not at all if nothing is named', async () => {
    const first = service.asked.length
    await documented({ ...open(), test_procedure_id: procedure })
    expect(service.asked.slice(first)).toEqual([{ entity_ids: [entity], test_procedure_ids: [procedure] }])
    await documented(findingBody())
    expect(service.asked.length).toBe(first + 1)
  })

  test('may stay if it was stored before and is unknown now, but cannot be added', async () => {
    const { id } = await documented(open())
    const old = crypto.randomUUID()
    await service.asSuperuser.system(async (tx) =>
      tx.execute({
        text: `insert into findings.finding_entity (tenant_id, finding_id, entity_id, position)
          values ($1, $2, $3, 2)`,
        values: [by().tenantId, id, old],
      }),
    )
    const change = async (entity_ids: string[]) => await patch(`${path}/${id}`, { entity_ids })
    expect(refused(await change([old, crypto.randomUUID()]))).toEqual([422, ['unknown /entity_ids/1']])
    expect((await change([old])).status).toBe(200)
  })

  test('is looked up once per bulk request, which rejects items with unknown ids', async () => {
    const first = service.asked.length
    const items = [
      { ...open(), external_id: 'good' },
      { ...open(), external_id: 'bad', entity_ids: [entity, theirs] },
      { ...findingBody(), external_id: 'none' },
    ]
    const answer = await post(`${path}/bulk`, { mode: 'best_effort', items })
    const [good, bad, none] = z.array(z.object({ status: z.int(), problem: z.unknown().optional() })).parse(answer.json)
    expect([good?.status, none?.status]).toEqual([201, 201])
    expect(refused({ json: bad?.problem })).toEqual([422, ['unknown /items/1/entity_ids/1']])
    expect(service.asked.slice(first)).toEqual([{ entity_ids: [entity, theirs], test_procedure_ids: [] }])
  })
})

describe('evidence that a request names', () => {
  test('has the names of the log or those of a receipt, but each value once', async () => {
    const { id } = await documented(findingBody())
    const { evidence_id: file, sha256, size } = known
    const entry = async (...refs: object[]) => await post(`${path}/${id}/log`, { body: 'See', evidence_refs: refs })
    expect(refused(await entry(known, { ...known, id: file }, { sha256, size_bytes: size }))).toEqual([
      422,
      ['invalid /evidence_refs/1/evidence_id', 'invalid /evidence_refs/2/evidence_id'],
    ])
    expect(refused(await entry({ ...known, size_bytes: size }))).toEqual([422, ['invalid /evidence_refs/0/size']])
    const sent = [
      { id: file, sha256, size_bytes: size },
      { ...known, evidence_id: file.toUpperCase() },
    ]
    for (const ref of sent) expect((await entry(ref)).json).toMatchObject({ evidence_refs: [known] })
  })
})

test('null in a new finding, plan or recommendation means that the member is absent', async () => {
  const nothing = { criteria: null, owner: null, repeat_of_id: null, source: null, test_procedure_id: null }
  const made = await documented(findingBody({ ...nothing, external_id: null, management_response: null }))
  expect(made).toMatchObject({ ...nothing, external_id: null, management_response: null })
  expect(refused(await post(path, { ...findingBody(), title: null }))).toEqual([422, ['invalid_type /title']])
  const plan = { ...planOf(ada), external_id: null, description: null, priority: null, estimated_cost: null }
  expect((await post(`${path}/${made.id}/action-plans`, plan)).status).toBe(201)
  const advice = { text: 'Recertify', external_id: null }
  expect((await post(`${path}/${made.id}/recommendations`, advice)).status).toBe(201)
})

/** Creates a finding owned by one person, and a plan owned by an inactive one. */
const ofPeople = async () => {
  const { id } = await documented({ ...open(), owner: who(ada) })
  const { id: planId } = actionPlanSchema.parse((await post(`${path}/${id}/action-plans`, planOf(gone))).json)
  return { id, at: `${path}/${id}`, planId, planAt: `/api/v1/action-plans/${planId}` }
}

describe('people who are named by an id', () => {
  test('must exist in every body that names them; another tenant’s people return the same bytes as unknown people', async () => {
    const { at, planId, planAt } = await ofPeople()
    const said = async (nobody: string) => {
      const extension = { due_date: '2031-01-01', extension_reason: 'r', extension_approved_by: who(nobody) }
      const later = { to: '2031-01-01', reason: 'r', approved_by: who(nobody) }
      const accepted = { to: 'risk_accepted', reason: 'r', accepted_until: '2027-01-01', approver: who(nobody) }
      const many = { mode: 'best_effort', items: [{ id: planId, version: 1, owner: who(nobody), ...extension }] }
      const answers = [
        await post(path, findingBody({ owner: who(nobody) })),
        await patch(at, { owner: who(nobody) }),
        await post(`${at}/status`, accepted),
        await post(`${at}/status`, { to: 'closed', note: 'n', validated_by: who(nobody) }),
        await post(`${at}/action-plans`, planOf(nobody)),
        await patch(planAt, { owner: who(nobody), ...extension }),
        await post(`${planAt}/status`, { to: 'verified', verified_by: who(nobody) }),
        await post(`${planAt}/extensions`, later),
        await post(`${path}/bulk`, { mode: 'best_effort', items: [{ ...findingBody(), owner: who(nobody) }] }),
        await post('/api/v1/action-plans/bulk', many),
      ]
      return answers.map(({ text }) => text.replaceAll(/"instance":"[^"]*"/g, ''))
    }
    const before = [await total(), await read(at), await read(planAt)]
    const unknownTo = await said(crypto.randomUUID())
    expect(
      unknownTo.map((text) => /"status":422/.test(text) && text.match(/(?<="pointer":")\/[\w/]+\/person_id/g)),
    ).toEqual([
      ['/owner/person_id'],
      ['/owner/person_id'],
      ['/approver/person_id'],
      ['/validated_by/person_id'],
      ['/owner/person_id'],
      ['/owner/person_id', '/extension_approved_by/person_id'],
      ['/verified_by/person_id'],
      ['/approved_by/person_id'],
      ['/items/0/owner/person_id'],
      ['/items/0/owner/person_id', '/items/0/extension_approved_by/person_id'],
    ])
    expect(await said(stranger)).toEqual(unknownTo)
    expect([await total(), await read(at), await read(planAt)]).toEqual(before)
  })

  test('may be inactive, and are looked up together with everything else', async () => {
    const first = service.asked.length
    const { at, planAt } = await ofPeople()
    expect(service.asked.slice(first)).toEqual([
      { entity_ids: [entity], test_procedure_ids: [], person_ids: [ada] },
      { entity_ids: [], test_procedure_ids: [], person_ids: [gone] },
    ])
    expect((await patch(at, { owner: who(gone) })).status).toBe(200)
    expect((await patch(planAt, { owner: who(ada) })).status).toBe(200)
  })

  test('may stay if they were stored before and are unknown now', async () => {
    const { id, at, planId, planAt } = await ofPeople()
    const old = crypto.randomUUID()
    for (const [table, row] of [
      ['finding', id],
      ['action_plan', planId],
    ]) {
      await service.asSuperuser.system(async (tx) =>
        tx.execute({
          text: `update findings.${table} set owner = jsonb_build_object('person_id', $2::text), version = version + 1
            where id = $1`,
          values: [row, old],
        }),
      )
    }
    expect((await patch(at, { title: 'Other', owner: who(old) })).status).toBe(200)
    expect((await patch(planAt, { title: 'Other', owner: who(old) })).status).toBe(200)
    const item = { id: planId, version: 3, title: 'Third', owner: who(old) }
    const many = await post('/api/v1/action-plans/bulk', { mode: 'best_effort', items: [item] })
    expect(many.text).toContain('"status":200')
    expect(refused(await post(`${at}/action-plans`, planOf(old)))).toEqual([422, ['unknown /owner/person_id']])
  })
})

describe('evidence that is named', () => {
  test('must match its receipt, in log entries, status changes, plans and bulk requests', async () => {
    const { id } = await documented(open())
    const plan = { title: 'Do it', owner: { name: 'Ada' }, due_date: '2030-01-01' }
    const { id: planId } = actionPlanSchema.parse((await post(`${path}/${id}/action-plans`, plan)).json)
    const moves = async (ref: EvidenceRef) => [
      await post(`${path}/${id}/log`, { body: 'Seen.', ...named(ref) }),
      await post(`/api/v1/action-plans/${planId}/status`, { to: 'approved', ...named(ref) }),
      await post(`${path}/${id}/status`, { to: 'cancelled', reason: 'In error.', ...named(ref) }),
    ]
    for (const answer of await moves(unknown)) expect(refused(answer)).toEqual([422, ['unknown /evidence_refs/1']])
    const items = [{ id: planId, version: 1, status: 'approved', ...named(unknown) }]
    const many = await post('/api/v1/action-plans/bulk', { mode: 'best_effort', items })
    expect(many.text).toContain('"pointer":"/items/0/evidence_refs/1"')
    for (const answer of await moves(known)) expect(answer.status, answer.text).toBeLessThan(300)
  })
})

test('purged evidence still counts for its finding, but cannot be referenced again', async () => {
  const proof = { ...known, evidence_id: crypto.randomUUID() }
  const { id } = await documented({ ...open(), severity: 'critical' })
  const plan = { title: 'Do it', owner: { name: 'Ada' }, due_date: '2030-01-01' }
  const { id: planId } = actionPlanSchema.parse((await post(`${path}/${id}/action-plans`, plan)).json)
  const move = async (target: string, body: object) => {
    const answer = await post(target, body)
    expect(answer.status, answer.text).toBeLessThan(300)
  }
  for (const to of ['approved', 'in_progress']) await move(`/api/v1/action-plans/${planId}/status`, { to })
  const done = { to: 'implemented', note: 'Done.', percent_complete: 100 }
  await move(`/api/v1/action-plans/${planId}/status`, done)
  await move(`${path}/${id}/status`, { to: 'pending_validation' })
  const closing = { to: 'closed', validated_by: { name: 'Cleo' }, note: 'Tested.' }
  expect((await post(`${path}/${id}/status`, closing)).status).toBe(409)
  await move(`${path}/${id}/log`, { kind: 'evidence_linked', body: 'Seen.', evidence_refs: [proof] })
  purged.add(proof.evidence_id)
  const again = await post(`${path}/${id}/status`, { ...closing, evidence_refs: [proof] })
  expect(refused(again)).toEqual([422, ['unknown /evidence_refs/0']])
  await move(`${path}/${id}/status`, closing)
})

describe('while the universe does not answer', () => {
  test('a finding without references is stored, and one with references returns 503 and stores nothing', async () => {
    await service.universe?.stop()
    const before = await total()
    expect((await post(path, open())).status).toBe(503)
    expect((await post(path, findingBody({ owner: { person_id: ada } }))).status).toBe(503)
    const items = [{ ...open(), external_id: 'later' }, findingBody()]
    expect((await post(`${path}/bulk`, { mode: 'best_effort', items })).status).toBe(503)
    expect(await total()).toBe(before)
    expect((await post(path, findingBody())).status).toBe(201)
  })
})
