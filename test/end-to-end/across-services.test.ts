import { createHash, randomUUID } from 'node:crypto'
import { changeSchema, testProcedureSchema } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'
import { pushUniverse } from '../support/push-universe.ts'

let issuer: RunningIssuer
let stack: TestStack
let gateway: string
let other: string

beforeAll(async () => {
  issuer = await startIssuer()
  stack = await startTestStack({
    gateways: 2,
    env: { POSTERN_OIDC_ISSUER: issuer.url, POSTERN_OIDC_AUDIENCE: 'postern' },
  })
  gateway = stack.gateways[0] ?? ''
  other = stack.gateways[1] ?? ''
})

afterAll(async () => {
  await stack.stop()
  await issuer.stop()
})

const finding = { title: 'Backups are not tested', condition: 'As seen.', severity: 'high' }

/** Returns the error of a request below /scim/v2. */
const scimRefusal = async (path: string, authorization?: string, method: 'GET' | 'PUT' | 'POST' = 'GET') => {
  const headers = authorization === undefined ? {} : { authorization }
  const answer = await send(gateway, path, { method, headers })
  return [answer.status, answer.headers['www-authenticate'], answer.json]
}

/** A SCIM error. */
const scimError = (status: number) => expect.objectContaining({ status: String(status), detail: expect.anything() })

function digest(algorithm: 'sha256' | 'sha512', body: string): string {
  return `${algorithm.replace('sha', 'sha-')}=:${createHash(algorithm).update(body).digest('base64')}:`
}

test('an Idempotency-Key creates a finding once, even if it is sent twice through two gateways', async () => {
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

test('an Idempotency-Key is rejected with a different body', async () => {
  const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['write:findings'] })
  const headers = { 'idempotency-key': randomUUID() }
  await send(gateway, '/api/v1/findings', { key, method: 'POST', body: finding, headers })
  const body = { ...finding, title: 'Another' }
  const answer = await send(gateway, '/api/v1/findings', { key, method: 'POST', body, headers })
  expect([answer.status, answer.code]).toEqual([422, 'idempotency_key_reused'])
})

const jsonType = 'application/json'

test.each([
  ['JSON', '/api/v1/findings', jsonType, JSON.stringify(finding), 201],
  ['a bulk request', '/api/v1/findings/bulk', jsonType, JSON.stringify({ items: [finding] }), 200],
  ['NDJSON', '/api/v1/sync/entities', 'application/x-ndjson', '{"external_id":"a","name":"A","type":"process"}\n', 200],
  ['a SCIM user', '/scim/v2/Users', 'application/scim+json', '{"userName":"a@b.example"}', 201],
])(
  'a Content-Digest is checked against the bytes of %s before they are processed',
  async (_what, path, type, body, status) => {
    const { key } = await stack.createKey(await stack.createTenant(), {
      scopes: ['read:findings', 'write:findings', 'admin:sync'],
    })
    const isScim = path.startsWith('/scim')
    const sent = async (contentDigest: string, text = body) =>
      await send(gateway, path, {
        key,
        method: 'POST',
        body: text,
        headers: { 'content-type': type, 'content-digest': contentDigest },
      })
    for (const header of [
      digest('sha256', `${body} `),
      digest('sha512', `${body} `),
      `${digest('sha256', body)}, ${digest('sha512', `${body} `)}`,
    ]) {
      const refused = await sent(header)
      expect([refused.status, refused.text]).toEqual([
        isScim ? 400 : 422,
        expect.stringContaining(isScim ? 'differs from the announced one' : '"code":"digest_mismatch"'),
      ])
    }
    for (const header of ['garbage', 'md5=:AAAA:', 'sha-256=:AAAA:']) {
      const refused = await sent(header)
      expect([header, refused.status, refused.text]).toEqual([header, 400, expect.stringContaining('Content-Digest')])
    }
    const taken = await sent(`md5=:AAAA:, ${digest('sha256', body)}, ${digest('sha512', body)}`)
    expect(taken.status, taken.text).toBe(status)
  },
)

test('a Content-Digest detects an optional body that was lost on the way', async () => {
  const tenant = await stack.createTenant()
  const { id } = await stack.createKey(tenant, { scopes: ['write:findings'] })
  const token = await issuer.issue({ tenantId: tenant.id, roles: ['admin'] })
  const revoke = async (contentDigest: string) =>
    await send(gateway, `/api/v1/api-keys/${id}/revoke`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-digest': contentDigest },
    })
  expect(await revoke(digest('sha256', '{"reason":"It leaked."}'))).toMatchObject({
    status: 422,
    code: 'digest_mismatch',
  })
  expect(await revoke(digest('sha256', ''))).toMatchObject({ status: 200 })
})

