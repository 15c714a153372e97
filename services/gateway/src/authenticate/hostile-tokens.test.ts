/**
 * @promise Edge: Access tokens are accepted only from the configured issuer, for this audience, unexpired and signed with a key
 * pair.
 * @alsoShownBy test/end-to-end/administrator-revokes-a-key.test.ts
 */

import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import { createLogger } from '@postern/service-kit'
import { parseSignIn } from '@postern/sign-in'
import { type JWTPayload, SignJWT, exportJWK, exportSPKI, generateKeyPair } from 'jose'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type TokenVerifier, createTokenVerifier } from './bearer.ts'

// Everyone knows the provider's public key; only the provider has the private one. The attacker has another key pair.
const tenantId = '0197a3c0-7c00-7000-8000-000000000001'
const provider = await generateKeyPair('ES256')
const attacker = await generateKeyPair('ES256', { extractable: true })
const providerKey = { ...(await exportJWK(provider.publicKey)), kid: 'one', alg: 'ES256', use: 'sig' }
const attackerKey = { ...(await exportJWK(attacker.publicKey)), kid: 'two', alg: 'ES256', use: 'sig' }

const asked: string[] = []
const server = createServer((request, response) => {
  const path = request.url ?? ''
  asked.push(path)
  const document = path.startsWith('/.well-known')
    ? { issuer: origin, jwks_uri: `${origin}/keys` }
    : { keys: [path === '/keys' ? providerKey : attackerKey] }
  response.end(JSON.stringify(document))
})
let origin: string
let verifier: TokenVerifier

beforeAll(async () => {
  const listening = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', listening.resolve)
  await listening.promise
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the provider does not listen')
  origin = `http://127.0.0.1:${address.port}`
})

afterAll(() => {
  server.closeAllConnections()
  server.close()
})

beforeEach(() => {
  asked.length = 0
  const providers = parseSignIn(JSON.stringify({ providers: [{ name: 'Staff', issuer: origin }] }))
  verifier = createTokenVerifier(providers, createLogger({ service: 'gateway', level: 'silent' }))
})

const seconds = (fromNow: number): number => Math.floor(Date.now() / 1000) + fromNow

function claims(changes: Record<string, unknown> = {}): JWTPayload {
  const usual = { iss: origin, aud: 'postern', sub: 'ada', exp: seconds(300) }
  return { ...usual, postern_tenant: tenantId, postern_roles: ['postern-admin'], ...changes }
}

const encode = (part: unknown): string => Buffer.from(JSON.stringify(part)).toString('base64url')

/** A token whose parts are put together by hand. */
function forged(header: object, payload: object, mac?: string | Buffer): string {
  const text = `${encode(header)}.${encode(payload)}`
  return `${text}.${mac === undefined ? '' : createHmac('sha256', mac).update(text).digest('base64url')}`
}

async function byAttacker(header: object): Promise<string> {
  return await new SignJWT(claims()).setProtectedHeader({ alg: 'ES256', ...header }).sign(attacker.privateKey)
}

async function byProvider(changes: Record<string, unknown>, header: object = {}): Promise<string> {
  const signer = new SignJWT(claims(changes)).setProtectedHeader({ alg: 'ES256', kid: 'one', ...header })
  return await signer.sign(provider.privateKey)
}

test('the control: a token that the provider has signed for us is accepted', async () => {
  expect(await verifier.verify(await byProvider({}))).toMatchObject({
    kind: 'valid',
    token: { grants: [{ tenant: tenantId, roles: ['admin'] }] },
  })
  expect(asked).toEqual(['/.well-known/openid-configuration', '/keys'])
})

