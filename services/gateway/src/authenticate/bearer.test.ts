import { roles } from '@postern/contracts'
import { parseContext } from '@postern/signed-context'
import { exportJWK, generateKeyPair } from 'jose'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { tenant } from '../../test/authentication.ts'
import { personPrincipal } from '../../test/builders.ts'
import { advanceClock, secondsNow, tenantId, useTokenProvider } from '../../test/token-provider.ts'

const { documents, origin, publish, tokenOf, verifierFor, passTime } = await useTokenProvider()

test.each(['http://sign-in.example', 'http://10.0.0.1:8190', 'http://127.0.0.1.example', 'ftp://x', 'sign-in'])(
  'a gateway does not start with a provider over plain HTTP: %s',
  (issuer) => {
    expect(() => verifierFor(issuer)).toThrow('POSTERN_OIDC_ISSUER')
  },
)

test.each(['/', '/realms/audit/', '', '/realms/audit'])(
  'an issuer is compared literally, with or without a final slash: …%s',
  async (path) => {
    const [name, other] = [origin() + path, path.endsWith('/') ? origin() + path.slice(0, -1) : `${origin()}${path}/`]
    publish(name)
    const { verify } = verifierFor(name)
    expect(await verify(await tokenOf(other))).toMatchObject({ kind: 'invalid' })
    expect(await verify(await tokenOf(name))).toMatchObject({
      kind: 'valid',
      token: { subject: 'ada', grants: [{ tenant: tenantId }] },
    })
  },
)

test('a provider that names itself with a final slash is not accepted without it', async () => {
  publish(origin(), `${origin()}/`)
  expect(await verifierFor(origin()).verify(await tokenOf(origin()))).toEqual({ kind: 'unavailable' })
})

test('a token gives the person, tenant, known roles and expiry', async () => {
  publish(origin())
  const exp = secondsNow() + 300
  const text = await tokenOf(origin(), {
    exp,
    name: 'Ada L.',
    postern_roles: ['superuser', 'postern-viewer', 'postern-admin'],
  })
  const token = {
    subject: 'ada',
    name: 'Ada L.',
    isMachine: false,
    grants: [{ tenant: tenantId, roles: expect.any(Array) }],
    tenantFrom: '/postern_tenant',
    withoutRoles: undefined,
    inDirectory: undefined,
    expiresAt: exp * 1000,
    // The default tolerance of 30 s.
    acceptedUntil: exp * 1000 + 30_000,
  }
  const found = await verifierFor(origin()).verify(text)
  expect(found).toEqual({ kind: 'valid', token })
  expect(found.kind === 'valid' && found.token.grants[0]?.roles.toSorted()).toEqual(['admin', 'viewer'])
})

test.each([
  ['the subject without a name', undefined, 'ada'],
  ['the subject if the name is not text', 7, 'ada'],
  ['its first 200 characters', 'x'.repeat(201), 'x'.repeat(200)],
  ['well-formed text, whatever was sent', '\ud800', '\ufffd'],
  ['text that PostgreSQL takes', 'Ada\0L.', 'Ada\ufffdL.'],
  ['whole characters', `${'x'.repeat(199)}😀`, 'x'.repeat(199)],
  ['the subject if the name is empty', '', 'ada'],
])('the name of a person is %s', async (_what, name, expected) => {
  publish(origin())
  expect(await verifierFor(origin()).verify(await tokenOf(origin(), { name }))).toMatchObject({
    token: { name: expected },
  })
})

test.each([
  ['without a subject', { sub: undefined }, { code: 'subject_invalid', read: ['/sub'], found: 'nothing' }],
  [
    'with an invalid tenant',
    { postern_tenant: '*' },
    { code: 'tenant_unknown', read: ['/postern_tenant'], found: '"*"' },
  ],
  ['without a tenant', { postern_tenant: undefined }, { code: 'tenant_claim_absent', read: ['/postern_tenant'] }],
  ['with half a character in its subject', { sub: '\ud800' }, { code: 'subject_invalid', found: String.raw`"\ud800"` }],
  ['with a subject that is too long', { sub: 'x'.repeat(256) }, { code: 'subject_invalid' }],
  ['with an expiry in milliseconds', { exp: Date.UTC(2100, 0, 1) }, { code: 'expiry_invalid' }],
  ['that has expired', { exp: 1 }, { code: 'token_expired', wanted: 'at most 30 s' }],
])('a token %s is rejected with a reason', async (_what, changes, refusal) => {
  publish(origin())
  expect(await verifierFor(origin()).verify(await tokenOf(origin(), changes))).toMatchObject({
    kind: 'invalid',
    refusal,
    isForged: false,
  })
})

test.each(['ä', '愛', '😀'])('the longest subject and name are passed to services completely: %s', async (text) => {
  publish(origin())
  const sub = text.repeat(255).slice(0, 254)
  const check = await verifierFor(origin()).verify(await tokenOf(origin(), { sub, name: text.repeat(300) }))
  if (check.kind !== 'valid') throw new Error('the token was refused')
  const { context } = personPrincipal({ ...check.token, roles }, tenant)
  expect(parseContext(context)).toMatchObject({ id: sub, label: check.token.name })
  expect([...check.token.name].length).toBeGreaterThan(99)
})

