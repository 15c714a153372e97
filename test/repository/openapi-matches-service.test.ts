import { type Route, columnsOf, openApi, routeTable } from '@postern/contracts'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, test } from 'vitest'
import { publishedOf } from '../support/published.ts'

const document = asRecord(JSON.parse(JSON.stringify(openApi('https://postern.example'))))
const ajv = new Ajv2020({ strict: false })

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value)) : {}
}

function at(...names: readonly string[]): unknown {
  return names.reduce<unknown>((value, name) => asRecord(value)[name], document)
}

function routeOf(id: string): Route {
  const route = routeTable.find((each) => each.id === id)
  if (route === undefined) throw new Error(`there is no route ${id}`)
  return route
}

function pathOf({ path }: Route): string {
  return path.replaceAll(/:(\w+)/g, '{$1}')
}

function operationOf(route: Route): Record<string, unknown> {
  return asRecord(at('paths', pathOf(route), route.method.toLowerCase()))
}

/** Whether the document allows a body. */
function allowsBody(route: Route, body: unknown): boolean {
  return publishedOf(route).faultOfBody(body) === undefined
}

const id = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'
const key = { label: 'Export', expires_in: '90d', scopes: ['read:findings'] }
const finding = { title: 'A', condition: 'B', severity: 'low', type: 'control_deficiency', entity_ids: [id] }
const connector = { key: 'hr', name: 'HR', type: 'csv', dataset: 'auditable_entities' }

/** Bodies that break one rule each, beside one that keeps it. */
const bodies: Readonly<Record<string, readonly (readonly [rule: string, broken: object, kept: object])[]>> = {
  'keys.create': [
    ['no control characters', { ...key, label: 'a\u0007b' }, key],
    ['more than white space', { ...key, label: '  ' }, { ...key, label: ' a ' }],
    ['no repeated scopes', { ...key, scopes: ['read:findings', 'read:findings'] }, key],
    [
      'a day for custom',
      { ...key, expires_in: 'custom' },
      { ...key, expires_in: 'custom', expires_at: '2027-01-01T00:00:00Z' },
    ],
    ['no day for others', { ...key, expires_at: '2027-01-01T00:00:00Z' }, key],
  ],
  'keys.update': [['at least one member', {}, { label: 'a' }]],
  'keys.revoke': [['no control characters', { reason: 'a\u001bb' }, { reason: 'Lost' }]],
  'keys.change-policy': [['at least one member', {}, { max_key_days: 90 }]],
  'findings.update': [
    ['at least one member', {}, { title: 'a' }],
    ['no control characters', { title: 'a\u2028b' }, { title: 'a' }],
    ['no NUL', { condition: 'a\u0000' }, { condition: 'a\nb' }],
    ['no repeated entities', { entity_ids: [id, id] }, { entity_ids: [id] }],
    [
      'at most 50 fields',
      { custom: Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`f${n}`, n])) },
      { custom: {} },
    ],
  ],
  'findings.create': [
    ['a person has a name', { ...finding, owner: {} }, { ...finding, owner: { name: 'Ada' } }],
    [
      'a disagreement has reasons',
      { ...finding, management_response: { agreement: 'disagree' } },
      { ...finding, management_response: { agreement: 'disagree', text: 'No' } },
    ],
  ],
  'findings.update-recommendation': [['at least one member', {}, { custom: {} }]],
  'findings.update-action-plan': [
    ['at least one member', {}, { title: 'a' }],
    ['https only', { external_url: 'http://a.example/' }, { external_url: 'https://a.example/' }],
    ['no repeated recommendations', { recommendation_ids: [id, id] }, { recommendation_ids: [id] }],
  ],
  'findings.create-log-entry': [
    ['a correction corrects', { kind: 'correction', body: 'a' }, { kind: 'correction', body: 'a', corrects_seq: 1 }],
    ['nothing else corrects', { kind: 'note', body: 'a', corrects_seq: 1 }, { body: 'a' }],
    ['evidence is named', { kind: 'evidence_linked', body: 'a' }, { kind: 'note', body: 'a' }],
  ],
  'sync.create-connector': [
    ['a hierarchy for structures', { ...connector, dataset: 'org_structure' }, connector],
    [
      'one source of a field',
      { ...connector, mapping: [{ target: 'name' }] },
      { ...connector, mapping: [{ target: 'name', source: 'N' }] },
    ],
    [
      'not two sources of a field',
      { ...connector, mapping: [{ target: 'name', source: 'N', constant: 'c' }] },
      { ...connector, mapping: [{ target: 'name', constant: 'c' }] },
    ],
  ],
  'sync.update-connector': [['at least one member', {}, { name: 'a' }]],
}

describe.each(Object.entries(bodies))('the document says of the body of %s', (routeId, cases) => {
  test.each(cases)('%s, as the service does', (_rule, broken, kept) => {
    const route = routeOf(routeId)
    expect([route.body?.safeParse(kept).success, allowsBody(route, kept)]).toEqual([true, true])
    expect([route.body?.safeParse(broken).success, allowsBody(route, broken)]).toEqual([false, false])
  })
})