describe('a token is rejected, and only the provider is asked,', () => {
  test.each<readonly [string, () => string | Promise<string>]>([
    ['without a signature', () => forged({ alg: 'none' }, claims())],
    ['without a signature, in another spelling', () => forged({ alg: 'nOnE', kid: 'one' }, claims())],
    ['without an algorithm', () => forged({ kid: 'one' }, claims(), 'x')],
    [
      'with the provider’s public key as a shared secret',
      async () => forged({ alg: 'HS256', kid: 'one' }, claims(), await exportSPKI(provider.publicKey)),
    ],
    ['with that key as JSON', () => forged({ alg: 'HS256', kid: 'one' }, claims(), JSON.stringify(providerKey))],
    ['with an empty secret', () => forged({ alg: 'HS256', kid: 'one' }, claims(), '')],
    ['by a key that nobody knows', () => byAttacker({ kid: 'two' })],
    ['by such a key under the name of the provider’s', () => byAttacker({ kid: 'one' })],
    ['by such a key without a name', () => byAttacker({})],
    ['that brings its key along', () => byAttacker({ kid: 'one', jwk: attackerKey })],
    ['that says where its key is', () => byAttacker({ kid: 'two', jku: `${origin}/attacker` })],
    ['that says where its certificate is', () => byAttacker({ kid: 'two', x5u: `${origin}/attacker` })],
    ['whose key is a path', () => byAttacker({ kid: '../../attacker' })],
    [
      'with an extension that must be understood',
      () => forged({ alg: 'ES256', kid: 'one', crit: ['x'], x: 1 }, claims(), 'x'),
    ],
    ['for another audience, such as an ID token for the console', () => byProvider({ aud: 'postern-console' })],
    ['for no audience', () => byProvider({ aud: undefined })],
    ['of another issuer', () => byProvider({ iss: 'https://elsewhere.example' })],
    ['of no issuer', () => byProvider({ iss: undefined })],
    ['that has ended', () => byProvider({ exp: seconds(-60) })],
    ['that never ends', () => byProvider({ exp: undefined })],
    ['that ends at a word', () => byProvider({ exp: 'never' })],
    ['that has not begun', () => byProvider({ nbf: seconds(60) })],
    ['of nobody', () => byProvider({ sub: '' })],
    ['of no tenant', () => byProvider({ postern_tenant: undefined })],
    ['of two tenants', () => byProvider({ postern_tenant: [tenantId, tenantId] })],
    ['of a tenant that is none', () => byProvider({ postern_tenant: '*' })],
    ['that is an ID token for this audience', () => byProvider({ nonce: 'n' })],
    ['that is an ID token of Keycloak', () => byProvider({ typ: 'ID' })],
    ['that is a logout token', () => byProvider({ events: {} })],
    ['of a service account', () => byProvider({ client_id: 'ada' })],
    [
      'whose claims were changed',
      async () => {
        const [header, , signature] = (await byProvider({})).split('.')
        return `${header}.${encode(claims({ sub: 'eve' }))}.${signature}`
      },
    ],
    ['whose signature is of zeros', async () => (await byProvider({})).replace(/[^.]+$/, 'A'.repeat(86))],
    ['whose signature is cut short', async () => (await byProvider({})).slice(0, -4)],
    ['in four parts', async () => `${await byProvider({})}.e30`],
    ['that is encrypted', () => `${encode({ alg: 'dir', enc: 'A256GCM' })}.....`.slice(0, -1)],
    ['that is too long', async () => await byProvider({ filler: 'x'.repeat(8192) })],
  ])('%s', async (_what, make) => {
    expect(await verifier.verify(await make())).toMatchObject({ kind: 'invalid' })
    expect(asked.filter((path) => path.includes('attacker'))).toEqual([])
  })
})

test.each<readonly [string, () => string | Promise<string>, boolean]>([
  ['by another key under the name of the provider’s', () => byAttacker({ kid: 'one' }), true],
  [
    'whose claims were changed',
    async () => {
      const [header, , signature] = (await byProvider({})).split('.')
      return `${header}.${encode(claims({ sub: 'eve' }))}.${signature}`
    },
    true,
  ],
  ['that has ended', () => byProvider({ exp: seconds(-60) }), false],
  ['for another audience', () => byProvider({ aud: 'postern-console' }), false],
  ['by a key that the provider may have had before', () => byAttacker({ kid: 'two' }), false],
  ['that is none', () => 'x', false],
])('a rejected token %s counts as forged or not', async (_what, make, isForged) => {
  expect(await verifier.verify(await make())).toMatchObject({ kind: 'invalid', isForged })
})

test('roles of another form or without a mapping are ignored', async () => {
  const isRole = { 'postern-admin': true }
  for (const roles of ['admin', ['admin'], ['Postern-Admin'], isRole, [['postern-admin']], [1], null]) {
    expect(await verifier.verify(await byProvider({ postern_roles: roles }))).toMatchObject({
      kind: 'valid',
      token: { grants: [{ roles: [] }] },
    })
  }
})
