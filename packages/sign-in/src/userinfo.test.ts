import { createServer } from 'node:http'
import { SignJWT, createLocalJWKSet, exportJWK, generateKeyPair } from 'jose'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parseSignIn } from './settings.ts'
import { createUserinfoReader } from './userinfo.ts'
import { verifyToken } from './verify-token.ts'

const { privateKey, publicKey } = await generateKeyPair('ES256')
const keys = createLocalJWKSet({ keys: [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' }] })
const accessToken = 'opaque~1'
/** Of the access token. */
const atHash = 'H_J16kxjUuu2t_62a6k_zg'
const person = { sub: 'ada', postern_tenant: 'harbourline', postern_roles: ['postern-viewer'] }

interface Answer {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string
}
const json = { 'content-type': 'application/json; charset=utf-8' }
const good: Answer = { headers: json, body: JSON.stringify(person) }
/** Undefined: none. */
let answer: Answer | undefined = good
let asked: (string | undefined)[] = []

const server = createServer((request, response) => {
  if (request.url !== '/userinfo') {
    const document = { issuer, jwks_uri: `${issuer}/keys`, userinfo_endpoint: `${issuer}/userinfo` }
    response.writeHead(200, json).end(JSON.stringify(document))
    return
  }
  asked.push(request.headers.authorization)
  if (answer !== undefined) response.writeHead(answer.status ?? 200, answer.headers).end(answer.body)
})
let issuer: string

beforeAll(async () => {
  const listening = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', listening.resolve)
  await listening.promise
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the provider does not listen')
  issuer = `http://127.0.0.1:${address.port}`
})
beforeEach(() => {
  answer = good
  asked = []
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

async function sign(claims: Record<string, unknown>): Promise<string> {
  const exp = Math.floor(Date.now() / 1000) + 300
  return await new SignJWT({ iss: issuer, aud: 'postern-console', sub: 'ada', exp, ...claims })
    .setProtectedHeader({ alg: 'ES256', kid: 'one' })
    .sign(privateKey)
}

async function verify(
  text?: string,
  { read = 'userinfo', reader = createUserinfoReader() } = {},
): ReturnType<typeof verifyToken> {
  const given = text ?? `${await sign({ at_hash: atHash, nonce: 'n' })}~${accessToken}`
  const providers = parseSignIn(JSON.stringify({ providers: [{ name: 'Staff', issuer, read }] }))
  return await verifyToken(given, providers, { keysOf: () => keys, readUserinfo: reader })
}

const valid = { kind: 'valid', person: { subject: 'ada', grants: [{ tenant: 'harbourline', roles: ['viewer'] }] } }

test('the ID token signs in, and the claims are those of the userinfo endpoint', async () => {
  expect(await verify()).toMatchObject(valid)
  expect(asked).toEqual([`Bearer ${accessToken}`])
  // Optional in the code flow.
  expect(await verify(`${await sign({})}~${accessToken}`)).toMatchObject(valid)
})

test('a signed answer is verified', async () => {
  const headers = { 'content-type': 'application/jwt' }
  answer = { headers, body: await sign(person) }
  expect(await verify()).toMatchObject(valid)
  answer = { headers, body: await sign({ ...person, aud: 'mobile' }) }
  await expect(verify()).rejects.toThrow('"aud"')
})

test('claims are read once, and again for another token', async () => {
  const reader = createUserinfoReader()
  const text = `${await sign({ at_hash: atHash })}~${accessToken}`
  await Promise.all([verify(text, { reader }), verify(text, { reader })])
  await verify(text, { reader })
  expect(asked).toHaveLength(1)
  const later = `${await sign({ at_hash: atHash, exp: Math.floor(Date.now() / 1000) + 600 })}~${accessToken}`
  await verify(later, { reader })
  expect(asked).toHaveLength(2)
})

test('after the ID token has expired, remembered claims are not used', async () => {
  const exp = Math.floor(Date.now() / 1000) - 10
  const [reader, text] = [createUserinfoReader(), `${await sign({ at_hash: atHash, exp })}~${accessToken}`]
  // Within the tolerance of the clocks.
  expect([await verify(text, { reader }), await verify(text, { reader })]).toMatchObject([valid, valid])
  expect(asked).toHaveLength(2)
})

describe('a person is refused', () => {
  test.each<readonly [string, Record<string, unknown>, string, object]>([
    ['without an access token', { at_hash: atHash }, '', { code: 'userinfo_token_absent' }],
    ['with the access token of another sign-in', { at_hash: atHash }, '~other', { code: 'userinfo_mismatch' }],
    ['with an at_hash of null', { at_hash: null }, `~${accessToken}`, { code: 'userinfo_mismatch', found: 'null' }],
  ])('%s, and the provider is not asked', async (_what, claims, rest, refusal) => {
    expect(await verify(`${await sign(claims)}${rest}`)).toMatchObject({ kind: 'refused', refusal, isForged: false })
    expect(asked).toEqual([])
  })

  test.each<readonly [string, Answer, object]>([
    [
      'if userinfo is of another person',
      { headers: json, body: JSON.stringify({ ...person, sub: 'eve' }) },
      { code: 'userinfo_mismatch', read: ['/sub'], found: '"eve"', wanted: '"ada"' },
    ],
    [
      'if userinfo names no person',
      { headers: json, body: '{}' },
      { code: 'userinfo_mismatch', read: ['/sub'], found: 'nothing' },
    ],
    [
      'if the endpoint refuses the access token',
      { status: 401, headers: { 'www-authenticate': 'Bearer error="invalid_token"' }, body: '' },
      { code: 'userinfo_refused', found: expect.stringContaining('status 401') },
    ],
    [
      'if userinfo names no tenant',
      { headers: json, body: JSON.stringify({ sub: 'ada' }) },
      { code: 'tenant_claim_absent' },
    ],
  ])('%s', async (_what, given, refusal) => {
    answer = given
    expect(await verify()).toMatchObject({ kind: 'refused', refusal, isForged: false })
  })

  test('with two tokens, if only one is read', async () => {
    const text = `${await sign({ at_hash: atHash, ...person })}~${accessToken}`
    expect(await verify(text, { read: 'id_token' })).toMatchObject({ refusal: { code: 'wrong_token_kind' } })
  })
})

describe('nobody is refused or accepted while userinfo', () => {
  test.each<readonly [string, Answer | undefined, string]>([
    ['is a page', { headers: { 'content-type': 'text/html' }, body: '<p>Sign in' }, 'text/html, not with JSON'],
    ['leads elsewhere', { status: 302, headers: { location: '/login' }, body: '' }, 'fetch failed'],
    ['is an error', { status: 502, body: '' }, 'userinfo answered 502'],
    ['is no JSON', { headers: json, body: '{' }, 'JSON'],
    ['is a list', { headers: json, body: '[]' }, 'expected record'],
    ['is too large', { headers: json, body: `"${'x'.repeat(262_144)}"` }, 'more than 262144 bytes'],
    ['is late', undefined, 'timeout'],
  ])('%s', async (_what, given, message) => {
    answer = given
    await expect(verify()).rejects.toThrow(message)
  })
})
