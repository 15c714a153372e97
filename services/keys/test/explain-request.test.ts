import { type Explanation, explanationSchema, routeTable } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type KeysUnderTest, newKey, newTenant, path, revoke, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const asked = { method: 'GET', path: '/api/v1/findings', address: '203.0.113.7' }

const ask = async (admin: Principal, id: string, given: object = {}) =>
  await service.call(admin, 'POST', `${path}/${id}/explain`, { body: { ...asked, ...given } })

async function explain(admin: Principal, id: string, given: object = {}): Promise<Explanation> {
  const answer = await ask(admin, id, given)
  expect(answer.status, answer.text).toBe(200)
  return explanationSchema.parse(answer.json)
}

/** The steps that were refused or passed, as `step outcome`. */
const outcomes = ({ steps }: Explanation) =>
  steps.filter(({ outcome }) => outcome !== 'skipped').map(({ step, outcome }) => `${step} ${outcome}`)

const known = ['target passed', 'state passed', 'expiry passed', 'tenant passed', 'address passed']

describe('an explanation is rejected', () => {
  test('for other roles, keys of other tenants and invalid requests', async () => {
    const [admin, other] = [await newTenant(service), await newTenant(service)]
    const { id } = await newKey(service, admin)
    expect((await ask({ ...admin, roles: ['auditor'] }, id)).status).toBe(403)
    expect((await ask(other, id)).status).toBe(404)
    for (const given of [
      { method: 'GET /' },
      { method: '' },
      { path: '' },
      { path: 'x'.repeat(8193) },
      { address: '203.0.113' },
      { address: '203.0.113.0/24' },
      { address: 'localhost' },
      { stray: 1 },
      { request_id: 'request-1' },
      { path: undefined },
      { path: undefined, address: undefined, method: undefined },
    ])
      expect([given, (await ask(admin, id, given)).status]).toEqual([given, 422])
    expect((await ask(admin, id)).status).toBe(200)
  })
})

describe('a decision', () => {
  test('accepts what the key may do, and says that gateways count the limit', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const explained = await explain(admin, id, { path: '/api/v1/findings?limit=5' })
    expect(explained).toMatchObject({ decision: 'accepted', status: null, code: null, route: 'findings.list' })
    expect(outcomes(explained)).toEqual([...known, 'route passed', 'scope passed', 'limit unknown'])
  })

  test.each([
    ['/api/v1/%2e%2e/findings', 400, 'non_canonical_path', ['target refused']],
    ['/api/v1/../findings', 400, 'non_canonical_path', ['target refused']],
    ['/api/v1/findings%2Fx', 400, 'non_canonical_path', ['target refused']],
    ['//api/v1/findings', 400, 'non_canonical_path', ['target refused']],
    ['https://postern.example/api/v1/findings', 400, 'non_canonical_path', ['target refused']],
    ['/api/v1/findings\u0001', 400, 'non_canonical_path', ['target refused']],
    ['/api/v1/Findings', 404, 'not_found', [...known, 'route refused']],
    ['/api/v1/findings/', 404, 'not_found', [...known, 'route refused']],
    ['/internal/v1/leases', 404, 'not_found', [...known, 'route refused']],
    ['/api/v1/entities', 403, 'insufficient_scope', [...known, 'route passed', 'scope refused']],
    ['/api/v1/api-keys', 403, 'role_required', [...known, 'route passed', 'scope refused']],
  ])('refuses %s with %i %s', async (asks, status, code, steps) => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const explained = await explain(admin, id, { path: asks })
    expect(explained).toMatchObject({ decision: 'refused', status, code })
    expect(outcomes(explained)).toEqual(steps)
  })

  test.each(['DELETE', 'FOO', 'get', '__proto__'.replaceAll('_', '-')])('refuses the method %s', async (method) => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    expect(await explain(admin, id, { method })).toMatchObject({ status: 405, code: 'method_not_allowed' })
  })

  test('refuses by address, state and tenant, in the order of the gateway', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin, { allowed_addresses: ['203.0.113.0/24'] })
    expect(await explain(admin, id, { address: '::ffff:203.0.113.9' })).toMatchObject({ decision: 'accepted' })
    const elsewhere = { address: '198.51.100.1', path: '/nowhere' }
    expect(await explain(admin, id, elsewhere)).toMatchObject({ status: 403, code: 'address_not_allowed', route: null })
    const suspend = `${internalPaths.tenants}/${admin.tenantId}/suspend`
    expect((await service.operate('POST', suspend)).status).toBe(200)
    expect(await explain(admin, id, elsewhere)).toMatchObject({ status: 403, code: 'tenant_suspended' })
    await revoke(service, admin, id)
    const revoked = await explain(admin, id, elsewhere)
    expect(revoked).toMatchObject({ status: 401, code: 'key_revoked' })
    expect(outcomes(revoked)).toEqual(['target passed', 'state refused'])
    const open = await explain(admin, id, { path: '/api/v1/openapi.json' })
    expect(open).toMatchObject({ decision: 'accepted', route: 'gateway.openapi' })
  })

  test('refuses from the moment of the expiry', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    await service.asSuperuser.system(
      async (tx) => await tx.execute(sql(`update keys.api_key set expires_at = clock_timestamp() where id = '${id}'`)),
    )
    expect(await explain(admin, id)).toMatchObject({ status: 401, code: 'key_expired' })
  })

  test('is made for every route of the table, and repeats nothing of the path', async () => {
    const admin = await newTenant(service)
    const { id, value } = await newKey(service, admin, { scopes: ['*'] })
    for (const route of routeTable) {
      const target = route.path.replaceAll(/:[a-z_]+/g, crypto.randomUUID())
      const explained = await explain(admin, id, { method: route.method, path: target })
      const isForPeople = route.access.kind === 'person'
      expect([route.id, explained.route, explained.code]).toEqual([
        route.id,
        route.id,
        isForPeople ? 'role_required' : null,
      ])
    }
    const { text } = await ask(admin, id, { path: `/api/v1/findings?key=${value}` })
    expect(text + service.log.join('')).not.toContain(value.slice(8, 30))
  })
})

