import { apiKeyEventSchema, apiKeySchema, revokedApiKeySchema } from '@postern/contracts'
import { operator, startTestStack, type TestStack } from '@postern/local-stack/testing'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'

let stack: TestStack
let issuer: RunningIssuer
let gateway: string
let other: string
let tenant: { readonly id: string }

beforeAll(async () => {
  issuer = await startIssuer()
  stack = await startTestStack({
    gateways: 2,
    env: { POSTERN_OIDC_ISSUER: issuer.url, POSTERN_OIDC_AUDIENCE: 'postern' },
  })
  gateway = stack.gateways[0] ?? ''
  other = stack.gateways[1] ?? ''
  tenant = await stack.createTenant()
})

afterAll(async () => {
  await stack.stop()
  await issuer.stop()
})

const keySchema = z.looseObject({ id: z.string(), key: z.string().optional(), masked: z.string(), state: z.string() })

/** Speaks to the gateway as a signed-in person. */
async function asPerson(roles: readonly string[], path: string, options: Parameters<typeof send>[2] = {}) {
  const token = await issuer.issue({ tenantId: tenant.id, roles })
  return await send(gateway, path, { ...options, headers: { ...options.headers, authorization: `Bearer ${token}` } })
}

const newKey = { label: 'Nightly export', expires_in: '90d', scopes: ['read:findings'] }

describe('only administrators manage keys', () => {
  test('an API key with every scope is rejected', async () => {
    const { key } = await stack.createKey(tenant, { scopes: ['*'] })
    const answer = await send(gateway, '/api/v1/api-keys', { key, method: 'POST', body: newKey })
    expect([answer.status, answer.code]).toEqual([403, 'role_required'])
  })

  test.each([[['viewer']], [['auditor']], [[]]])('a person with the roles %j is rejected', async (roles) => {
    const answer = await asPerson(roles, '/api/v1/api-keys')
    expect([answer.status, answer.code]).toEqual([403, 'role_required'])
  })

  test('a token for another audience, from another issuer, expired, unsigned or altered is rejected', async () => {
    const claims = { tenantId: tenant.id, roles: ['admin'] }
    const good = await issuer.issue(claims)
    const tokens = [
      await issuer.issue({ ...claims, audience: 'something-else' }),
      await issuer.issue({ ...claims, issuer: 'https://elsewhere.example' }),
      await issuer.issue({ ...claims, expiresInSeconds: -60 }),
      await issuer.issueUnsigned(claims),
      `${good.slice(0, -4)}AAAA`,
    ]
    for (const token of tokens) {
      const answer = await send(gateway, '/api/v1/api-keys', { headers: { authorization: `Bearer ${token}` } })
      expect([answer.status, answer.code], token).toEqual([401, 'invalid_token'])
    }
    const control = await send(gateway, '/api/v1/api-keys', { headers: { authorization: `Bearer ${good}` } })
    expect(control.status).toBe(200)
  })

  test('a token that names the tenant by its slug is accepted, and an unknown slug is not', async () => {
    const { id } = await stack.createTenant('named-by-slug')
    for (const [tenantId, status] of [
      ['named-by-slug', 200],
      ['nobody', 401],
    ] as const) {
      const token = await issuer.issue({ tenantId, roles: ['admin'] })
      const answer = await send(gateway, '/api/v1/whoami', { headers: { authorization: `Bearer ${token}` } })
      expect(answer.status).toBe(status)
      if (status === 200) expect(answer.json).toMatchObject({ tenant: { id } })
    }
  })
})

