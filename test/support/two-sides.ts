import type { TestStack } from '@postern/local-stack/testing'
import { expect, vi } from 'vitest'
import { z } from 'zod'
import { type Answer, type RequestOptions, send } from './http.ts'
import { routeOf } from './id-places.ts'
import type { RunningIssuer } from './issuer.ts'

/** The resources of a tenant, named like their paths. */
export const kinds = [
  'findings',
  'recommendations',
  'action-plans',
  'entities',
  'hierarchies',
  'hierarchy-nodes',
  'test-procedures',
  'people',
  'evidence',
  'evidence-files',
  'uploads',
  'connectors',
  'sync-runs',
  'api-keys',
  'webhooks',
  'deliveries',
  'Users',
  'Groups',
] as const
export type Kind = (typeof kinds)[number]

/** A tenant with one of each resource. Only its ids differ from another one that was filled in the same way. */
export interface Side {
  readonly tenantId: string
  readonly key: string
  readonly ids: Readonly<Record<Kind, string>>
  /** The first entity tag of its finding, which has changed since. */
  readonly etag: string
  /** Sends as somebody of the tenant: with its key, or as its administrator where no key may. */
  send(request: Request): Promise<Answer>
}

export interface Request extends Omit<RequestOptions, 'key'> {
  readonly path: string
}

const id = z.object({ id: z.string() })
const first = z.array(id).min(1)
const tus = { 'tus-resumable': '1.0.0' }

export const finding = { title: 'Twin', condition: 'Seen.', severity: 'high', external_id: 'twin' }
export const opened = { criteria: 'c', cause: 'c', consequence: 'c', owner: { name: 'Ada' }, status: 'open' }
export const planned = { title: 'Plan', owner: { name: 'Bo' }, due_date: '2030-01-01' }
export const begin = {
  ...tus,
  'upload-length': '4',
  'upload-metadata': `filename ${btoa('a.txt')},filetype ${btoa('text/plain')}`,
}

