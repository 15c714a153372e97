import { expandedFindingSchema, problemSchema } from '@postern/contracts'
import { openCountsAnswerSchema } from '@postern/contracts/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  type FindingsUnderTest,
  type Principal,
  closedFinding,
  newTenant,
  openFinding,
  path,
  readFindings,
  startFindings,
} from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings({ universe: true })
})
afterAll(async () => await service.close())

const row = (external_id: string, parent_external_id?: string) => ({
  external_id,
  name: `Entity ${external_id}`,
  type: 'process',
  parent_external_id,
})

/** A bank with two departments. One has a team, which is also in the hierarchy `legal`. */
async function aUniverse(tenant: Principal): Promise<Record<string, string>> {
  const entities = [row('bank'), row('retail', 'bank'), row('cards', 'retail'), row('leasing', 'bank')]
  await service.universe?.push(tenant.tenantId, 'entities', { entities })
  await service.universe?.push(tenant.tenantId, 'org-structures', {
    key: 'legal',
    name: 'Legal entities',
    kind: 'legal_entity',
    mode: 'full',
    nodes: [
      { node_key: 'top', name: 'Top' },
      { node_key: 'below', name: 'Below', parent_key: 'top', entities: ['cards'] },
    ],
  })
  const rows = await service.asSuperuser.system(async (tx) =>
    tx.query<{ external_id: string; id: string }>({
      text: 'select external_id, id from universe.entity where tenant_id = $1',
      values: [tenant.tenantId],
    }),
  )
  return Object.fromEntries(rows.map(({ external_id, id }) => [external_id, id]))
}

const get = async (tenant: Principal, target: string, headers: Record<string, string> = {}) =>
  await service.call(tenant, 'GET', target, { headers })

describe('findings of a subtree', () => {
  test('are those of an entity and its descendants, or of a hierarchy node, combined with other filters', async () => {
    const [tenant, other] = [newTenant(), newTenant()]
    const ids = await aUniverse(tenant)
    await aUniverse(other)
    for (const name of ['bank', 'retail', 'cards', 'leasing']) {
      await openFinding(service, tenant, { title: name, entity_ids: [ids[name]], severity: 'low' })
    }
    const titles = async (by: Principal, query: string) =>
      readFindings.parse((await get(by, `${path}?sort=created_at&${query}`)).json).map(({ title }) => title)
    expect(await titles(tenant, 'subtree_of=ext:bank')).toEqual(['bank', 'retail', 'cards', 'leasing'])
    expect(await titles(tenant, `subtree_of=${ids['retail']}`)).toEqual(['retail', 'cards'])
    expect(await titles(tenant, 'hierarchy=legal')).toEqual(['cards'])
    expect(await titles(tenant, 'hierarchy=legal&subtree_of=key:top')).toEqual(['cards'])
    expect(await titles(tenant, 'hierarchy=legal&subtree_of=key:nowhere')).toEqual([])
    expect(await titles(tenant, 'subtree_of=ext:nowhere')).toEqual([])
    expect(await titles(tenant, 'subtree_of=ext:retail&severity=high')).toEqual([])
    expect(await titles(other, `subtree_of=${ids['retail']}`)).toEqual([])
    expect(await titles(other, 'subtree_of=ext:retail')).toEqual([])

    const first = await get(tenant, `${path}?sort=created_at&subtree_of=ext:bank&limit=3&count=true`)
    expect([readFindings.parse(first.json).length, first.headers['x-total-count']]).toEqual([3, '4'])
    const next = /<([^>]+)>/.exec(first.headers['link'] ?? '')?.[1] ?? ''
    expect(readFindings.parse((await get(tenant, next)).json).map(({ title }) => title)).toEqual(['leasing'])
    const summary = await get(tenant, `${path}/summary?subtree_of=ext:retail`)
    expect(summary.json).toMatchObject([{ key: 'low', total: 2 }])
    const csv = await get(tenant, `${path}?subtree_of=ext:retail&fields=title,severity&sort=created_at`, {
      accept: 'text/csv',
    })
    expect(csv.text.trim().split('\r\n')).toEqual(['title,severity', 'retail,low', 'cards,low'])
  })

  test('are rejected for a node without its hierarchy, and return 503 while the universe does not answer', async () => {
    const tenant = newTenant()
    const refused = await get(tenant, `${path}?subtree_of=key:top`)
    expect([refused.status, problemSchema.parse(refused.json).errors?.[0]?.parameter]).toEqual([400, 'subtree_of'])
    const isolated = await startFindings()
    try {
      const away = await isolated.call(newTenant(), 'GET', `${path}?subtree_of=ext:bank`)
      expect([away.status, away.headers['retry-after']]).toEqual([503, '1'])
      expect((await isolated.call(newTenant(), 'GET', path)).status).toBe(200)
    } finally {
      await isolated.close()
    }
  })
})

