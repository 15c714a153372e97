import { apiKeySchema, createdApiKeySchema, revokedApiKeySchema } from '@postern/contracts'
import {
  type TestBrowser,
  type TestStack,
  createTestBrowser,
  operator,
  startTestStack,
} from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'

let stack: TestStack
let url: string
let gateway: string
let tenants: Readonly<Record<'harbourline' | 'korvex', { readonly id: string }>>

beforeAll(async () => {
  stack = await startTestStack({ console: true })
  url = stack.consoleUrl
  gateway = stack.gateways[0] ?? ''
  tenants = { harbourline: await stack.createTenant('harbourline'), korvex: await stack.createTenant('korvex') }
  await stack.nameTenants(tenants)
})
afterAll(async () => await stack.stop())

const sessionSchema = z.object({
  csrf_token: z.string(),
  roles: z.array(z.string()),
  tenant: z.object({ id: z.string() }),
})

/** A person at one of the console's pages. */
async function signIn(person: string) {
  const browser: TestBrowser = createTestBrowser()
  const page = await browser.signIn(url, person)
  const answer = await browser.send(`${url}/auth/session`)
  if (answer.status !== 200) return { page, session: undefined, call: async () => answer }
  const session = sessionSchema.parse(JSON.parse(answer.text))
  const headers = {
    accept: 'application/json',
    origin: url,
    'sec-fetch-site': 'same-origin',
    'content-type': 'application/json',
    'x-csrf-token': session.csrf_token,
  }
  const call = async (method: string, path: string, body?: unknown) =>
    await browser.send(url + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })
  return { page, session, call }
}

const newKey = { label: 'Nightly export', expires_in: '90d', scopes: ['read:findings'] }

const act = async (action: 'suspend' | 'resume') =>
  await stack.operator.call(operator, 'POST', `/internal/v1/tenants/${tenants.korvex.id}/${action}`)

describe('at the console', () => {
  test.each(['harbourline-viewer', 'harbourline-auditor'])(
    '%s can read findings but not manage keys',
    async (person) => {
      const { call } = await signIn(person)
      expect((await call('GET', '/api/v1/findings')).status).toBe(200)
      for (const [method, body] of [['GET'], ['POST', newKey]] as const) {
        const answer = await call(method, '/api/v1/api-keys', body)
        expect([answer.status, JSON.parse(answer.text)]).toEqual([
          403,
          expect.objectContaining({ code: 'role_required' }),
        ])
      }
    },
  )

  test('an administrator creates, uses and revokes a key, and the key is then rejected', async () => {
    const { call, page } = await signIn('harbourline-admin')
    expect([page.status, page.text.includes('nonce="')]).toEqual([200, true])
    const made = await call('POST', '/api/v1/api-keys', newKey)
    expect(made.status, made.text).toBe(201)
    const { id, key, created_by: author } = createdApiKeySchema.parse(JSON.parse(made.text))
    expect(author).toMatchObject({ type: 'user', id: 'harbourline-admin', label: 'Amara Osei' })
    expect((await send(gateway, '/api/v1/findings', { key })).status).toBe(200)
    const revoked = await call('POST', `/api/v1/api-keys/${id}/revoke`, { reason: 'It leaked.' })
    expect(revokedApiKeySchema.parse(JSON.parse(revoked.text)).state).toBe('revoked')
    expect((await send(gateway, '/api/v1/findings', { key })).status).toBe(401)
  })

  test('people see no data of another tenant', async () => {
    const [one, other] = [await signIn('harbourline-admin'), await signIn('korvex-admin')]
    expect([one.session?.tenant.id, other.session?.tenant.id]).toEqual([tenants.harbourline.id, tenants.korvex.id])
    const made = await one.call('POST', '/api/v1/api-keys', newKey)
    const { id } = createdApiKeySchema.parse(JSON.parse(made.text))
    expect((await other.call('GET', `/api/v1/api-keys/${id}`)).status).toBe(404)
    expect(z.array(apiKeySchema).parse(JSON.parse((await other.call('GET', '/api/v1/api-keys')).text))).toEqual([])
    expect((await one.call('GET', `/api/v1/api-keys/${id}`)).status).toBe(200)
  })

  test('people of a suspended tenant can neither sign in nor continue', async () => {
    const before = await signIn('korvex-admin')
    await act('suspend')
    expect((await before.call('GET', '/api/v1/api-keys')).status).toBe(403)
    const { page, session } = await signIn('korvex-admin')
    expect([page.status, session]).toEqual([403, undefined])
    expect(page.text).toContain('Your organization is suspended')
    await act('resume')
    expect((await signIn('korvex-admin')).session?.roles).toEqual(['admin'])
  })
})
