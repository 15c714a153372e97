/**
 * @promise Edge: A service account that the operator accepts administers keys under the same policy and audit trail, and does nothing else.
 */

import { execFile, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { apiKeyEventSchema, apiKeySchema, whoamiSchema } from '@postern/contracts'
import { type TestSignIn, type TestStack, startTestSignIn, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'

const secret = 'a-secret-of-a-service-account-0123456789'
let provider: TestSignIn
let stack: TestStack
let gateway: string
let tenant: { readonly id: string }

beforeAll(async () => {
  const claims = { postern_tenant: 'machines-bank', postern_roles: ['postern-admin'] }
  const machines = [
    { clientId: 'terraform', clientSecret: secret, claims },
    { clientId: 'reader', clientSecret: secret, claims: { ...claims, postern_roles: ['postern-viewer'] } },
    { clientId: 'stranger', clientSecret: secret, claims },
  ]
  provider = await startTestSignIn({ consoleUrl: 'http://127.0.0.1:1', tenants: {}, machines })
  const settings = { name: 'Staff', issuer: provider.issuer, machines: { clients: ['terraform', 'reader'] } }
  stack = await startTestStack({ env: { POSTERN_SIGN_IN: JSON.stringify({ providers: [settings] }) } })
  gateway = stack.gateways[0] ?? ''
  tenant = await stack.createTenant('machines-bank')
})
afterAll(async () => {
  await stack.stop()
  await provider.stop()
})

/** OAuth client credentials (RFC 6749, section 4.4). */
async function tokenOf(client: string): Promise<string> {
  const answer = await fetch(`${provider.issuer}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${client}:${secret}`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials' }),
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`the provider issues no token: ${text}`)
  return z.object({ access_token: z.string() }).parse(JSON.parse(text)).access_token
}

async function ask(client: string, path: string, options: Parameters<typeof send>[2] = {}) {
  return await send(gateway, path, { ...options, headers: { authorization: `Bearer ${await tokenOf(client)}` } })
}

const body = { label: 'Nightly export', expires_in: '90d', scopes: ['read:findings'] }

test('an accepted service account creates and revokes keys, and the trail names the machine', async () => {
  const made = await ask('terraform', '/api/v1/api-keys', { method: 'POST', body })
  expect(made.status, made.text).toBe(201)
  const { id, key } = z.object({ id: z.string(), key: z.string() }).parse(made.json)
  expect((await send(gateway, '/api/v1/findings', { key })).status).toBe(200)
  const revoked = await ask('terraform', `/api/v1/api-keys/${id}/revoke`, { method: 'POST', body: {} })
  expect(revoked.status, revoked.text).toBe(200)
  expect((await send(gateway, '/api/v1/findings', { key })).code).toBe('key_revoked')
  const shown = await ask('terraform', `/api/v1/api-keys/${id}`)
  const actor = { type: 'machine', id: 'terraform', label: 'terraform' }
  expect(apiKeySchema.parse(shown.json)).toMatchObject({ created_by: actor, revoked_by: actor })
  const events = await ask('terraform', `/api/v1/api-keys/${id}/events`)
  expect(z.array(apiKeyEventSchema).parse(events.json)).toMatchObject([{ actor }, { actor }])
})

const lacksPrograms = ['curl', 'jq'].some((program) => spawnSync(program, ['--version']).status !== 0)

test.skipIf(lacksPrograms)('the block of the guide creates a key', async () => {
  const guide = readFileSync(join(import.meta.dirname, '../../docs/guides/automate-keys.md'), 'utf8')
  const [, code = ''] = /^```sh\n([^]*?)^```$/m.exec(guide) ?? []
  const env = { ...process.env, POSTERN_URL: gateway, SECRET: secret, TOKEN_URL: `${provider.issuer}/token` }
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', code], { env })
  expect(apiKeySchema.loose().parse(JSON.parse(stdout))).toMatchObject({ label: 'Nightly export', state: 'active' })
})

describe('a service account', () => {
  test('that is not accepted is refused', async () => {
    const answer = await ask('stranger', '/api/v1/api-keys')
    expect([answer.status, answer.code]).toEqual([401, 'invalid_token'])
  })

  test('without the role admin administers nothing', async () => {
    const answer = await ask('reader', '/api/v1/api-keys')
    expect([answer.status, answer.code]).toEqual([403, 'role_required'])
  })

  test('reaches no data, whatever its role', async () => {
    for (const path of ['/api/v1/findings', '/api/v1/entities']) {
      const answer = await ask('terraform', path)
      expect([answer.status, answer.code]).toEqual([403, 'insufficient_scope'])
    }
    const policy = await ask('terraform', '/api/v1/evidence-policy')
    expect([policy.status, policy.code]).toEqual([403, 'role_required'])
    const whoami = whoamiSchema.parse((await ask('terraform', '/api/v1/whoami')).json)
    expect(whoami).toMatchObject({ kind: 'machine', label: 'terraform', tenant: { id: tenant.id }, scopes: [] })
  })

  test('does not change the policy', async () => {
    const change = { method: 'PATCH', body: { max_key_days: 3650 } } as const
    const answer = await ask('terraform', '/api/v1/key-policy', change)
    expect([answer.status, answer.code]).toEqual([403, 'role_required'])
    expect((await ask('terraform', '/api/v1/key-policy')).status).toBe(200)
  })

  test('is subject to the policy of the tenant, and is no member', async () => {
    const long = await ask('terraform', '/api/v1/api-keys', { method: 'POST', body: { ...body, expires_in: '9999d' } })
    expect(long.status).toBe(422)
    expect((await ask('terraform', '/api/v1/members')).json).toEqual([])
  })
})