describe('an administrator', () => {
  test('creates a key that is shown once, and later only by its last four characters', async () => {
    const made = await asPerson(['admin'], '/api/v1/api-keys', { method: 'POST', body: newKey })
    expect(made.status, made.text).toBe(201)
    expect(made.headers['cache-control']).toBe('no-store')
    const { id, key = '' } = keySchema.parse(made.json)
    expect(key).toMatch(/^postern_[0-9A-Za-z]{49}$/)
    const shown = await asPerson(['admin'], `/api/v1/api-keys/${id}`)
    expect(keySchema.parse(shown.json)).toMatchObject({ masked: `•••••${key.slice(-4)}`, state: 'active' })
    expect(shown.text).not.toContain(key)
    expect(shown.text).not.toContain(key.slice(0, -4))
    const list = await asPerson(['admin'], '/api/v1/api-keys')
    expect(list.text).not.toContain(key)
  })

  test('revokes a key, and every gateway rejects it from the response on', async () => {
    const made = await asPerson(['admin'], '/api/v1/api-keys', { method: 'POST', body: newKey })
    const { id, key = '' } = keySchema.parse(made.json)
    for (const origin of [gateway, other]) {
      expect((await send(origin, '/api/v1/findings', { key })).status).toBe(200)
    }
    const revoked = await asPerson(['admin'], `/api/v1/api-keys/${id}/revoke`, {
      method: 'POST',
      body: { reason: 'It leaked.' },
    })
    expect(revoked.status, revoked.text).toBe(200)
    const { enforcement, state } = revokedApiKeySchema.parse(revoked.json)
    expect(state).toBe('revoked')
    expect(enforcement).toMatchObject({ gateways: 2, confirmed: 2, fenced: 0 })
    for (const origin of [gateway, other]) {
      const answer = await send(origin, '/api/v1/findings', { key })
      expect([answer.status, answer.code]).toEqual([401, 'key_revoked'])
      expect(answer.headers['www-authenticate']).toBe('ApiKey realm="postern", error="revoked_key"')
    }
    const again = await asPerson(['admin'], `/api/v1/api-keys/${id}/revoke`, { method: 'POST' })
    expect(again.status).toBe(200)
    expect(revokedApiKeySchema.parse(again.json).revoked_at).toBe(revokedApiKeySchema.parse(revoked.json).revoked_at)
  })

  test('sees who created and revoked a key in its audit trail', async () => {
    const made = await asPerson(['admin'], '/api/v1/api-keys', { method: 'POST', body: newKey })
    const { id } = keySchema.parse(made.json)
    await asPerson(['admin'], `/api/v1/api-keys/${id}/revoke`, { method: 'POST' })
    const events = await asPerson(['admin'], `/api/v1/api-keys/${id}/events`)
    expect(events.json).toMatchObject([
      { type: 'revoked', actor: { type: 'user' } },
      { type: 'created', actor: { type: 'user' } },
    ])
  })

  test('sees the last use of a key, new addresses and refusals', async () => {
    const made = await asPerson(['admin'], '/api/v1/api-keys', { method: 'POST', body: newKey })
    const { id, key = '' } = keySchema.parse(made.json)
    const before = Date.now()
    expect((await send(other, '/api/v1/findings', { key })).status).toBe(200)
    await asPerson(['admin'], `/api/v1/api-keys/${id}/revoke`, { method: 'POST' })
    expect((await send(other, '/api/v1/findings', { key })).status).toBe(401)
    const limited = await asPerson(['admin'], '/api/v1/api-keys', {
      method: 'POST',
      body: { ...newKey, allowed_addresses: ['203.0.113.0/24'] },
    })
    const bound = keySchema.parse(limited.json)
    expect((await send(other, '/api/v1/findings', { key: bound.key ?? '' })).status).toBe(403)
    // A gateway reports in batches, the last one when it stops.
    await stack.restart('gateway-2')
    const shown = await asPerson(['admin'], `/api/v1/api-keys/${id}`)
    const { last_used_at: lastUsedAt } = apiKeySchema.parse(shown.json)
    expect(Math.abs(Date.parse(lastUsedAt ?? '') - before)).toBeLessThan(60_000)
    const events = await asPerson(['admin'], `/api/v1/api-keys/${id}/events`)
    const types = z
      .array(apiKeyEventSchema)
      .parse(events.json)
      .map(({ type }) => type)
    expect(types.toSorted()).toEqual(['created', 'denied_revoked', 'revoked', 'used_from_new_address'])
    const tried = await asPerson(['admin'], `/api/v1/api-keys/${bound.id}/events`)
    expect(tried.json).toMatchObject([{ type: 'denied_address', detail: { attempts: 1 } }, { type: 'created' }])
    const untouched = await asPerson(['admin'], `/api/v1/api-keys/${bound.id}`)
    const { last_used_at: used, last_refused_at: refused } = apiKeySchema.parse(untouched.json)
    expect([used, refused]).toEqual([null, expect.any(String)])
  })

  test('narrows a key at once and irrevocably', async () => {
    const made = await asPerson(['admin'], '/api/v1/api-keys', {
      method: 'POST',
      body: { ...newKey, scopes: ['read:findings', 'read:universe'] },
    })
    const { id, key = '' } = keySchema.parse(made.json)
    expect((await send(other, '/api/v1/entities', { key })).status).toBe(200)
    const etag = String((await asPerson(['admin'], `/api/v1/api-keys/${id}`)).headers['etag'])
    const headers = { 'content-type': 'application/merge-patch+json', 'if-match': etag }
    const narrowed = await asPerson(['admin'], `/api/v1/api-keys/${id}`, {
      method: 'PATCH',
      headers,
      body: { scopes: ['read:findings'] },
    })
    expect(narrowed.status, narrowed.text).toBe(200)
    const refused = await send(other, '/api/v1/entities', { key })
    expect([refused.status, refused.code]).toEqual([403, 'insufficient_scope'])
    expect(refused.headers['www-authenticate']).toBe(
      'ApiKey realm="postern", error="insufficient_scope", scope="read:universe"',
    )
    expect(refused.json).toMatchObject({
      granted_scopes: ['read:findings'],
      documentation: '/docs#tag/audit-universe/GET/api/v1/entities',
    })
    expect((await send(other, '/api/v1/findings', { key })).status).toBe(200)
    const wider = await asPerson(['admin'], `/api/v1/api-keys/${id}`, {
      method: 'PATCH',
      headers: { ...headers, 'if-match': String(narrowed.headers['etag']) },
      body: { scopes: ['read:findings', 'read:universe'] },
    })
    expect([wider.status, wider.code]).toEqual([409, 'conflict'])
  })

  test('rotates a key: both work during the overlap, and without overlap the old one ends at once', async () => {
    const made = await asPerson(['admin'], '/api/v1/api-keys', { method: 'POST', body: newKey })
    const old = keySchema.parse(made.json)
    const rotated = await asPerson(['admin'], `/api/v1/api-keys/${old.id}/rotate`, { method: 'POST' })
    expect(rotated.status, rotated.text).toBe(201)
    const fresh = keySchema.parse(rotated.json)
    for (const key of [old.key ?? '', fresh.key ?? '']) {
      expect((await send(gateway, '/api/v1/findings', { key })).status).toBe(200)
    }
    const again = await asPerson(['admin'], `/api/v1/api-keys/${fresh.id}/rotate`, {
      method: 'POST',
      body: { overlap: '0s' },
    })
    expect(again.status, again.text).toBe(201)
    const answer = await send(other, '/api/v1/findings', { key: fresh.key ?? '' })
    expect([answer.status, answer.code]).toEqual([401, 'key_expired'])
  })

  test('ends the old key of a rotation on every gateway after the new one was used, if asked to', async () => {
    const made = await asPerson(['admin'], '/api/v1/api-keys', { method: 'POST', body: newKey })
    const old = keySchema.parse(made.json)
    const rotated = await asPerson(['admin'], `/api/v1/api-keys/${old.id}/rotate`, {
      method: 'POST',
      body: { overlap: '0s', overlap_from: 'first_use' },
    })
    expect(rotated.status, rotated.text).toBe(201)
    const fresh = keySchema.parse(rotated.json)
    const answersOf = async (key = '') =>
      await Promise.all([gateway, other].map(async (origin) => (await send(origin, '/api/v1/findings', { key })).code))
    expect(await answersOf(old.key)).toEqual([undefined, undefined])
    expect((await send(gateway, '/api/v1/findings', { key: fresh.key ?? '' })).status).toBe(200)
    // The gateway reports the use within ten seconds, and housekeeping follows within ten more.
    await expect
      .poll(async () => await answersOf(old.key), { timeout: 60_000, interval: 500 })
      .toEqual(['key_expired', 'key_expired'])
    expect(await answersOf(fresh.key)).toEqual([undefined, undefined])
  })
})

describe('a suspended tenant', () => {
  test('is rejected by every gateway from the response on, and served again after it is resumed', async () => {
    const suspended = await stack.createTenant()
    const { key } = await stack.createKey(suspended, { scopes: ['read:findings'] })
    for (const origin of [gateway, other]) expect((await send(origin, '/api/v1/findings', { key })).status).toBe(200)
    const call = async (action: string) =>
      await stack.operator.call(operator, 'POST', `/internal/v1/tenants/${suspended.id}/${action}`)
    expect((await call('suspend')).status).toBe(200)
    for (const origin of [gateway, other]) {
      const answer = await send(origin, '/api/v1/findings', { key })
      expect([answer.status, answer.code]).toEqual([403, 'tenant_suspended'])
    }
    expect((await call('resume')).status).toBe(200)
    for (const origin of [gateway, other]) expect((await send(origin, '/api/v1/findings', { key })).status).toBe(200)
  })
})
