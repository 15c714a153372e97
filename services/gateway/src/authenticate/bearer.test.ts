import { personPrincipal } from '../../test/builders.ts'
import { createServer } from 'node:http'
import { randomRing } from '@postern/local-stack/testing'
import { roles } from '@postern/contracts'
import { createLogger } from '@postern/service-kit'
import { parseContext } from '@postern/signed-context'
import { SignJWT, exportJWK, generateKeyPair } from 'jose'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { readConfig } from '../config.ts'
import { createTokenVerifier } from './bearer.ts'
import { tenant } from '../../test/authentication.ts'

const tenantId = '0197a3c0-7c00-7000-8000-000000000001'
const { privateKey, publicKey } = await generateKeyPair('ES256')
const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256', use: 'sig' }

/** By path: what the provider answers. */
const documents = new Map<string, object>()
/** Paths that it was asked for. */
const asked: string[] = []
/** Questions are answered once this has come. */
let answering = Promise.resolve()
const server = createServer((request, response) => {
  asked.push(request.url ?? '')
  void answering.then(() => {
    const document = documents.get(request.url ?? '')
    response.writeHead(document === undefined ? 404 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(document ?? {}))
  })
})
let origin: string

beforeEach(async () => {
  const listening = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', listening.resolve)
  await listening.promise
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the provider does not listen')
  origin = `http://127.0.0.1:${address.port}`
})
afterEach(async () => {
  const closed = Promise.withResolvers<void>()
  server.close(() => closed.resolve())
  server.closeAllConnections()
  await closed.promise
  documents.clear()
  asked.length = 0
  answering = Promise.resolve()
})

/** A provider that is found where `name` says, less a slash at its end, and calls itself `calledItself`. */
function publish(name: string, calledItself = name): void {
  const folder = new URL(name).pathname.replace(/\/$/, '')
  documents.set(`${folder}/.well-known/openid-configuration`, { issuer: calledItself, jwks_uri: `${origin}/keys` })
  documents.set('/keys', { keys: [jwk] })
}

async function tokenOf(
  issuer: string,
  changes: Record<string, unknown> = {},
  header: object = {},
  key = privateKey,
): Promise<string> {
  const claims = { sub: 'ada', exp: secondsNow() + 300, postern_tenant: tenantId, postern_roles: ['postern-admin'] }
  return await new SignJWT({ ...claims, ...changes })
    .setProtectedHeader({ alg: 'ES256', kid: 'one', ...header })
    .setIssuer(issuer)
    .setAudience('postern')
    .sign(key)
}

const secondsNow = (): number => Math.floor(Date.now() / 1000)

const services = ['KEYS', 'FINDINGS', 'UNIVERSE', 'EVIDENCE', 'SYNC'] as const
const rings = [
  ...services.map((name) => `SIGNING_${name}`),
  'ASSERTION_KEYS',
  'INTERNAL_SIGNING_KEYS',
  'CACHE_SIGNING_KEYS',
]

/** What a gateway with this setting takes for a token of the provider. */
function verifierFor(issuer: string, log: Record<string, unknown>[] = []) {
  const { providers } = readConfig({
    POSTERN_REDIS_URL: 'redis://127.0.0.1:6379',
    ...Object.fromEntries(services.map((name) => [`POSTERN_${name}_URL`, 'http://127.0.0.1:8181'])),
    ...Object.fromEntries(rings.map((name) => [`POSTERN_${name}`, randomRing()])),
    POSTERN_OIDC_ISSUER: issuer,
  })
  const write = (line: string): void => void log.push(JSON.parse(line))
  return createTokenVerifier(providers, createLogger({ service: 'gateway', level: 'warn', write }))
}

test.each(['http://sign-in.example', 'http://10.0.0.1:8190', 'http://127.0.0.1.example', 'ftp://x', 'sign-in'])(
  'a gateway does not start with a provider over plain HTTP: %s',
  (issuer) => {
    expect(() => verifierFor(issuer)).toThrow('POSTERN_OIDC_ISSUER')
  },
)

describe('a provider with a final slash in its name', () => {
  test.each(['/', '/realms/audit/', '', '/realms/audit'])('or not is compared literally: …%s', async (path) => {
    const [name, other] = [origin + path, path.endsWith('/') ? origin + path.slice(0, -1) : `${origin}${path}/`]
    publish(name)
    const { verify } = verifierFor(name)
    expect(await verify(await tokenOf(other))).toMatchObject({ kind: 'invalid' })
    expect(await verify(await tokenOf(name))).toMatchObject({
      kind: 'valid',
      token: { subject: 'ada', grants: [{ tenant: tenantId }] },
    })
  })

  test('is not accepted without that slash', async () => {
    publish(origin, `${origin}/`)
    expect(await verifierFor(origin).verify(await tokenOf(origin))).toEqual({ kind: 'unavailable' })
  })
})