describe('without an address', () => {
  test('and without a use of the key, nothing is said about its allowed addresses', async () => {
    const admin = await newTenant(service)
    const addressStep = async (given: object) => {
      const { id } = await newKey(service, admin, given)
      const { steps } = await explain(admin, id, { address: undefined })
      return steps.find(({ step }) => step === 'address')
    }
    expect(await addressStep({ allowed_addresses: ['203.0.113.0/24'] })).toEqual({
      step: 'address',
      outcome: 'unknown',
      detail: 'The key accepts only 203.0.113.0/24. Send `address` to check one.',
    })
    expect(await addressStep({})).toMatchObject({ outcome: 'passed' })
  })

  test('the address that used the key last is checked and named', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin, { allowed_addresses: ['203.0.113.0/24'] })
    expect(await explain(admin, id, { address: undefined })).toMatchObject({ decision: 'accepted', address: null })
    const use = { keyId: id, tenantId: admin.tenantId, count: 1, routes: { 'findings.list': 1 } }
    const at = Date.now() - 60_000
    const uses = [
      { ...use, address: '198.51.100.1', lastUsedAt: at + 1000 },
      { ...use, address: '203.0.113.9', lastUsedAt: at },
    ]
    await service.ask(internalPaths.usage, { uses, denials: [] })
    const explained = await explain(admin, id, { address: undefined })
    expect(explained).toMatchObject({ code: 'address_not_allowed', address: '198.51.100.1' })
    expect(explained.steps.find(({ step }) => step === 'address')?.detail).toMatch(
      /^198\.51\.100\.1, which used the key last,/,
    )
    expect(await explain(admin, id)).toMatchObject({ decision: 'accepted', address: asked.address })
  })
})

describe('a refusal is found by its request id', () => {
  const requestId = 'request-12345'
  const refuse = async (admin: Principal, keyId: string, code: string, route: string | null = 'findings.create') =>
    await service.ask(internalPaths.usage, {
      uses: [],
      denials: [],
      refusals: [
        {
          keyId,
          tenantId: admin.tenantId,
          counts: [],
          recent: [{ at: Date.now(), requestId, method: 'POST', route, address: '203.0.113.7', code }],
        },
      ],
    })
  const byId = async (admin: Principal, id: string, given = requestId) =>
    await service.call(admin, 'POST', `${path}/${id}/explain`, { body: { request_id: given } })

  test('only by administrators of its tenant, and only for its key', async () => {
    const [admin, other] = [await newTenant(service), await newTenant(service)]
    const [{ id }, { id: second }, { id: foreign }] = [
      await newKey(service, admin),
      await newKey(service, admin),
      await newKey(service, other),
    ]
    await refuse(admin, id, 'insufficient_scope')
    const unknown = await byId(other, foreign, 'request-unknown')
    const ofAnother = await byId(other, foreign)
    expect([unknown.status, ofAnother.status]).toEqual([404, 404])
    const shown = z.object({ code: z.string(), detail: z.string() })
    expect(shown.parse(ofAnother.json)).toEqual(shown.parse(unknown.json))
    expect((await byId(other, id)).status).toBe(404)
    expect((await byId(admin, second)).status).toBe(404)
    expect((await byId({ ...admin, roles: ['auditor'] }, id)).status).toBe(403)
    expect((await byId(admin, id)).status).toBe(200)
  })

  test('with what happened, and what the current settings decide', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const explained = async () => explanationSchema.parse((await byId(admin, id)).json)
    await refuse(admin, id, 'insufficient_scope')
    expect(await explained()).toMatchObject({
      decision: 'refused',
      status: 403,
      code: 'insufficient_scope',
      route: 'findings.create',
      address: '203.0.113.7',
      refusal: { request_id: requestId, method: 'POST', code: 'insufficient_scope' },
      now: { decision: 'refused', code: 'insufficient_scope' },
    })
    expect((await explained()).steps.at(-2)).toMatchObject({
      outcome: 'refused',
      detail: expect.stringContaining('write:findings'),
    })
    // The last refusal with the id counts.
    await refuse(admin, id, 'address_not_allowed', 'findings.list')
    expect(await explained()).toMatchObject({ code: 'address_not_allowed', now: { decision: 'accepted', code: null } })
    await refuse(admin, id, 'not_found', null)
    expect(await explained()).toMatchObject({ status: 404, code: 'not_found', route: null, now: null })
    await refuse(admin, id, 'too_many_requests', 'findings.list')
    expect(outcomes(await explained()).at(-1)).toBe('limit refused')
  })
})