/** Fills a new tenant, with two of most things, so that every list has a page behind the first. */
export async function fillSide(stack: TestStack, gateway: string, issuer: RunningIssuer): Promise<Side> {
  const tenant = await stack.createTenant()
  const { key } = await stack.createKey(tenant, { scopes: ['*'] })
  // Not the one that is used: it is revoked.
  const { id: keyId } = await stack.createKey(tenant, { scopes: ['read:findings'] })
  const person = await issuer.issue({ tenantId: tenant.id, roles: ['admin'], expiresInSeconds: 3600 })
  const asPerson = { authorization: `Bearer ${person}` }
  const ofKey = `/api/v1/api-keys/${keyId}`
  const { headers: read } = await send(gateway, ofKey, { headers: asPerson })
  const renaming = { ...asPerson, 'if-match': String(read['etag']) }
  const renamed = await send(gateway, ofKey, { method: 'PATCH', headers: renaming, body: { label: 'Twin' } })
  expect(renamed.status, renamed.text).toBe(200)
  for (const max_key_days of [900, 800]) {
    const headers = { ...asPerson, 'if-match': '*' }
    const set = await send(gateway, '/api/v1/key-policy', { method: 'PATCH', headers, body: { max_key_days } })
    expect(set.status, set.text).toBe(200)
  }
  const ask = async (method: 'GET' | 'POST' | 'PATCH', path: string, options: Omit<RequestOptions, 'method'> = {}) => {
    const answer = await send(gateway, path.startsWith('/scim') ? path : `/api/v1${path}`, { key, method, ...options })
    expect(answer.status, `${path} ${answer.text}`).toBeLessThan(300)
    return answer
  }
  const firstOf = async (path: string) => first.parse((await ask('GET', path)).json)[0]?.id ?? ''
  const made = async (path: string, body: unknown) => id.parse((await ask('POST', path, { body })).json).id

  await ask('POST', '/sync/people', {
    body: [
      { external_id: 'twin', name: 'Ada', email: 'ada@x.example' },
      { external_id: 'second', name: 'Zoe' },
    ],
  })
  await ask('POST', '/sync/entities', {
    body: [
      { external_id: 'twin', name: 'Treasury', type: 'process', owner: { email: 'ada@x.example' } },
      { external_id: 'child', name: 'FX', type: 'process', parent_external_id: 'twin' },
      { external_id: 'other child', name: 'Rates', type: 'process', parent_external_id: 'twin' },
    ],
  })
  await ask('POST', '/sync/test-procedures', {
    body: [
      { external_id: 'twin', title: 'Twin', entities: ['twin'] },
      { external_id: 'second', title: 'Second' },
    ],
  })
  for (const name of ['legal', 'other']) {
    const nodes = [
      { node_key: 'twin', name: 'Bank', entities: ['twin'] },
      { node_key: 'child', parent_key: 'twin', name: 'Branch' },
    ]
    await ask('POST', `/sync/org-structures/${name}`, { body: { name, kind: 'legal_entity', mode: 'full', nodes } })
  }
  const entity = await firstOf('/entities?q=Treasury')
  const personId = await firstOf('/people')
  const documented = { ...finding, ...opened, owner: { person_id: personId }, entity_ids: [entity] }
  const twin = await ask('POST', '/findings', { body: documented })
  const { id: findingId } = id.parse(twin.json)
  const etag = String(twin.headers['etag'])
  await ask('PATCH', `/findings/${findingId}`, { body: { title: 'Twin again' }, headers: { 'if-match': etag } })
  await ask('POST', '/findings', { body: { ...finding, external_id: 'second' } })
  const text = { 'content-type': 'text/plain' }
  const files: string[] = []
  for (const body of ['text', 'more'])
    files.push(id.parse((await ask('POST', `/evidence?file_name=a.txt`, { body, headers: text })).json).id)
  const upload = await ask('POST', '/evidence/uploads', { headers: begin })
  const recommendation = await made(`/findings/${findingId}/recommendations`, { text: 'Do it.' })
  await made(`/findings/${findingId}/recommendations`, { text: 'Do more.' })
  const plan = await made(`/findings/${findingId}/action-plans`, planned)
  await made(`/findings/${findingId}/action-plans`, planned)
  const connector = await made('/connectors', { key: 'twin', name: 'Twin', type: 'csv', dataset: 'people' })
  await made('/connectors', { key: 'second', name: 'Second', type: 'csv', dataset: 'people' })
  const run = async (rows: readonly string[]): Promise<string> => {
    const body = ['external_id,name', ...rows, ''].join('\n')
    const begun = await ask('POST', `/connectors/${connector}/runs`, { body, headers: { 'content-type': 'text/csv' } })
    const { id: runId } = id.parse(begun.json)
    await vi.waitFor(
      async () =>
        expect((await ask('GET', `/sync-runs/${runId}`)).json).toMatchObject({ finished_at: expect.any(String) }),
      { timeout: 60_000, interval: 100 },
    )
    return runId
  }
  const rows = Array.from({ length: 40 }, (_none, at) => `P${at},Person`)
  await run(rows)
  const runId = await run([...rows.slice(2), 'Q1,', 'Q2,', 'R1,New', 'R2,New'])
  const user = await made('/scim/v2/Users', { userName: 'u1', displayName: 'U', externalId: 'u1' })
  await made('/scim/v2/Users', { userName: 'u2', displayName: 'U', externalId: 'u2' })
  const group = await made('/scim/v2/Groups', { displayName: 'g1', members: [{ value: user }] })
  await made('/scim/v2/Groups', { displayName: 'g2' })
  const asAdmin = async (path: string, body: unknown) => {
    const answer = await send(gateway, `/api/v1${path}`, { method: 'POST', headers: asPerson, body })
    expect(answer.status, answer.text).toBeLessThan(300)
    return id.parse(answer.json).id
  }
  const endpoint = { url: 'https://127.0.0.1:9/', events: ['key.leaked'] }
  const webhook = await asAdmin('/webhooks', endpoint)
  const second = await asAdmin('/webhooks', endpoint)
  await asAdmin(`/webhooks/${webhook}/deliveries`, {})
  const delivery = await asAdmin(`/webhooks/${webhook}/deliveries`, {})
  // An enabled endpoint would place changes of the feed between two requests.
  for (const each of [webhook, second]) {
    const headers = { ...asPerson, 'if-match': '*' }
    const body = { state: 'disabled' }
    const disabled = await send(gateway, `/api/v1/webhooks/${each}`, { method: 'PATCH', headers, body })
    expect(disabled.status, disabled.text).toBe(200)
  }
  return {
    tenantId: tenant.id,
    key,
    etag,
    send: async ({ path, ...options }) => {
      const isForPeople = routeOf(options.method ?? 'GET', path).access.kind === 'person'
      if (!isForPeople) return await send(gateway, path, { key, ...options })
      return await send(gateway, path, {
        ...options,
        headers: { ...options.headers, authorization: `Bearer ${person}` },
      })
    },
    ids: {
      findings: findingId,
      recommendations: recommendation,
      'action-plans': plan,
      entities: entity,
      hierarchies: await firstOf('/hierarchies'),
      'hierarchy-nodes': await firstOf('/hierarchies/legal/nodes'),
      'test-procedures': await firstOf('/test-procedures'),
      people: personId,
      evidence: files[0] ?? '',
      'evidence-files': files[1] ?? '',
      uploads: String(upload.headers['location']).split('/').at(-1) ?? '',
      connectors: connector,
      'sync-runs': runId,
      'api-keys': keyId,
      webhooks: webhook,
      deliveries: delivery,
      Users: user,
      Groups: group,
    },
  }
}