describe('the claims of a token', () => {
  test('are used: person, tenant, known roles and expiry', async () => {
    publish(origin)
    const exp = secondsNow() + 300
    const text = await tokenOf(origin, {
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
    const found = await verifierFor(origin).verify(text)
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
  ])('has for a name %s', async (_what, name, expected) => {
    publish(origin)
    expect(await verifierFor(origin).verify(await tokenOf(origin, { name }))).toMatchObject({
      token: { name: expected },
    })
  })

  test.each([
    ['that names nobody', { sub: undefined }, { code: 'subject_invalid', read: ['/sub'], found: 'nothing' }],
    [
      'of another tenant claim',
      { postern_tenant: '*' },
      { code: 'tenant_unknown', read: ['/postern_tenant'], found: '"*"' },
    ],
    ['without a tenant', { postern_tenant: undefined }, { code: 'tenant_claim_absent', read: ['/postern_tenant'] }],
    ['of half a character', { sub: '\ud800' }, { code: 'subject_invalid', found: String.raw`"\ud800"` }],
    ['of a subject too long', { sub: 'x'.repeat(256) }, { code: 'subject_invalid' }],
    ['that ends in milliseconds', { exp: Date.UTC(2100, 0, 1) }, { code: 'expiry_invalid' }],
    ['that has ended', { exp: 1 }, { code: 'token_expired', wanted: 'at most 30 s' }],
  ])('is rejected with a reason if it is one %s', async (_what, changes, refusal) => {
    publish(origin)
    expect(await verifierFor(origin).verify(await tokenOf(origin, changes))).toMatchObject({
      kind: 'invalid',
      refusal,
      isForged: false,
    })
  })

  test.each(['ä', '愛', '😀'])(
    'is passed to services completely, with the longest subject and name of: %s',
    async (text) => {
      publish(origin)
      const sub = text.repeat(255).slice(0, 254)
      const check = await verifierFor(origin).verify(await tokenOf(origin, { sub, name: text.repeat(300) }))
      if (check.kind !== 'valid') throw new Error('the token was refused')
      const { context } = personPrincipal({ ...check.token, roles }, tenant)
      expect(parseContext(context)).toMatchObject({ id: sub, label: check.token.name })
      expect([...check.token.name].length).toBeGreaterThan(99)
    },
  )

  test.each(['x', 'ä', '愛', '😀'])(
    'is passed to services without a name, with the subject shortened like a name, as for %s',
    async (text) => {
      publish(origin)
      const { verify } = verifierFor(origin)
      const sub = text.repeat(255).slice(0, 254)
      const [named, unnamed] = [
        await verify(await tokenOf(origin, { sub, name: sub })),
        await verify(await tokenOf(origin, { sub })),
      ]
      if (named.kind !== 'valid' || unnamed.kind !== 'valid') throw new Error('a token was refused')
      expect(unnamed.token.name).toBe(named.token.name)
      const { context } = personPrincipal({ ...unnamed.token, roles }, tenant)
      expect(parseContext(context)).toMatchObject({ id: sub, label: named.token.name })
    },
  )

  test('may end with the last second of the year 9999', async () => {
    publish(origin)
    const exp = Date.UTC(9999, 11, 31, 23, 59, 59) / 1000
    expect(await verifierFor(origin).verify(await tokenOf(origin, { exp }))).toMatchObject({
      token: { expiresAt: exp * 1000 },
    })
  })

  test('may name a person with 255 characters', async () => {
    publish(origin)
    const sub = 'x'.repeat(255)
    expect(await verifierFor(origin).verify(await tokenOf(origin, { sub }))).toMatchObject({ token: { subject: sub } })
  })

  test('may be 8192 characters long, and no longer', async () => {
    publish(origin)
    const { verify } = verifierFor(origin)
    const ofLength = async (length: number): Promise<string> => {
      for (let more = 0; more < 4; more += 1) {
        const short = await tokenOf(origin, { filler: '' }, { x: 'x'.repeat(more) })
        const filler = 'x'.repeat(Math.floor(((length - short.length) * 3) / 4))
        for (const last of ['', 'x', 'xx']) {
          const text = await tokenOf(origin, { filler: filler + last }, { x: 'x'.repeat(more) })
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
})

describe('a signature by a key pair', () => {
  test.each([
    ['RS256', 'valid'],
    ['PS256', 'valid'],
    ['ES256', 'valid'],
    ['ES384', 'valid'],
    ['EdDSA', 'valid'],
    ['RS384', 'invalid'],
    ['ES512', 'invalid'],
  ])('as %s is %s', async (alg, kind) => {
    const pair = await generateKeyPair(alg)
    publish(origin)
    documents.set('/keys', { keys: [{ ...(await exportJWK(pair.publicKey)), kid: 'one', use: 'sig' }] })
    const text = await tokenOf(origin, {}, { alg }, pair.privateKey)
    expect(await verifierFor(origin).verify(text)).toMatchObject({ kind })
  })
})

function goOn(seconds: number): void {
  vi.setSystemTime(Date.now() + seconds * 1000)
}

const monotonic = performance.now.bind(performance)
let passed = 0

/** So much later for all that counts time without a clock. */
function passOn(milliseconds: number): void {
  passed += milliseconds
  vi.spyOn(performance, 'now').mockImplementation(() => monotonic() + passed)
}

afterEach(() => {
  vi.restoreAllMocks()
  passed = 0
})

describe('as time goes on', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }))
  afterEach(() => void vi.useRealTimers())

  test('a token expires half a minute after its end, to tolerate a fast clock', async () => {
    publish(origin)
    const text = await tokenOf(origin, { exp: secondsNow() + 300 })
    goOn(329)
    expect(await verifierFor(origin).verify(text)).toMatchObject({ kind: 'valid' })
    goOn(1)
    expect(await verifierFor(origin).verify(text)).toMatchObject({ kind: 'invalid' })
  })

  test('a token that was verified before expires at its end', async () => {
    publish(origin)
    const { find, verify } = verifierFor(origin)
    const end = secondsNow() + 300
    const text = await tokenOf(origin, { exp: end })
    expect(find(text)).toBeUndefined()
    expect(await verify(text)).toMatchObject({ kind: 'valid' })
    expect(find(await tokenOf(origin, { exp: secondsNow() + 300, sub: 'bo' }))).toBeUndefined()
    vi.setSystemTime(end * 1000 - 1)
    expect(find(text)).toMatchObject({ subject: 'ada' })
    // Of its memory no time passes: that is not what forgets it.
    vi.setSystemTime(end * 1000)
    expect(find(text)).toBeUndefined()
    goOn(30)
    expect(await verify(text)).toMatchObject({ kind: 'invalid' })
  })

  test('a verified token is accepted for half a minute without another check', async () => {
    publish(origin)
    const { find, verify } = verifierFor(origin)
    const text = await tokenOf(origin, { exp: secondsNow() + 3600 })
    expect(await verify(text)).toMatchObject({ kind: 'valid', token: { subject: 'ada' } })
    documents.clear()
    // By then the keys of the provider would have to be read again.
    goOn(3000)
    expect(find(text)).toMatchObject({ subject: 'ada', grants: [{ tenant: tenantId }] })
    expect(await verify(await tokenOf(origin))).toEqual({ kind: 'unavailable' })
    passOn(30_001)
    expect(find(text)).toBeUndefined()
    expect(await verify(text)).toEqual({ kind: 'unavailable' })
    publish(origin)
    goOn(700)
    passOn(1000)
    expect(await verify(text)).toMatchObject({ kind: 'invalid' })
  })
})

describe('a provider', () => {
  test('that moves its keys is followed, even if the old ones stay available', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    publish(origin)
    const { verify } = verifierFor(origin)
    expect(await verify(await tokenOf(origin))).toMatchObject({ kind: 'valid' })
    const next = await generateKeyPair('ES256')
    documents.set('/.well-known/openid-configuration', { issuer: origin, jwks_uri: `${origin}/next` })
    documents.set('/next', { keys: [{ ...(await exportJWK(next.publicKey)), kid: 'two', alg: 'ES256' }] })
    goOn(6)
    expect(await verify(await tokenOf(origin, {}, { kid: 'two' }, next.privateKey))).toMatchObject({ kind: 'valid' })
    vi.useRealTimers()
  })

  test('is asked once for all waiting tokens, and its failure is logged once', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    answering = promise
    const log: Record<string, unknown>[] = []
    const { verify } = verifierFor(origin, log)
    const text = await tokenOf(origin)
    const checks = Array.from({ length: 20 }, async () => await verify(text))
    await vi.waitFor(() => expect(asked).toHaveLength(1), { timeout: 20_000 })
    resolve()
    expect(new Set((await Promise.all(checks)).map(({ kind }) => kind))).toEqual(new Set(['unavailable']))
    expect([asked.length, log.length]).toEqual([1, 1])
  })

  test.each([
    ['is no token', 'x'],
    ['has no algorithm', `${Buffer.from('{}').toString('base64url')}.e30.x`],
    ['has another one', `${Buffer.from('{"alg":"HS256"}').toString('base64url')}.e30.x`],
  ])('is not asked for what %s', async (_what, text) => {
    publish(origin)
    expect(await verifierFor(origin).verify(text)).toMatchObject({ kind: 'invalid' })
    expect(asked).toEqual([])
  })

  test('that has a new key is asked for it within five seconds', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    publish(origin)
    const log: Record<string, unknown>[] = []
    const { verify } = verifierFor(origin, log)
    expect(await verify(await tokenOf(origin))).toMatchObject({ kind: 'valid' })
    const next = await generateKeyPair('ES256')
    documents.set('/keys', { keys: [jwk, { ...(await exportJWK(next.publicKey)), kid: 'two', alg: 'ES256' }] })
    const text = await tokenOf(origin, {}, { kid: 'two' }, next.privateKey)
    const before = asked.length
    expect(await verify(text)).toMatchObject({ kind: 'invalid' })
    expect(asked).toHaveLength(before)
    goOn(6)
    expect(await verify(text)).toMatchObject({ kind: 'valid' })
    vi.useRealTimers()
    expect(log).toEqual([])
  })
})

