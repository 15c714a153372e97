import { createHash, randomUUID } from 'node:crypto'
import { type TestStack, operator, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type Answer, type RequestOptions, send } from '../support/http.ts'

let stack: TestStack
let gateway: string
let ours: Side
let theirs: Side

/** Ids of what one tenant has, by what they are, and the entity tag of its finding. */
interface Side {
  readonly key: string
  readonly tenantId: string
  readonly ids: Readonly<Record<Kind, string>>
  readonly etag: string
}

const kinds = [
  'finding',
  'recommendation',
  'plan',
  'entity',
  'hierarchy',
  'node',
  'procedure',
  'person',
  'file',
  'upload',
  'key',
] as const
type Kind = (typeof kinds)[number]

const base = '/api/v1'
const finding = { title: 'Twin', condition: 'Seen.', severity: 'high', external_id: 'twin' }
const open = { criteria: 'c', cause: 'c', consequence: 'c', owner: { name: 'Ada' }, status: 'open' }
const tus = { 'tus-resumable': '1.0.0' }
const begin = {
  ...tus,
  'upload-length': '4',
  'upload-metadata': `filename ${btoa('a.txt')},filetype ${btoa('text/plain')}`,
}

beforeAll(async () => {
  stack = await startTestStack()
  gateway = stack.gateways[0] ?? ''
  ours = await fill()
  theirs = await fill()
})
afterAll(async () => await stack.stop())

const id = z.object({ id: z.string() })
const first = z.array(id).min(1)

/** The same data for every tenant, so that only ids tell one from the other. */
async function fill(): Promise<Side> {
  const tenant = await stack.createTenant()
  const { key, id: keyId } = await stack.createKey(tenant, { scopes: ['*'] })
  const ask = async (method: 'GET' | 'POST', path: string, options: Omit<RequestOptions, 'method'> = {}) => {
    const answer = await send(gateway, base + path, { key, method, ...options })
    expect(answer.status, `${path} ${answer.text}`).toBeLessThan(300)
    return answer
  }
  const firstOf = async (path: string) => first.parse((await ask('GET', path)).json)[0]?.id ?? ''
  await ask('POST', '/sync/people', { body: [{ external_id: 'twin', name: 'Ada', email: 'ada@x.example' }] })
  const entities = [
    { external_id: 'twin', name: 'Treasury', type: 'process', owner: { email: 'ada@x.example' } },
    { external_id: 'child', name: 'FX', type: 'process', parent_external_id: 'twin' },
  ]
  await ask('POST', '/sync/entities', { body: entities })
  await ask('POST', '/sync/test-procedures', { body: [{ external_id: 'twin', title: 'Twin', entities: ['twin'] }] })
  const nodes = [{ node_key: 'twin', name: 'Bank', entities: ['twin'] }]
  await ask('POST', '/sync/org-structures/legal', { body: { name: 'L', kind: 'legal_entity', mode: 'full', nodes } })
  const entity = await firstOf('/entities?q=Treasury')
  const person = await firstOf('/people')
  const made = await ask('POST', '/findings', {
    body: { ...finding, ...open, owner: { person_id: person }, entity_ids: [entity] },
  })
  const { id: findingId } = id.parse(made.json)
  const recommendation = await ask('POST', `/findings/${findingId}/recommendations`, { body: { text: 'Do it.' } })
  const planned = { title: 'Plan', owner: { name: 'Bo' }, due_date: '2030-01-01' }
  const plan = await ask('POST', `/findings/${findingId}/action-plans`, { body: planned })
  const file = await ask('POST', '/evidence?file_name=a.txt', {
    body: 'text',
    headers: { 'content-type': 'text/plain' },
  })
  const upload = await ask('POST', '/evidence/uploads', { headers: begin })
  const ids = {
    finding: findingId,
    recommendation: id.parse(recommendation.json).id,
    plan: id.parse(plan.json).id,
    entity,
    hierarchy: await firstOf('/hierarchies'),
    node: await firstOf('/hierarchies/legal/nodes'),
    procedure: await firstOf('/test-procedures'),
    person,
    file: id.parse(file.json).id,
    upload: String(upload.headers['location']).split('/').at(-1) ?? '',
    key: keyId,
  }
  // A second of each, so that every list has a page behind the first.
  await ask('POST', '/sync/people', { body: [{ external_id: 'second', name: 'Zoe' }] })
  await ask('POST', '/sync/test-procedures', { body: [{ external_id: 'second', title: 'Second' }] })
  await ask('POST', '/findings', { body: { ...finding, external_id: 'second' } })
  await ask('POST', `/findings/${findingId}/recommendations`, { body: { text: 'Do more.' } })
  await ask('POST', `/findings/${findingId}/action-plans`, { body: planned })
  return {
    key,
    tenantId: tenant.id,
    etag: String(made.headers['etag']),
    ids,
  }
}