test.each(['x', 'ä', '愛', '😀'])(
  'without a name, services receive the subject shortened like a name: %s',
  async (text) => {
    publish(origin())
    const { verify } = verifierFor(origin())
    const sub = text.repeat(255).slice(0, 254)
    const [named, unnamed] = [
      await verify(await tokenOf(origin(), { sub, name: sub })),
      await verify(await tokenOf(origin(), { sub })),
    ]
    if (named.kind !== 'valid' || unnamed.kind !== 'valid') throw new Error('a token was refused')
    expect(unnamed.token.name).toBe(named.token.name)
    const { context } = personPrincipal({ ...unnamed.token, roles }, tenant)
    expect(parseContext(context)).toMatchObject({ id: sub, label: named.token.name })
  },
)

test('a token may expire with the last second of the year 9999', async () => {
  publish(origin())
  const exp = Date.UTC(9999, 11, 31, 23, 59, 59) / 1000
  expect(await verifierFor(origin()).verify(await tokenOf(origin(), { exp }))).toMatchObject({
    token: { expiresAt: exp * 1000 },
  })
})

test('a subject may have 255 characters', async () => {
  publish(origin())
  const sub = 'x'.repeat(255)
  expect(await verifierFor(origin()).verify(await tokenOf(origin(), { sub }))).toMatchObject({
    token: { subject: sub },
  })
})

test('a token may be 8192 characters long, and no longer', async () => {
  publish(origin())
  const { verify } = verifierFor(origin())
  const ofLength = async (length: number): Promise<string> => {
    for (let more = 0; more < 4; more += 1) {
      const short = await tokenOf(origin(), { filler: '' }, { x: 'x'.repeat(more) })
      const filler = 'x'.repeat(Math.floor(((length - short.length) * 3) / 4))
      for (const last of ['', 'x', 'xx']) {
        const text = await tokenOf(origin(), { filler: filler + last }, { x: 'x'.repeat(more) })
        if (text.length === length) return text
      }
    }
    throw new Error('no token is so long')
  }
  expect(await verify(await ofLength(8192))).toMatchObject({ kind: 'valid' })
  expect(await verify(await ofLength(8193))).toMatchObject({
    kind: 'invalid',
    refusal: { code: 'token_too_long' },
  })
})

test.each([
  ['RS256', 'valid'],
  ['PS256', 'valid'],
  ['ES256', 'valid'],
  ['ES384', 'valid'],
  ['EdDSA', 'valid'],
  ['RS384', 'invalid'],
  ['ES512', 'invalid'],
])('a signature with %s is %s', async (alg, kind) => {
  const pair = await generateKeyPair(alg)
  publish(origin())
  documents.set('/keys', { keys: [{ ...(await exportJWK(pair.publicKey)), kid: 'one', use: 'sig' }] })
  const text = await tokenOf(origin(), {}, { alg }, pair.privateKey)
  expect(await verifierFor(origin()).verify(text)).toMatchObject({ kind })
})

describe('as time goes on', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }))
  afterEach(() => void vi.useRealTimers())

  test('a token expires half a minute after its end, to tolerate a fast clock', async () => {
    publish(origin())
    const text = await tokenOf(origin(), { exp: secondsNow() + 300 })
    advanceClock(329)
    expect(await verifierFor(origin()).verify(text)).toMatchObject({ kind: 'valid' })
    advanceClock(1)
    expect(await verifierFor(origin()).verify(text)).toMatchObject({ kind: 'invalid' })
  })

  test('a token that was verified before expires at its end', async () => {
    publish(origin())
    const { find, verify } = verifierFor(origin())
    const end = secondsNow() + 300
    const text = await tokenOf(origin(), { exp: end })
    expect(find(text)).toBeUndefined()
    expect(await verify(text)).toMatchObject({ kind: 'valid' })
    expect(find(await tokenOf(origin(), { exp: secondsNow() + 300, sub: 'bo' }))).toBeUndefined()
    vi.setSystemTime(end * 1000 - 1)
    expect(find(text)).toMatchObject({ subject: 'ada' })
    // The cache did not expire: it uses the monotonic clock.
    vi.setSystemTime(end * 1000)
    expect(find(text)).toBeUndefined()
    advanceClock(30)
    expect(await verify(text)).toMatchObject({ kind: 'invalid' })
  })

  test('a verified token is accepted for half a minute without another check', async () => {
    publish(origin())
    const { find, verify } = verifierFor(origin())
    const text = await tokenOf(origin(), { exp: secondsNow() + 3600 })
    expect(await verify(text)).toMatchObject({ kind: 'valid', token: { subject: 'ada' } })
    documents.clear()
    // A new check would have to read the provider's keys again.
    advanceClock(3000)
    expect(find(text)).toMatchObject({ subject: 'ada', grants: [{ tenant: tenantId }] })
    expect(await verify(await tokenOf(origin()))).toEqual({ kind: 'unavailable' })
    passTime(30_001)
    expect(find(text)).toBeUndefined()
    expect(await verify(text)).toEqual({ kind: 'unavailable' })
    publish(origin())
    advanceClock(700)
    passTime(1000)
    expect(await verify(text)).toMatchObject({ kind: 'invalid' })
  })
})