describe('an unavailable provider leaves a token neither valid nor invalid, and is logged:', () => {
  test.each<readonly [string, () => void, object]>([
    ['it is not found', () => undefined, { message: 'discovery answered 404' }],
    [
      'it calls itself otherwise',
      () => publish(origin, 'https://elsewhere.example'),
      {
        message: expect.stringMatching(
          /^discovery names another issuer: found "https:\/\/elsewhere.example", wanted "h/,
        ),
      },
    ],
    [
      'it says nothing of its keys',
      () => documents.set('/.well-known/openid-configuration', { issuer: origin }),
      { type: 'ZodError' },
    ],
    [
      'its keys are elsewhere, over plain HTTP',
      () => {
        publish(origin)
        const elsewhere = { issuer: origin, jwks_uri: 'http://elsewhere.example/keys' }
        documents.set('/.well-known/openid-configuration', elsewhere)
      },
      { message: 'discovery names keys over plain HTTP' },
    ],
    [
      'its keys are not found',
      () => {
        publish(origin)
        documents.delete('/keys')
      },
      { message: 'key set answered 404' },
    ],
    [
      'its keys are none',
      () => {
        publish(origin)
        documents.set('/keys', {})
      },
      { type: 'ZodError' },
    ],
    [
      'its key set is larger than a mebibyte',
      () => {
        publish(origin)
        documents.set('/keys', { keys: [], padding: 'x'.repeat(1_048_576) })
      },
      { message: 'key set answered with more than 1048576 bytes' },
    ],
  ])('%s', async (_what, prepare, err) => {
    prepare()
    const log: Record<string, unknown>[] = []
    const { verify } = verifierFor(origin, log)
    expect(await verify(await tokenOf(origin))).toEqual({ kind: 'unavailable' })
    expect(log).toMatchObject([{ event: 'token_check_unavailable', err }])
  })

  test('it takes longer than three seconds, which is logged once', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    answering = promise
    const log: Record<string, unknown>[] = []
    const { verify } = verifierFor(origin, log)
    const text = await tokenOf(origin)
    const checks = [await verify(text), await verify(text), ...(await Promise.all([verify(text), verify(text)]))]
    resolve()
    expect(new Set(checks.map(({ kind }) => kind))).toEqual(new Set(['unavailable']))
    expect(log).toMatchObject([
      { err: { message: 'the provider takes too long to answer', cause: { type: 'TimeoutError' } } },
    ])
    expect(asked).toHaveLength(1)
  })

  test('it is asked again after a second', async () => {
    const log: Record<string, unknown>[] = []
    const { verify } = verifierFor(origin, log)
    expect(await verify(await tokenOf(origin))).toEqual({ kind: 'unavailable' })
    publish(origin)
    expect(await verify(await tokenOf(origin))).toEqual({ kind: 'unavailable' })
    expect([asked.length, log.length]).toEqual([1, 1])
    passOn(1000)
    expect(await verify(await tokenOf(origin))).toMatchObject({ kind: 'valid' })
  })
})
