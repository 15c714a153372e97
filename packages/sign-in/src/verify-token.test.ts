import { SignJWT, createLocalJWKSet, exportJWK, generateKeyPair } from 'jose'
import { describe, expect, test } from 'vitest'
import { explainRefusal } from './refusal.ts'
import { parseSignIn } from './settings.ts'
import { createUserinfoReader } from './userinfo.ts'
import { inspectToken, verifyToken } from './verify-token.ts'

const { privateKey, publicKey } = await generateKeyPair('ES256')
const keys = createLocalJWKSet({ keys: [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' }] })
const seconds = (fromNow: number): number => Math.floor(Date.now() / 1000) + fromNow
const usual = {
  iss: 'https://sso.example',
  aud: 'postern',
  sub: 'ada',
  exp: seconds(300),
  postern_tenant: 'harbourline',
  postern_roles: ['postern-viewer'],
}

async function tokenOf(changes: Record<string, unknown> = {}, header: object = {}): Promise<string> {
  return await new SignJWT({ ...usual, ...changes })
    .setProtectedHeader({ alg: 'ES256', kid: 'one', ...header })
    .sign(privateKey)
}

function providersWith(settings: object = {}) {
  const staff = { name: 'Staff', issuer: 'https://sso.example', audience: ['postern', 'other'], ...settings }
  const partners = { name: 'Partners', issuer: 'https://partners.example', person_prefix: 'partners:' }
  return parseSignIn(JSON.stringify({ providers: [staff, partners] }))
}

const sources = { keysOf: () => keys, readUserinfo: createUserinfoReader() }
const verify = async (text: string, settings?: object) => await verifyToken(text, providersWith(settings), sources)

test('a token of one of the providers is read with the settings of its issuer', async () => {
  expect(await verify(await tokenOf())).toMatchObject({
    kind: 'valid',
    person: { subject: 'ada', grants: [{ tenant: 'harbourline', roles: ['viewer'] }] },
    expiresAt: usual.exp * 1000,
    provider: { name: 'Staff' },
  })
  expect(await verify(await tokenOf({ aud: ['x', 'other'] }))).toMatchObject({ kind: 'valid' })
  const partner = await tokenOf({ iss: 'https://partners.example' })
  expect(await verify(partner)).toMatchObject({ person: { subject: 'partners:ada' }, provider: { name: 'Partners' } })
})

describe('a refused token has a code, with what was found and what is wanted:', () => {
  test.each<readonly [string, () => string | Promise<string>, object]>([
    ['an opaque token', () => 'opaque', { code: 'not_a_jwt' }],
    [
      'another issuer',
      () => tokenOf({ iss: 'https://sso.example/' }),
      {
        code: 'other_issuer',
        found: '"https://sso.example/"',
        wanted: 'https://sso.example or https://partners.example',
      },
    ],
    [
      'another audience',
      () => tokenOf({ aud: 'account' }),
      { code: 'other_audience', found: '"account"', wanted: '"postern" or "other"' },
    ],
    ['no audience', () => tokenOf({ aud: undefined }), { code: 'other_audience', found: 'nothing' }],
    ['an old token', () => tokenOf({ exp: seconds(-60) }), { code: 'token_expired', wanted: 'at most 30 s' }],
    ['a clock that is ahead', () => tokenOf({ nbf: seconds(60) }), { code: 'token_not_yet_valid' }],
    ['an ID token', () => tokenOf({ nonce: 'n' }), { code: 'wrong_token_kind', found: 'id_token' }],
    ['a logout token', () => tokenOf({ events: {} }), { code: 'wrong_token_kind', found: 'logout_token' }],
  ])('%s', async (_what, make, refusal) => {
    const text = await make()
    expect(await verify(text)).toMatchObject({ kind: 'refused', refusal, isForged: false })
    expect(await inspectToken(text, providersWith(), Date.now(), sources)).toMatchObject({ kind: 'refused', refusal })
  })

  test.each<readonly [string, () => Promise<string>, object, boolean]>([
    ['a key of nobody', () => tokenOf({}, { kid: 'two' }), { code: 'unknown_key', found: 'kid "two"' }, false],
    [
      'other claims',
      async () =>
        (await tokenOf()).replace(
          /\.[^.]+\./,
          `.${Buffer.from(JSON.stringify({ ...usual, sub: 'eve' })).toString('base64url')}.`,
        ),
      { code: 'signature_invalid' },
      true,
    ],
  ])('%s', async (_what, make, refusal, isForged) => {
    expect(await verify(await make())).toMatchObject({ kind: 'refused', refusal, isForged })
  })

  test('a clock that is 60 s ahead, by how much', async () => {
    const check = await verify(await tokenOf({ nbf: seconds(61) }))
    if (check.kind !== 'refused') throw new Error('the token was accepted')
    expect(explainRefusal(check.refusal)).toMatch(
      /^The token is not valid yet \(read from \/nbf\): found valid in (?:59|60|61) s, wanted at most 30 s\. Correct the clocks/,
    )
  })
})

describe('with `read: id_token`', () => {
  const settings = { read: 'id_token', client_id: 'console', audience: undefined }

  test('the ID token of the client signs in, and its audience is the client', async () => {
    const text = await tokenOf({ aud: 'console', azp: 'console', nonce: 'n' })
    expect(await verify(text, settings)).toMatchObject({ kind: 'valid' })
  })

  test.each<readonly [string, Record<string, unknown>, object, object]>([
    ['of another client', { aud: 'mobile' }, {}, { code: 'other_audience', wanted: '"console"' }],
    [
      'that another client asked for',
      { aud: 'console', azp: 'mobile' },
      {},
      { code: 'other_audience', found: '"mobile"' },
    ],
    [
      'that is an access token',
      { aud: 'console' },
      { typ: 'at+jwt' },
      { code: 'wrong_token_kind', found: 'access_token' },
    ],
    ['that is an access token of Keycloak', { aud: 'console', typ: 'Bearer' }, {}, { code: 'wrong_token_kind' }],
  ])('a token %s is refused', async (_what, changes, header, refusal) => {
    expect(await verify(await tokenOf(changes, header), settings)).toMatchObject({ kind: 'refused', refusal })
  })
})

const unreachable = async () => await Promise.reject(new Error('the provider is away'))

test('keys that cannot be read refuse no token', async () => {
  await expect(
    verifyToken(await tokenOf(), providersWith(), { ...sources, keysOf: () => unreachable }),
  ).rejects.toThrow('away')
})