interface Request extends Omit<RequestOptions, 'key'> {
  readonly path: string
}

const own = (kind: Kind) => ours.ids[kind]
const post = (path: string, body?: unknown, headers: Record<string, string> = {}): Request => ({
  path,
  method: 'POST',
  headers,
  ...(body === undefined ? {} : { body }),
})
const patch = (path: string, body: unknown): Request => ({
  path,
  method: 'PATCH',
  body,
  headers: { 'if-match': theirs.etag },
})
const text = { 'content-type': 'text/plain' }
/** What both sides have brought as evidence. */
const evidence = { sha256: createHash('sha256').update('text').digest('hex'), size: 4 }
const bulk = (item: object, mode = 'best_effort') => ({ mode, items: [item] })

/** Every place in a request that an id can stand in, by what it is an id of; `known`: what its owner is answered, where not 2xx. */
type Place = readonly [kind: Kind, place: string, request: (id: string) => Request, known?: number]
const places: readonly Place[] = [
  ['finding', 'path', (at) => ({ path: `/findings/${at}` })],
  ['finding', 'path, expanded', (at) => ({ path: `/findings/${at}?expand=recommendations,action_plans,log,entities` })],
  ...['recommendations', 'action-plans', 'log', 'log/verify', 'transitions'].map((part): Place => [
    'finding',
    `path of its ${part}`,
    (at) => ({ path: `/findings/${at}/${part}` }),
  ]),
  ['finding', 'path and If-Match of a change', (at) => patch(`/findings/${at}`, { title: 'Mine' })],
  ['finding', 'path of a move', (at) => post(`/findings/${at}/status`, { to: 'open' }), 409],
  ['finding', 'path of a new entry', (at) => post(`/findings/${at}/log`, { kind: 'note', body: 'n' })],
  ['finding', 'path of a new recommendation', (at) => post(`/findings/${at}/recommendations`, { text: 't' })],
  [
    'finding',
    'path of a new plan',
    (at) => post(`/findings/${at}/action-plans`, { title: 't', owner: { name: 'n' }, due_date: '2030-01-01' }),
  ],
  [
    'finding',
    'body, as what is repeated',
    (at) => post('/findings', { ...finding, external_id: randomUUID(), repeat_of_id: at }),
    422,
  ],
  ['finding', 'bulk item', (at) => post('/findings/bulk', bulk({ id: at, version: 1, title: 'Mine' }))],
  [
    'finding',
    'bulk item of an atomic request',
    (at) => post('/findings/bulk', bulk({ id: at, version: 1, title: 'Mine' }, 'atomic')),
  ],
  [
    'finding',
    'bulk item, as the finding of a plan',
    (at) => post('/action-plans/bulk', bulk({ finding: at, title: 't', owner: { name: 'n' }, due_date: '2030-01-01' })),
  ],
  ['finding', 'filter of plans', (at) => ({ path: `/action-plans?count=true&finding_id=${at}` })],
  ['finding', 'filter of recommendations', (at) => ({ path: `/recommendations?count=true&finding_id=${at}` })],
  ['recommendation', 'path', (at) => ({ path: `/recommendations/${at}` })],
  ['recommendation', 'path of a change', (at) => patch(`/recommendations/${at}`, { text: 'Mine' })],
  [
    'recommendation',
    'body of a plan',
    (at) =>
      post(`/findings/${own('finding')}/action-plans`, {
        title: 't',
        owner: { name: 'n' },
        due_date: '2030-01-01',
        recommendation_ids: [at],
      }),
    404,
  ],
  ['plan', 'path', (at) => ({ path: `/action-plans/${at}` })],
  ['plan', 'path of a change', (at) => patch(`/action-plans/${at}`, { title: 'Mine' })],
  ['plan', 'path of a move', (at) => post(`/action-plans/${at}/status`, { to: 'verified' }), 409],
  [
    'plan',
    'path of an extension',
    (at) => post(`/action-plans/${at}/extensions`, { to: '2031-01-01', reason: 'r', approved_by: { name: 'n' } }),
  ],
  ['plan', 'bulk item', (at) => post('/action-plans/bulk', bulk({ id: at, version: 1, title: 'Mine' }))],
  [
    'entity',
    'body of a finding',
    (at) => post('/findings', { ...finding, external_id: randomUUID(), entity_ids: [at] }),
  ],
  ['entity', 'bulk item', (at) => post('/findings/bulk', bulk({ ...finding, entity_ids: [at] }))],
  ['entity', 'path', (at) => ({ path: `/entities/${at}?expand=ancestors,nodes,finding_counts` })],
  ['entity', 'path of what is below', (at) => ({ path: `/entities/${at}/children` })],
  ['entity', 'path of what is above', (at) => ({ path: `/entities/${at}/ancestors` })],
  ['entity', 'filter of an expanded list', (at) => ({ path: `/entities?subtree_of=${at}&expand=finding_counts` })],
  ['entity', 'filter, as the parent', (at) => ({ path: `/entities?count=true&parent_id=${at}` })],
  ['entity', 'filter, as the top', (at) => ({ path: `/entities?count=true&subtree_of=${at}` })],
  ['entity', 'filter of findings', (at) => ({ path: `/findings?count=true&entity_id=${at},${randomUUID()}` })],
  ['entity', 'filter of findings, as the top', (at) => ({ path: `/findings?count=true&subtree_of=${at}` })],
  ['entity', 'filter of test procedures', (at) => ({ path: `/test-procedures?count=true&entity_id=${at}` })],
  ['entity', 'filter of a summary', (at) => ({ path: `/findings/summary?entity_id=${at}` })],
  ['hierarchy', 'path', (at) => ({ path: `/hierarchies/${at}` })],
  ['hierarchy', 'path of its nodes', (at) => ({ path: `/hierarchies/${at}/nodes?count=true` })],
  ['hierarchy', 'path of its nodes as they were', (at) => ({ path: `/hierarchies/${at}/nodes?as_of=1` })],
  ['hierarchy', 'path of its tree', (at) => ({ path: `/hierarchies/${at}/tree` })],
  ['hierarchy', 'path of what differs', (at) => ({ path: `/hierarchies/${at}/diff?from=0` })],
  ['node', 'path', (at) => ({ path: `/hierarchy-nodes/${at}` })],
  ['node', 'filter of nodes, as the top', (at) => ({ path: `/hierarchies/legal/nodes?subtree_of=${at}` })],
  ['node', 'filter of a tree', (at) => ({ path: `/hierarchies/legal/tree?root=${at}` })],
  ['node', 'filter of entities', (at) => ({ path: `/entities?hierarchy=legal&subtree_of=${at}` })],
  [
    'procedure',
    'body of a finding',
    (at) => post('/findings', { ...finding, external_id: randomUUID(), test_procedure_id: at }),
  ],
  ['procedure', 'path', (at) => ({ path: `/test-procedures/${at}` })],
  ['procedure', 'query of an upload', (at) => post(`/evidence?file_name=b.txt&test_procedure=${at}`, 'b', text)],
  [
    'procedure',
    'body of an attachment',
    (at) => post(`/evidence/${own('file')}/attachments`, { test_procedures: [at] }),
    404,
  ],
  [
    'procedure',
    'metadata of a resumable upload',
    (at) =>
      post('/evidence/uploads', undefined, {
        ...begin,
        'upload-metadata': `${begin['upload-metadata']},metadata ${btoa(JSON.stringify({ test_procedures: [at] }))}`,
      }),
  ],
  ['person', 'path', (at) => ({ path: `/people/${at}` })],
  ['person', 'filter of findings', (at) => ({ path: `/findings?count=true&owner=${at}` })],
  ['person', 'filter of entities', (at) => ({ path: `/entities?count=true&owner=${at}` })],
  [
    'file',
    'evidence of an entry',
    (at) => post(`/findings/${own('finding')}/log`, { body: 'b', evidence_refs: [{ ...evidence, evidence_id: at }] }),
    404,
  ],
  ['file', 'path of a revision', (at) => post(`/evidence/${at}/revisions?file_name=a.txt`, 'new', text)],
  ['file', 'path of an attachment', (at) => post(`/evidence/${at}/attachments`, { test_procedures: ['ext:twin'] })],
  ['upload', 'path of HEAD', (at) => ({ path: `/evidence/uploads/${at}`, method: 'HEAD', headers: tus })],
  [
    'upload',
    'path of a piece',
    (at) => ({
      path: `/evidence/uploads/${at}`,
      method: 'PATCH',
      body: Buffer.from('ab'),
      headers: { ...tus, 'upload-offset': '0', 'content-type': 'application/offset+octet-stream' },
    }),
  ],
  ['upload', 'path of DELETE', (at) => ({ path: `/evidence/uploads/${at}`, method: 'DELETE', headers: tus })],
]