test('every PATCH without a change is rejected, and the document says so', () => {
  const patches = routeTable.filter(
    ({ method, body, dialect }) => method === 'PATCH' && body !== undefined && dialect === undefined,
  )
  expect(patches.length).toBeGreaterThan(5)
  for (const route of patches) {
    expect([route.id, route.body?.safeParse({}).success, allowsBody(route, {})]).toEqual([route.id, false, false])
  }
})

const headers: Readonly<Record<string, readonly [broken: string, kept: string]>> = {
  'X-Request-Id': ['a b', 'nightly-1'],
  'Idempotency-Key': ['a b', '4f1c0a52'],
  'If-None-Match': ['3.2026', 'W/"3.2026-11-21", "4"'],
  'If-Match': ['3.2026', '"3.2026-11-21"'],
  'Content-Digest': ['md5=:AAAA:', 'sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:'],
  'Tus-Resumable': ['0.2.2', '1.0.0'],
  'Upload-Length': ['-1', '10'],
  'Upload-Offset': ['1.5', '0'],
  'Upload-Metadata': ['', 'filename YQ=='],
  'Github-Public-Key-Identifier': ['', 'bcb53661'],
  'Github-Public-Key-Signature': ['not base64', 'MEQ='],
  'Upload-Checksum': ['crc32 AAAA', 'sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0='],
}

test('every request header has a schema that rejects what the service rejects', () => {
  const found = new Map<string, unknown>()
  for (const route of routeTable) {
    const parameters = operationOf(route)['parameters']
    for (const parameter of Array.isArray(parameters) ? parameters.map(asRecord) : []) {
      if (parameter['in'] === 'header') found.set(String(parameter['name']), parameter['schema'])
    }
  }
  expect([...found.keys()].toSorted()).toEqual(Object.keys(headers).toSorted())
  for (const [name, schema] of found) {
    const [broken, kept] = headers[name] ?? []
    const check = ajv.compile(asRecord(schema))
    expect([name, check(broken), check(kept)]).toEqual([name, false, true])
  }
})

test('the service accepts every example', () => {
  for (const route of routeTable) {
    const parameters = operationOf(route)['parameters']
    for (const parameter of Array.isArray(parameters) ? parameters.map(asRecord) : []) {
      if (!['cursor', 'Content-Digest'].includes(String(parameter['name']))) continue
      // These values are unknown before the answer or the body.
      expect([route.id, parameter['name'], 'example' in parameter]).toEqual([route.id, parameter['name'], false])
    }
  }
  const filters = ['Users', 'Groups'].map((kind) => {
    const parameters = at('paths', `/scim/v2/${kind}`, 'get', 'parameters')
    const found = Array.isArray(parameters) ? parameters.map(asRecord).find(({ name }) => name === 'filter') : undefined
    return String(found?.['example'])
  })
  expect(filters).toEqual([expect.stringMatching(/^userName eq/), expect.stringMatching(/^displayName eq/)])
  expect(JSON.stringify(operationOf(routeOf('sync.scim-patch-group'))['requestBody'])).not.toContain('"active"')
})

test('406 is listed only for operations whose response has a body', () => {
  for (const route of routeTable) {
    const responses = asRecord(operationOf(route)['responses'])
    const hasBody = Object.keys(route.answers).some((status) => {
      return Number(status) < 300 && asRecord(responses[status])['content'] !== undefined
    })
    expect([route.id, '406' in responses]).toEqual([route.id, hasBody])
  }
})

test('a list with CSV documents its columns and its file name', () => {
  const lists = routeTable.filter((route) => columnsOf(route).length > 0)
  expect(lists.length).toBeGreaterThan(10)
  for (const route of lists) {
    const response = asRecord(asRecord(operationOf(route)['responses'])['200'])
    const csv = asRecord(asRecord(response['content'])['text/csv'])
    expect([route.id, csv['x-columns']]).toEqual([route.id, columnsOf(route)])
    expect([route.id, 'Content-Disposition' in asRecord(response['headers'])]).toEqual([route.id, true])
  }
})

test('every schema that a description names is in the document', () => {
  expect(at('components', 'schemas', 'EvidenceDetails')).toMatchObject({ type: 'object' })
})

test.each(['Ada', 'Ada,Grace', 'Ada, \tGrace\t,', ' ,\n,Ada', '!,\t!', ',', ' ', '', 'A\tda', 'Ada,Gr\u0007ace'])(
  'the document and the service agree on whether %j is a filter by owner',
  (owner) => {
    for (const routeId of ['findings.list', 'findings.summarize', 'universe.list-entities']) {
      const route = routeOf(routeId)
      const isAccepted = route.query?.safeParse({ owner }).success
      expect([routeId, publishedOf(route).faultOfParameter('owner', owner) === undefined]).toEqual([
        routeId,
        isAccepted,
      ])
    }
  },
)
