import { findingSchema, entitySchema } from '@postern/contracts'
import { createTestCaller, operator, randomRing, startTestStack, type TestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'

interface Side {
  readonly tenant: { readonly id: string }
  readonly key: string
  readonly keyId: string
  readonly findingId: string
  readonly reference: string
  readonly entityId: string
}

let stack: TestStack
let gateway: string
let ours: Side
let theirs: Side

beforeAll(async () => {
  stack = await startTestStack()
  gateway = stack.gateways[0] ?? ''
  ours = await fill('ours')
  theirs = await fill('theirs')
})

afterAll(async () => {
  await stack.stop()
})

/** The same data in both tenants, with equal names, references and external ids. */
async function fill(secret: string): Promise<Side> {
  const tenant = await stack.createTenant()
  const { key, id: keyId } = await stack.createKey(tenant, { scopes: ['*'] })
  const pushed = await send(gateway, '/api/v1/sync/entities', {
    key,
    method: 'POST',
    body: [{ external_id: 'twin', name: 'Treasury', type: 'process', description: `belongs to ${secret}` }],
  })
  expect(pushed.status, pushed.text).toBe(200)
  const entities = await send(gateway, '/api/v1/entities', { key })
  const made = await send(gateway, '/api/v1/findings', {
    key,
    method: 'POST',
    body: { external_id: 'twin', title: 'Twin', condition: `belongs to ${secret}`, severity: 'high' },
  })
  expect(made.status, made.text).toBe(201)
  const { id: findingId, reference } = findingSchema.parse(made.json)
  const entityId = z.array(entitySchema).parse(entities.json)[0]?.id ?? ''
  return { tenant, key, keyId, findingId, reference, entityId }
}

/** Ids of the request differ from answer to answer; everything else must not. */
function withoutIds(text: string): string {
  return text.replaceAll(/"instance":"[^"]*"/g, '"instance":""')
}

function admin(tenantId: string) {
  return { ...operator, tenantId, kind: 'user', id: 'p', roles: ['admin'] } as const
}

describe("another tenant's resource", () => {
  const random = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be0ff'

  test.each([
    ['finding', 'findings', (side: Side) => side.findingId],
    ['entity', 'entities', (side: Side) => side.entityId],
  ])('a %s by its id returns the same 404 as a missing one', async (_name, path, idOf) => {
    const foreign = await send(gateway, `/api/v1/${path}/${idOf(theirs)}`, { key: ours.key })
    const missing = await send(gateway, `/api/v1/${path}/${random}`, { key: ours.key })
    expect(foreign.status).toBe(404)
    expect(withoutIds(foreign.text)).toBe(withoutIds(missing.text))
    const varying = new Set(['date', 'x-request-id', 'ratelimit'])
    const headersOf = (answer: typeof foreign) => Object.entries(answer.headers).filter(([name]) => !varying.has(name))
    expect(headersOf(foreign)).toEqual(headersOf(missing))
    const control = await send(gateway, `/api/v1/${path}/${idOf(theirs)}`, { key: theirs.key })
    expect(control.status).toBe(200)
  })

  test('is not in lists, counts or filters, and an equal reference or external id finds our own resource', async () => {
    for (const path of [
      '/api/v1/findings?count=true',
      '/api/v1/findings?external_id=twin',
      `/api/v1/findings/ref:${ours.reference}`,
      '/api/v1/findings/ext:twin',
      '/api/v1/entities?count=true',
      '/api/v1/entities/ext:twin',
    ]) {
      const answer = await send(gateway, path, { key: ours.key })
      expect(answer.status, path).toBe(200)
      expect(answer.text, path).toContain('belongs to ours')
      expect(answer.text, path).not.toContain('belongs to theirs')
      if (answer.headers['x-total-count'] !== undefined) expect(answer.headers['x-total-count']).toBe('1')
    }
    expect(ours.reference).toBe(theirs.reference)
  })

  test('cannot be referenced: its id fails like an unknown one', async () => {
    const attempt = async (repeatOf: string) =>
      await send(gateway, '/api/v1/findings', {
        key: ours.key,
        method: 'POST',
        body: { title: 'Again', condition: 'x', severity: 'low', repeat_of_id: repeatOf },
      })
    const foreign = await attempt(theirs.findingId)
    const missing = await attempt(random)
    expect(foreign.status).toBe(422)
    expect(withoutIds(foreign.text)).toBe(withoutIds(missing.text))
    // Our own is looked at: it is refused for what it is, an open one.
    expect((await attempt(ours.findingId)).text).toContain('not_closed')
  })

  test('is not reachable with one of their cursors', async () => {
    for (const side of [ours, theirs]) {
      await send(gateway, '/api/v1/findings', {
        key: side.key,
        method: 'POST',
        body: { title: 'Second', condition: 'x', severity: 'low' },
      })
    }
    const page = await send(gateway, '/api/v1/findings?limit=1', { key: theirs.key })
    const target = /<([^>]+)>/.exec(String(page.headers['link']))?.[1] ?? ''
    expect((await send(gateway, target, { key: ours.key })).status).toBe(400)
    expect((await send(gateway, target, { key: theirs.key })).status).toBe(200)
  })

  test('keys of another tenant cannot be read, revoked, rotated or listed', async () => {
    const keys = stack.caller('keys')
    for (const [method, target] of [
      ['GET', `/api/v1/api-keys/${theirs.keyId}`],
      ['GET', `/api/v1/api-keys/${theirs.keyId}/events`],
      ['POST', `/api/v1/api-keys/${theirs.keyId}/revoke`],
      ['POST', `/api/v1/api-keys/${theirs.keyId}/rotate`],
    ] as const) {
      expect((await keys.call(admin(ours.tenant.id), method, target)).status, target).toBe(404)
    }
    const list = await keys.call(admin(ours.tenant.id), 'GET', '/api/v1/api-keys')
    expect(list.text).toContain(ours.keyId)
    expect(list.text).not.toContain(theirs.keyId)
    const control = await keys.call(admin(theirs.tenant.id), 'GET', `/api/v1/api-keys/${theirs.keyId}`)
    expect(control.status).toBe(200)
    expect((await send(gateway, '/api/v1/whoami', { key: theirs.key })).status).toBe(200)
  })
})

describe('a service that is reached without the gateway', () => {
  test.each(['keys', 'findings', 'universe', 'evidence', 'sync'] as const)(
    '%s refuses unsigned requests',
    async (name) => {
      const paths = {
        keys: '/api/v1/api-keys',
        findings: '/api/v1/findings',
        universe: '/api/v1/entities',
        evidence: '/.well-known/jwks.json',
        sync: '/api/v1/connectors',
      }
      const answer = await send(stack.serviceUrl(name), paths[name], { key: ours.key })
      expect([answer.status, answer.code]).toEqual([401, 'unsigned_request'])
    },
  )

  test("rejects a request that is signed with another service's secret", async () => {
    const principal = { tenantId: ours.tenant.id, scopes: ['read:findings', 'read:universe'] }
    const forger = createTestCaller({
      baseUrl: stack.serviceUrl('findings'),
      keyName: 'findings',
      ring: stack.ring('POSTERN_SIGNING_UNIVERSE'),
      assertionKeys: stack.ring('POSTERN_ASSERTION_KEYS'),
    })
    expect((await forger.call(principal, 'GET', '/api/v1/findings')).status).toBe(401)
    expect((await stack.caller('findings').call(principal, 'GET', '/api/v1/findings')).status).toBe(200)
  })

  test('gets nothing from PostgreSQL for a valid signature with a forged assertion', async () => {
    const forger = createTestCaller({
      baseUrl: stack.serviceUrl('findings'),
      keyName: 'findings',
      ring: stack.ring('POSTERN_SIGNING_FINDINGS'),
      assertionKeys: randomRing(),
    })
    const answer = await forger.call(
      { tenantId: theirs.tenant.id, scopes: ['read:findings'] },
      'GET',
      '/api/v1/findings',
    )
    expect(answer.status).toBeGreaterThanOrEqual(400)
    expect(answer.text).not.toContain('belongs to')
  })
})
