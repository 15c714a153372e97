import { randomUUID } from 'node:crypto'
import { changeSchema, openApi } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'

let stack: TestStack
let gateway: string
let other: string

beforeAll(async () => {
  stack = await startTestStack({ gateways: 2 })
  gateway = stack.gateways[0] ?? ''
  other = stack.gateways[1] ?? ''
})

afterAll(async () => {
  await stack.stop()
})

const finding = { title: 'Backups are not tested', condition: 'As seen.', severity: 'high' }

describe('an Idempotency-Key', () => {
  test('lets a finding be documented once, though it is sent twice through two gateways', async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['read:findings', 'write:findings'] })
    const options = { key, method: 'POST', body: finding, headers: { 'idempotency-key': randomUUID() } } as const
    const first = await send(gateway, '/api/v1/findings', options)
    const second = await send(other, '/api/v1/findings', options)
    expect([first.status, first.headers['idempotent-replayed']]).toEqual([201, undefined])
    expect([second.status, second.headers['idempotent-replayed'], second.text]).toEqual([201, 'true', first.text])
    expect([second.headers['etag'], second.headers['location']]).toEqual([
      first.headers['etag'],
      first.headers['location'],
    ])
    expect(z.array(z.unknown()).parse((await send(gateway, '/api/v1/findings', { key })).json)).toHaveLength(1)
  })

  test('that comes with another body is refused', async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['write:findings'] })
    const headers = { 'idempotency-key': randomUUID() }
    await send(gateway, '/api/v1/findings', { key, method: 'POST', body: finding, headers })
    const body = { ...finding, title: 'Another' }
    const answer = await send(gateway, '/api/v1/findings', { key, method: 'POST', body, headers })
    expect([answer.status, answer.code]).toEqual([422, 'idempotency_key_reused'])
  })
})

describe('the change feed', () => {
  test('is one for what two services have changed, and is read with either scope', async () => {
    const tenant = await stack.createTenant()
    const { key: writer } = await stack.createKey(tenant, { scopes: ['write:findings', 'admin:sync'] })
    const entity = { external_id: 'pay', name: 'Payments', type: 'process' }
    const person = { external_id: 'ada', name: 'Ada Lund', email: 'ada.lund@harbourline.example' }
    const procedure = { external_id: 'rec', title: 'Recertification', status: 'not_started' }
    const hierarchy = { name: 'Legal', kind: 'legal_entity', mode: 'full', nodes: [{ node_key: 'bank', name: 'Bank' }] }
    for (const [dataset, body] of [
      ['entities', [entity]],
      ['people', [person]],
      ['test-procedures', [procedure]],
      ['org-structures/legal', hierarchy],
    ] as const) {
      const pushed = await send(gateway, `/api/v1/sync/${dataset}`, { key: writer, method: 'POST', body })
      expect(pushed.status, pushed.text).toBe(200)
    }
    await send(gateway, '/api/v1/findings', { key: writer, method: 'POST', body: finding })
    const kindsFor = async (...scopes: ('read:*' | 'read:findings' | 'read:universe')[]) => {
      const { key } = await stack.createKey(tenant, { scopes })
      const answer = await send(gateway, '/api/v1/changes', { key })
      expect(answer.headers['link']).toMatch(/^<\/api\/v1\/changes\?since=[^>]+>; rel="next"$/)
      return z
        .array(changeSchema)
        .parse(answer.json)
        .map(({ kind, change }) => `${kind} ${change}`)
    }
    const [all, findings, universe] = [
      await kindsFor('read:*'),
      await kindsFor('read:findings'),
      await kindsFor('read:universe'),
    ]
    expect(new Set(universe.filter((change) => change.endsWith(' created')))).toEqual(
      new Set(['entity', 'person', 'test_procedure', 'hierarchy', 'hierarchy_node'].map((kind) => `${kind} created`)),
    )
    expect(findings).toContain('finding created')
    expect(all).toEqual([...universe, ...findings])
    const { key } = await stack.createKey(tenant, { scopes: ['write:*', 'admin:*'] })
    expect(await send(gateway, '/api/v1/changes', { key })).toMatchObject({ status: 403, code: 'insufficient_scope' })
  })
})

describe('the reference', () => {
  test('is at /docs for anyone, may load nothing, and is not sent twice', async () => {
    const answer = await send(gateway, '/docs')
    expect([answer.status, answer.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
    expect(answer.headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-/)
    expect(answer.text).toContain('/api/v1/findings/{id}')
    const headers = { 'if-none-match': String(answer.headers['etag']) }
    expect(await send(gateway, '/docs', { headers })).toMatchObject({ status: 304, text: '' })
  })

  test('and the document are of the API that answers', async () => {
    const answer = await send(gateway, '/api/v1/openapi.json')
    expect(answer.json).toEqual(JSON.parse(JSON.stringify(openApi('/'))))
  })
})