/** What an answer says, without what differs from request to request, and without the id that was asked for. */
function said({ status, headers, text: body }: Answer, at: string) {
  const varying = new Set(['date', 'x-request-id', 'ratelimit', 'location', 'upload-expires'])
  return {
    status,
    headers: Object.entries(headers).filter(([name]) => !varying.has(name)),
    text: body.replaceAll(at, '<id>').replaceAll(/"instance":"[^"]*"/g, '"instance":""'),
  }
}

describe("an id of another tenant's gets the answer of an unknown one, to the byte", () => {
  const cases = places.map(([kind, place, request, known]) => ({ kind, place, request, known }))

  test.each(cases)('of a $kind, in the $place', async ({ kind, request, known }) => {
    const as = async (key: string, at: string) => {
      const { path, ...options } = request(at)
      return await send(gateway, base + path, { key, ...options })
    }
    const unknown = randomUUID()
    const foreign = await as(ours.key, theirs.ids[kind])
    expect(said(foreign, theirs.ids[kind])).toEqual(said(await as(ours.key, unknown), unknown))
    // The control: to its owner it is something else.
    const control = await as(theirs.key, theirs.ids[kind])
    if (known === undefined) expect(control.status, control.text).toBeLessThan(300)
    else expect(control.status, control.text).toBe(known)
    // A body that names what is ours beside it is refused to its owner too.
    if (known !== 404) expect(said(control, theirs.ids[kind])).not.toEqual(said(foreign, theirs.ids[kind]))
  })

  test.each([
    ['GET', ''],
    ['GET', '/events'],
    ['GET', '/usage'],
    ['POST', '/revoke'],
    ['POST', '/rotate'],
    ['PATCH', ''],
  ] as const)('of a key, in the path of %s %s', async (method, part) => {
    const change = { body: { label: 'Mine' }, headers: { 'if-match': '"1"' } }
    const as = async (tenantId: string, at: string) => {
      const admin = { ...operator, tenantId, kind: 'user', id: 'p', roles: ['admin'] } as const
      const target = `${base}/api-keys/${at}${part}`
      return await stack.caller('keys').call(admin, method, target, method === 'PATCH' ? change : {})
    }
    const unknown = randomUUID()
    const [foreign, missing] = [await as(ours.tenantId, theirs.ids.key), await as(ours.tenantId, unknown)]
    const plain = (answer: typeof foreign) => answer.text.replaceAll(/"instance":"[^"]*"/g, '')
    expect([foreign.status, plain(foreign)]).toEqual([404, plain(missing)])
    expect((await send(gateway, `${base}/whoami`, { key: theirs.key })).status).toBe(200)
  })

  test('an Idempotency-Key that another tenant has used is a new one', async () => {
    for (const [path, body] of [
      ['/findings', { ...finding, external_id: 'idempotent' }],
      ['/sync/people', [{ external_id: 'idempotent', name: 'Bo' }]],
      ['/evidence?file_name=i.txt', 'i'],
    ] as const) {
      const headers = { 'idempotency-key': randomUUID(), ...(typeof body === 'string' ? text : {}) }
      const ask = async ({ key }: Side) => await send(gateway, base + path, { key, method: 'POST', body, headers })
      const [theirsFirst, oursFirst, oursAgain] = [await ask(theirs), await ask(ours), await ask(ours)]
      const replayed = [theirsFirst, oursFirst, oursAgain].map((answer) => answer.headers['idempotent-replayed'])
      expect(replayed, path).toEqual([undefined, undefined, 'true'])
      expect([oursFirst.status, oursAgain.text], path).toEqual([theirsFirst.status, oursFirst.text])
    }
  })

  test('a cursor of another tenant’s list is refused like one of no list', async () => {
    for (const path of [
      '/findings',
      '/action-plans',
      '/recommendations',
      '/remediation-log',
      '/entities',
      '/test-procedures',
      '/people',
      '/changes',
    ]) {
      const name = path === '/changes' ? 'since' : 'cursor'
      const page = await send(gateway, `${base}${path}?limit=1`, { key: theirs.key })
      const next = /<([^>]+)>/.exec(String(page.headers['link'] ?? ''))?.[1]
      if (next === undefined) throw new Error(`${path} has no page behind the first`)
      // The control: who it was given to gets the next page.
      expect((await send(gateway, next, { key: theirs.key })).status, path).toBe(200)
      const foreign = await send(gateway, next, { key: ours.key })
      const made = await send(gateway, `${base}${path}?limit=1&${name}=bm9uZQ`, { key: ours.key })
      expect(foreign.status, path).toBe(400)
      expect(said(foreign, '-').text, path).toBe(said(made, '-').text)
    }
  })
})