describe('expand', () => {
  test('adds the parts of a finding and includes them in the entity tag', async () => {
    const tenant = newTenant()
    const ids = await aUniverse(tenant)
    const { id } = await openFinding(service, tenant, { entity_ids: [ids['cards'], crypto.randomUUID()] })
    const post = async (target: string, body: object) =>
      expect((await service.call(tenant, 'POST', `${path}/${id}/${target}`, { body })).status).toBe(201)
    await post('recommendations', { text: 'Recertify.' })
    await post('action-plans', { title: 'Recertify', owner: { name: 'Ben' }, due_date: '2031-01-31' })
    const target = `${path}/${id}?expand=recommendations,action_plans,log,entities`
    const answer = await get(tenant, target)
    const finding = expandedFindingSchema.parse(answer.json)
    expect(finding).toMatchObject({
      recommendations: [{ text: 'Recertify.' }],
      action_plans: [{ title: 'Recertify' }],
      log: [{ seq: 1 }, { seq: 2 }, { seq: 3 }],
    })
    expect(finding.entities).toEqual([{ id: ids['cards'], name: 'Entity cards' }])
    const wider = { ...tenant, scopes: [...tenant.scopes, 'read:universe'] }
    expect(expandedFindingSchema.parse((await get(wider, target)).json).entities).toMatchObject([
      { id: ids['cards'], reference: expect.stringMatching(/^AE-/), type: 'process', status: 'active' },
    ])
    const etag = answer.headers['etag'] ?? ''
    expect((await get(tenant, target, { 'if-none-match': etag })).status).toBe(304)
    await post('log', { body: 'Called.' })
    expect((await get(tenant, target, { 'if-none-match': etag })).status).toBe(200)
    const patch = await service.call(tenant, 'PATCH', `${path}/${id}`, {
      body: { title: 'New' },
      headers: { 'if-match': etag },
    })
    expect(patch.status).toBe(200)
    expect((await get(tenant, `${path}/${id}?expand=comments`)).status).toBe(400)
  })

  test('adds to each finding of a page only its own parts, with the last entries of a long log', async () => {
    const tenant = newTenant()
    const ids = await aUniverse(tenant)
    const [first, second] = [
      await openFinding(service, tenant, { title: 'first', entity_ids: [ids['cards'], ids['bank']] }),
      await openFinding(service, tenant, { title: 'second', entity_ids: [ids['bank']] }),
    ]
    const post = async (target: string, body: object) =>
      expect((await service.call(tenant, 'POST', `${path}/${target}`, { body })).status).toBe(201)
    await post(`${first.id}/recommendations`, { text: 'Recertify.' })
    await post(`${second.id}/action-plans`, { title: 'Plan', owner: { name: 'Ben' }, due_date: '2031-01-31' })
    for (let at = 0; at < 20; at += 1) await post(`${second.id}/log`, { body: `Note ${at}` })
    const query = 'sort=created_at&expand=recommendations,action_plans,log,entities'
    const [one, two] = z.array(expandedFindingSchema).parse((await get(tenant, `${path}?${query}`)).json)
    expect([one, two]).toMatchObject([
      { ...first, recommendations: [{ finding_id: first.id, text: 'Recertify.' }], action_plans: [] },
      { ...second, recommendations: [], action_plans: [{ finding_id: second.id, title: 'Plan' }] },
    ])
    expect([one?.log?.map(({ seq }) => seq), two?.log?.map(({ seq }) => seq)]).toEqual([
      [1, 2],
      Array.from({ length: 20 }, (_, at) => at + 3),
    ])
    expect([one?.entities, two?.entities]).toEqual([
      [
        { id: ids['bank'], name: 'Entity bank' },
        { id: ids['cards'], name: 'Entity cards' },
      ],
      [{ id: ids['bank'], name: 'Entity bank' }],
    ])
    const page = await get(tenant, `${path}?${query}&limit=1&fields=title`)
    expect(page.json).toEqual([
      {
        title: 'first',
        recommendations: one?.recommendations,
        action_plans: [],
        log: one?.log,
        entities: one?.entities,
      },
    ])
    expect(page.headers['link']).toContain('expand=')
    expect((await get(newTenant(), `${path}?${query}`)).json).toEqual([])
  })

  test('is rejected for exports and for long pages', async () => {
    const tenant = newTenant()
    for (const [query, accept, parameter] of [
      ['expand=log', 'application/x-ndjson', 'expand'],
      ['expand=log', 'text/csv', 'expand'],
      ['expand=log&limit=101', 'application/json', 'limit'],
      ['expand=comments', 'application/json', 'expand'],
    ] as const) {
      const { status, json } = await get(tenant, `${path}?${query}`, { accept })
      expect([status, problemSchema.parse(json).errors?.[0]?.parameter], query).toEqual([400, parameter])
    }
    expect((await get(tenant, `${path}?expand=log&limit=100`)).status).toBe(200)
  })
})

