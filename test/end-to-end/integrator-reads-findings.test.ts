import { createHash } from 'node:crypto'
import { findingSchema } from '@postern/contracts'
import { startTestStack, type TestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'

let stack: TestStack
let gateway: string
let tenant: { readonly id: string }

beforeAll(async () => {
  stack = await startTestStack({ gateways: 2 })
  gateway = stack.gateways[0] ?? ''
  tenant = await stack.createTenant()
})

afterAll(async () => {
  await stack.stop()
})

describe('an integrator', () => {
  test('documents findings with one key and reads them in pages with another', async () => {
    const { key: writer } = await stack.createKey(tenant, { scopes: ['write:findings'] })
    const { key: reader } = await stack.createKey(tenant, { scopes: ['read:findings'] })
    const titles = ['Access reviews are late', 'Backups are not tested', 'Payments lack a second approval']
    for (const title of titles) {
      const made = await send(gateway, '/api/v1/findings', {
        key: writer,
        method: 'POST',
        body: { title, condition: 'Seen in the sample.', severity: 'high' },
      })
      expect(made.status, made.text).toBe(201)
      // The key cannot read, so the response has only what it needs to reference the finding.
      expect(Object.keys(z.record(z.string(), z.unknown()).parse(made.json)).toSorted()).toEqual([
        'id',
        'reference',
        'status',
        'version',
      ])
    }

    const read: string[] = []
    let path: string | undefined = '/api/v1/findings?limit=2&status=draft&severity=high&sort=created_at'
    while (path !== undefined) {
      const page = await send(gateway, path, { key: reader })
      expect(page.status, page.text).toBe(200)
      read.push(
        ...z
          .array(findingSchema)
          .parse(page.json)
          .map(({ title }) => title),
      )
      path = /^<([^>]+)>; rel="next"$/.exec(String(page.headers['link'] ?? ''))?.[1]
    }
    expect(read).toEqual(titles)
  })

  test('sends findings in bulk, and reads those of a part of the organization with their related resources', async () => {
    const own = await stack.createTenant()
    const { key } = await stack.createKey(own, { scopes: ['write:findings', 'read:*', 'admin:sync'] })
    const { key: narrow } = await stack.createKey(own, { scopes: ['read:findings'] })
    const entities = [
      { external_id: 'bank', name: 'Bank', type: 'legal_entity' },
      { external_id: 'cards', name: 'Cards', type: 'process', parent_external_id: 'bank' },
    ]
    const pushed = await send(gateway, '/api/v1/sync/entities', { key, method: 'POST', body: entities })
    expect(pushed.status, pushed.text).toBeLessThan(300)
    const cards = z.object({ id: z.string() }).parse((await send(gateway, '/api/v1/entities/ext:cards', { key })).json)
    const items = [
      { external_id: 'T-1', title: 'Shared accounts', condition: 'Seen.', severity: 'high', entity_ids: [cards.id] },
      { external_id: 'T-2', title: 'No backup', condition: 'Seen.', severity: 'low' },
      { external_id: 'T-3', title: 'Nothing else is said' },
    ]
    const made = await send(gateway, '/api/v1/findings/bulk', {
      key,
      method: 'POST',
      body: { mode: 'best_effort', items },
    })
    expect(made.json).toMatchObject([
      { index: 0, status: 201 },
      { index: 1, status: 201 },
      {
        index: 2,
        status: 422,
        problem: { errors: [{ pointer: '/items/2/condition' }, { pointer: '/items/2/severity' }] },
      },
    ])
    const below = await send(gateway, '/api/v1/findings?subtree_of=ext:bank&fields=title,external_id', { key: narrow })
    expect(below.json).toEqual([{ external_id: 'T-1', title: 'Shared accounts' }])
    const target = '/api/v1/findings/ext:T-1?expand=entities,log&fields=title'
    expect((await send(gateway, target, { key: narrow })).json).toMatchObject({
      title: 'Shared accounts',
      entities: [{ id: cards.id, name: 'Cards' }],
      log: [{ kind: 'created' }],
    })
    expect((await send(gateway, target, { key })).json).toMatchObject({ entities: [{ type: 'process' }] })
    const listed = '/api/v1/findings?expand=entities,recommendations&fields=title&sort=created_at'
    expect((await send(gateway, listed, { key: narrow })).json).toEqual([
      { title: 'Shared accounts', entities: [{ id: cards.id, name: 'Cards' }], recommendations: [] },
      { title: 'No backup', entities: [], recommendations: [] },
    ])
  })

  test('sees the number of open findings of each entity if the key can also read findings', async () => {
    const own = await stack.createTenant()
    const { key } = await stack.createKey(own, { scopes: ['write:findings', 'read:*', 'admin:sync'] })
    const { key: narrow } = await stack.createKey(own, { scopes: ['read:universe'] })
    const entities = ['bank', 'cards'].map((external_id) => ({ external_id, name: external_id, type: 'process' }))
    await send(gateway, '/api/v1/sync/entities', { key, method: 'POST', body: entities })
    const { id } = z.object({ id: z.string() }).parse((await send(gateway, '/api/v1/entities/ext:cards', { key })).json)
    const body = {
      title: 'Shared accounts',
      condition: 'Seen.',
      criteria: 'Policy',
      cause: 'Habit',
      consequence: 'Nobody answers for it.',
      severity: 'high',
      owner: { name: 'Ada' },
      entity_ids: [id],
      status: 'open',
    }
    await send(gateway, '/api/v1/findings', { key, method: 'POST', body })
    const target = '/api/v1/entities?expand=finding_counts&fields=external_id'
    const none = { critical: 0, high: 0, medium: 0, low: 0 }
    const [first, second] = [
      { external_id: 'bank', open_findings: none, archived_with_open_findings: false },
      { external_id: 'cards', open_findings: { ...none, high: 1 }, archived_with_open_findings: false },
    ]
    expect((await send(gateway, target, { key })).json).toEqual([first, second])
    // Archiving the entity is still allowed.
    const archived = entities.map((entity) => ({ ...entity, status: 'archived' }))
    const pushed = await send(gateway, '/api/v1/sync/entities', { key, method: 'POST', body: archived })
    expect(pushed.status).toBe(200)
    expect((await send(gateway, target, { key })).json).toEqual([
      first,
      { ...second, archived_with_open_findings: true },
    ])
    expect((await send(gateway, target, { key: narrow })).json).toEqual([
      { external_id: 'bank' },
      { external_id: 'cards' },
    ])
  })

  test('reads the tenant, scopes and expiry of a key from whoami', async () => {
    const { key, id, masked, expires_at } = await stack.createKey(tenant, { scopes: ['read:*'], label: 'Nightly load' })
    const answer = await send(gateway, '/api/v1/whoami', { key })
    expect(answer.status).toBe(200)
    expect(answer.json).toMatchObject({
      kind: 'api_key',
      id,
      masked,
      expires_at,
      label: 'Nightly load',
      tenant: { id: tenant.id },
      granted: ['read:*'],
      scopes: ['read:universe', 'read:findings'],
    })
    expect(answer.headers['ratelimit']).toMatch(/^"caller";r=\d+;t=\d+$/)
  })

  test('downloads a finding again only if it has changed', async () => {
    const { key } = await stack.createKey(tenant, { scopes: ['*'] })
    const made = await send(gateway, '/api/v1/findings', {
      key,
      method: 'POST',
      body: { title: 'Cache me', condition: 'As seen.', severity: 'low' },
    })
    const { id } = findingSchema.parse(made.json)
    const first = await send(gateway, `/api/v1/findings/${id}`, { key })
    expect(first.status).toBe(200)
    const etag = String(first.headers['etag'])
    const second = await send(gateway, `/api/v1/findings/${id}`, { key, headers: { 'if-none-match': etag } })
    expect([second.status, second.text]).toEqual([304, ''])
  })

  test('gets the same response from every gateway', async () => {
    const { key } = await stack.createKey(tenant, { scopes: ['read:findings'] })
    const answers = await Promise.all(
      stack.gateways.map(async (origin) => await send(origin, '/api/v1/findings', { key })),
    )
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(answers[0]?.text).toBe(answers[1]?.text)
  })

  test('can use HEAD instead of GET and gets no body', async () => {
    const { key } = await stack.createKey(tenant, { scopes: ['read:findings'] })
    const answer = await send(gateway, '/api/v1/findings', { key, method: 'HEAD' })
    expect([answer.status, answer.text]).toEqual([200, ''])
  })
})

describe('each of the five areas, through the gateway with its scope', () => {
  test('sync pushes entities, and the universe shows them', async () => {
    const { key: sync } = await stack.createKey(tenant, { scopes: ['admin:sync'] })
    const { key: reader } = await stack.createKey(tenant, { scopes: ['read:universe'] })
    const push = await send(gateway, '/api/v1/sync/entities', {
      key: sync,
      method: 'POST',
      body: [
        { external_id: 'pay', parent_external_id: 'ops', name: 'Payments', type: 'process' },
        { external_id: 'ops', name: 'Operations', type: 'business_unit' },
      ],
    })
    expect(push.status, push.text).toBe(200)
    expect(push.json).toMatchObject({
      status: 'succeeded',
      counts: { fetched: 2, created: 2, updated: 0, unchanged: 0 },
    })
    const entities = await send(gateway, '/api/v1/entities?external_id=pay', { key: reader })
    expect(entities.json).toMatchObject([{ name: 'Payments', external_id: 'pay' }])
    const connectors = await send(gateway, '/api/v1/connectors', { key: sync })
    expect(connectors.json).toMatchObject([{ type: 'inline_json', dataset: 'auditable_entities' }])
  })

  test('an evidence upload returns a receipt with its digest', async () => {
    const { key } = await stack.createKey(tenant, { scopes: ['write:evidence'] })
    const answer = await send(gateway, '/api/v1/evidence?file_name=minutes.txt', {
      key,
      method: 'POST',
      headers: { 'content-type': 'text/plain' },
      body: Buffer.from('The committee met.'),
    })
    expect(answer.status, answer.text).toBe(201)
    expect(answer.json).toMatchObject({
      file_name: 'minutes.txt',
      size_bytes: 18,
      sha256: createHash('sha256').update('The committee met.').digest('hex'),
    })
  })
})
