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