describe('the universe service', () => {
  test('can count open findings of entities, and nobody else can', async () => {
    const [tenant, other] = [newTenant(), newTenant()]
    const [one, two, three] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()]
    await openFinding(service, tenant, { severity: 'critical', entity_ids: [one, two] })
    await openFinding(service, tenant, { severity: 'low', entity_ids: [one] })
    await closedFinding(service, tenant, { severity: 'low', entity_ids: [one] })
    await openFinding(service, other, { severity: 'high', entity_ids: [one, three] })
    const ask = async (by: Pick<FindingsUnderTest, 'call'>, kind: 'service' | 'api_key' = 'service') =>
      await by.call({ ...tenant, kind }, 'POST', '/internal/v1/findings/open-counts', {
        body: { entity_ids: [one, two, three] },
      })
    expect((await ask(service)).status).toBe(401)
    expect((await ask(service.asUniverse, 'api_key')).status).toBe(401)
    const { counts } = openCountsAnswerSchema.parse((await ask(service.asUniverse)).json)
    expect(new Map(counts.map(({ entity_id, ...of }) => [entity_id, of]))).toEqual(
      new Map([
        [one, { critical: 1, high: 0, medium: 0, low: 1 }],
        [two, { critical: 1, high: 0, medium: 0, low: 0 }],
      ]),
    )
  })
})

describe('fields', () => {
  test('select members in lists, single responses and exports, and reject unknown names', async () => {
    const tenant = newTenant()
    const { id, title, reference } = await openFinding(service, tenant)
    expect((await get(tenant, `${path}?fields=id,title`)).json).toEqual([{ id, title }])
    expect((await get(tenant, `${path}/${id}?fields=title&fields=reference`)).json).toEqual({ title, reference })
    expect((await get(tenant, `${path}/${id}?fields=title&expand=log`)).json).toEqual({
      title,
      log: [expect.objectContaining({ seq: 1 })],
    })
    const lines = await get(tenant, `${path}?fields=title`, { accept: 'application/x-ndjson' })
    expect(lines.text).toBe(`${JSON.stringify({ title })}\n`)
    for (const target of [`${path}?fields=tenant_id`, `${path}?fields=`, `${path}/${id}?fields=__proto__`]) {
      expect((await get(tenant, target)).status, target).toBe(400)
    }
    for (const list of ['/api/v1/action-plans?fields=id', '/api/v1/recommendations?fields=id']) {
      expect((await get(tenant, list)).json).toEqual([])
    }
  })

  test('a list can be filtered by reference', async () => {
    const tenant = newTenant()
    const { reference } = await openFinding(service, tenant)
    await openFinding(service, tenant)
    expect((await get(tenant, `${path}?ref=${reference}&fields=reference`)).json).toEqual([{ reference }])
    expect((await get(newTenant(), `${path}?ref=${reference}`)).json).toEqual([])
  })
})
