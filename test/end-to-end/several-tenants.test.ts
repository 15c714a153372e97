/**
 * @promise Edge: A person with several tenants names one in each request, and reaches no tenant that the token does not grant.
 */

import { request as httpRequest } from 'node:http'
import { apiKeySchema, whoamiSchema } from '@postern/contracts'
import { operator, startTestStack, type TestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'
import { send } from '../support/http.ts'

let stack: TestStack
let issuer: RunningIssuer
let gateway: string
let bank: { readonly id: string }
let energy: { readonly id: string }
let other: { readonly id: string }

beforeAll(async () => {
  issuer = await startIssuer()
  const provider = { name: 'Staff', issuer: issuer.url, audience: ['postern'], grants: { from: ['/groups'] } }
  stack = await startTestStack({ env: { POSTERN_SIGN_IN: JSON.stringify({ providers: [provider] }) } })
  gateway = stack.gateways[0] ?? ''
  ;[bank, energy, other] = [
    await stack.createTenant('several-bank'),
    await stack.createTenant('several-energy'),
    await stack.createTenant('several-other'),
  ]
})
afterAll(async () => {
  await stack.stop()
  await issuer.stop()
})

async function tokenOf(groups: readonly string[]): Promise<string> {
  return await issuer.issue({ tenantId: '', roles: [], more: { groups, postern_tenant: undefined } })
}

async function ask(token: string, path: string, tenant?: string, options: Parameters<typeof send>[2] = {}) {
  const named = tenant === undefined ? {} : { 'postern-tenant': tenant }
  return await send(gateway, path, { ...options, headers: { authorization: `Bearer ${token}`, ...named } })
}

const keysSchema = z.array(apiKeySchema)
const groups = () => ['/postern/several-bank/admin', `/postern/${energy.id}/viewer`, '/staff']

test('whoami lists the tenants with the roles in each, and the one that the request names', async () => {
  const token = await tokenOf(groups())
  const tenants = [
    { id: bank.id, name: expect.any(String), roles: ['admin'] },
    { id: energy.id, name: expect.any(String), roles: ['viewer'] },
  ]
  const all = await ask(token, '/api/v1/whoami')
  expect(whoamiSchema.parse(all.json)).toMatchObject({ tenant: null, tenants, roles: [], scopes: [] })
  const named = await ask(token, '/api/v1/whoami', 'several-energy')
  expect(named.json).toMatchObject({ tenant: { id: energy.id }, tenants, roles: ['viewer'] })
})

describe('a request', () => {
  test('that names none of several tenants is told to name one', async () => {
    const answer = await ask(await tokenOf(groups()), '/api/v1/findings')
    expect([answer.status, answer.code]).toEqual([400, 'tenant_required'])
    expect(answer.json).toMatchObject({
      allowed: ['several-bank', energy.id],
      detail: expect.stringContaining('postern-tenant'),
    })
  })

  test('reads and writes only in the tenant that it names, with the roles there', async () => {
    const token = await tokenOf(groups())
    const body = { label: 'Of the bank', expires_in: '90d', scopes: ['read:findings'] }
    const made = await ask(token, '/api/v1/api-keys', 'several-bank', { method: 'POST', body })
    expect(made.status, made.text).toBe(201)
    const list = await ask(token, '/api/v1/api-keys', bank.id)
    expect(keysSchema.parse(list.json)).toMatchObject([{ label: 'Of the bank' }])
    // The same token a moment later: nothing of the first tenant is reused.
    const viewer = await ask(token, '/api/v1/api-keys', energy.id)
    expect([viewer.status, viewer.code]).toEqual([403, 'role_required'])
    for (const tenant of ['several-bank', energy.id, bank.id.toUpperCase(), 'several-energy']) {
      expect((await ask(token, '/api/v1/findings', tenant)).status).toBe(200)
    }
  })

  test('that names a tenant which the token does not grant is refused like one for a missing tenant', async () => {
    const token = await tokenOf(groups())
    const answers = await Promise.all(
      [other.id, 'several-other', 'nobody', 'Several Bank', 'several-bank, several-other'].map(
        async (tenant) => await ask(token, '/api/v1/findings', tenant),
      ),
    )
    for (const { status, code } of answers) expect([status, code]).toEqual([403, 'tenant_not_granted'])
    expect(new Set(answers.map(({ json }) => Object(json).detail)).size).toBe(1)
    const single = await issuer.issue({ tenantId: bank.id, roles: ['viewer'] })
    expect((await ask(single, '/api/v1/findings', energy.id)).code).toBe('tenant_not_granted')
    expect((await ask(single, '/api/v1/findings', bank.id)).status).toBe(200)
  })

  test('that names two tenants is refused', async () => {
    const token = await tokenOf(groups())
    const answer = Promise.withResolvers<number | undefined>()
    httpRequest(
      `${gateway}/api/v1/findings`,
      { headers: { authorization: `Bearer ${token}`, 'postern-tenant': ['several-bank', energy.id] } },
      (response) => {
        response.resume()
        answer.resolve(response.statusCode)
      },
    )
      .on('error', answer.reject)
      .end()
    expect(await answer.promise).toBe(400)
  })

  test('finds nothing of one tenant by its id in another', async () => {
    const token = await tokenOf([...groups(), '/postern/several-energy/admin'])
    const list = await ask(token, '/api/v1/api-keys', bank.id)
    const [key] = keysSchema.parse(list.json)
    if (key === undefined) throw new Error('there is no key')
    expect((await ask(token, `/api/v1/api-keys/${key.id}`, bank.id)).status).toBe(200)
    expect((await ask(token, `/api/v1/api-keys/${key.id}`, energy.id)).status).toBe(404)
  })

  test('for a suspended tenant is refused, and the other tenant works', async () => {
    const token = await tokenOf(['/postern/several-other/admin', '/postern/several-bank/admin'])
    expect((await ask(token, '/api/v1/findings', 'several-other')).status).toBe(200)
    const suspended = await stack.operator.call(operator, 'POST', `/internal/v1/tenants/${other.id}/suspend`)
    expect(suspended.status).toBe(200)
    await expect.poll(async () => (await ask(token, '/api/v1/findings', 'several-other')).code).toBe('tenant_suspended')
    expect((await ask(token, '/api/v1/findings', 'several-bank')).status).toBe(200)
  })
})

test('a key belongs to one tenant, whatever the header names', async () => {
  const { key } = await stack.createKey(bank, { scopes: ['read:findings'] })
  const answer = await send(gateway, '/api/v1/whoami', { key, headers: { 'postern-tenant': energy.id } })
  expect(answer.json).toMatchObject({ tenant: { id: bank.id }, tenants: [{ id: bank.id, roles: [] }] })
})