test('an identity provider can send its key as a bearer token only below /scim/v2', async () => {
  const tenant = await stack.createTenant()
  const { key } = await stack.createKey(tenant, { scopes: ['admin:sync', 'read:universe'] })
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/scim+json' }
  const userName = 'ada.lund@harbourline.example'
  const body = JSON.stringify({ userName, emails: [{ value: userName }], active: true })
  const made = await send(gateway, '/scim/v2/Users', { method: 'POST', headers, body })
  expect([made.status, made.headers['ratelimit']]).toEqual([201, expect.anything()])
  const people = z.array(z.unknown()).parse((await send(other, '/api/v1/people', { key })).json)
  expect(people).toMatchObject([{ external_id: userName, email: userName, active: true }])
  const elsewhere = await send(gateway, '/api/v1/people', { headers: { authorization: `Bearer ${key}` } })
  expect([elsewhere.status, elsewhere.code]).toEqual([401, 'invalid_key'])
  for (const path of ['/scim/v20/Users', '/api/v1/connectors']) {
    expect((await send(gateway, path, { headers: { authorization: `Bearer ${key}` } })).status).toBe(401)
  }
  const stranger = await stack.createKey(await stack.createTenant(), { scopes: ['admin:sync'] })
  const theirs = await send(gateway, '/scim/v2/Users', { headers: { authorization: `Bearer ${stranger.key}` } })
  expect(theirs.json).toMatchObject({ totalResults: 0 })
})

test('an identity provider gets SCIM errors from the gateway', async () => {
  const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['read:findings'] })
  expect(await scimRefusal('/scim/v2/Users')).toEqual([401, 'Bearer realm="postern"', scimError(401)])
  const mistyped = 'Bearer realm="postern", error="invalid_key"'
  expect(await scimRefusal('/scim/v2/Users', `Bearer ${key}x`)).toEqual([401, mistyped, scimError(401)])
  const denied = 'Bearer realm="postern", error="insufficient_scope", scope="admin:sync"'
  expect(await scimRefusal('/scim/v2/Users', `Bearer ${key}`)).toEqual([403, denied, scimError(403)])
  expect(await scimRefusal('/scim/v2/Nothing', `Bearer ${key}`)).toEqual([404, undefined, scimError(404)])
  expect(await scimRefusal('/scim/v2/Users', `Bearer ${key}`, 'PUT')).toEqual([405, undefined, scimError(405)])
})

test('the change feed contains changes of two services, and can be read with either scope', async () => {
  const tenant = await stack.createTenant()
  const { key: writer } = await stack.createKey(tenant, { scopes: ['write:findings', 'admin:sync'] })
  await pushUniverse(gateway, writer)
  await send(gateway, '/api/v1/findings', { key: writer, method: 'POST', body: finding })
  const kindsFor = async (...scopes: ('read:*' | 'read:findings' | 'read:universe')[]) => {
    const { key } = await stack.createKey(tenant, { scopes })
    const answer = await send(gateway, '/api/v1/changes', { key })
    expect(answer.headers['postern-next-since']).toMatch(/^[\w-]+$/)
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

test('a test procedure counts the evidence of its tenant as soon as it is uploaded', async () => {
  const [one, two] = await Promise.all(
    ['one', 'two'].map(async () => {
      const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['*'] })
      await pushUniverse(gateway, key)
      return key
    }),
  )
  const target = '/api/v1/test-procedures/ext:rec'
  const read = async (key: string | undefined) => {
    const { json, headers } = await send(gateway, target, key === undefined ? {} : { key })
    return { count: testProcedureSchema.parse(json).evidence_count, etag: headers['etag'] }
  }
  const before = await read(one)
  for (const name of ['a', 'b']) {
    const upload = `/api/v1/evidence?file_name=${name}.csv&test_procedure=ext:rec`
    const headers = { 'content-type': 'text/csv' }
    const { status, text } = await send(gateway, upload, { key: one ?? '', method: 'POST', body: name, headers })
    expect(status, text).toBe(201)
  }
  const after = await read(one)
  expect([before.count, after.count, (await read(two)).count]).toEqual([0, 2, 0])
  expect(after.etag).not.toBe(before.etag)
  expect((await send(gateway, '/api/v1/test-procedures?q=rec', { key: one ?? '' })).json).toMatchObject([
    { evidence_count: 2 },
  ])
})
