import { exportJWK, generateKeyPair } from 'jose'
import { expect, test, vi } from 'vitest'
import { advanceClock, useTokenProvider } from '../../test/token-provider.ts'

const { jwk, documents, requested, origin, publish, tokenOf, verifierFor, holdAnswers, passTime } =
  await useTokenProvider()

test('a provider that moves its keys is followed, even if the old ones stay available', async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  publish(origin())
  const { verify } = verifierFor(origin())
  expect(await verify(await tokenOf(origin()))).toMatchObject({ kind: 'valid' })
  const next = await generateKeyPair('ES256')
  documents.set('/.well-known/openid-configuration', { issuer: origin(), jwks_uri: `${origin()}/next` })
  documents.set('/next', { keys: [{ ...(await exportJWK(next.publicKey)), kid: 'two', alg: 'ES256' }] })
  advanceClock(6)
  expect(await verify(await tokenOf(origin(), {}, { kid: 'two' }, next.privateKey))).toMatchObject({ kind: 'valid' })
  vi.useRealTimers()
})

test('a provider is asked once for all waiting tokens, and its failure is logged once', async () => {
  const resolve = holdAnswers()
  const log: Record<string, unknown>[] = []
  const { verify } = verifierFor(origin(), log)
  const text = await tokenOf(origin())
  const checks = Array.from({ length: 20 }, async () => await verify(text))
  await vi.waitFor(() => expect(requested).toHaveLength(1), { timeout: 20_000 })
  resolve()
  expect(new Set((await Promise.all(checks)).map(({ kind }) => kind))).toEqual(new Set(['unavailable']))
  expect([requested.length, log.length]).toEqual([1, 1])
})

test.each([
  ['is no token', 'x'],
  ['has no algorithm', `${Buffer.from('{}').toString('base64url')}.e30.x`],
  ['has the algorithm HS256', `${Buffer.from('{"alg":"HS256"}').toString('base64url')}.e30.x`],
])('a provider is not asked about a text that %s', async (_what, text) => {
  publish(origin())
  expect(await verifierFor(origin()).verify(text)).toMatchObject({ kind: 'invalid' })
  expect(requested).toEqual([])
})

test('a new key of a provider is accepted within five seconds', async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  publish(origin())
  const log: Record<string, unknown>[] = []
  const { verify } = verifierFor(origin(), log)
  expect(await verify(await tokenOf(origin()))).toMatchObject({ kind: 'valid' })
  const next = await generateKeyPair('ES256')
  documents.set('/keys', { keys: [jwk, { ...(await exportJWK(next.publicKey)), kid: 'two', alg: 'ES256' }] })
  const text = await tokenOf(origin(), {}, { kid: 'two' }, next.privateKey)
  const before = requested.length
  expect(await verify(text)).toMatchObject({ kind: 'invalid' })
  expect(requested).toHaveLength(before)
  advanceClock(6)
  expect(await verify(text)).toMatchObject({ kind: 'valid' })
  vi.useRealTimers()
  expect(log).toEqual([])
})

test.each<readonly [string, () => void, object]>([
  ['discovery is not found', () => undefined, { message: 'discovery answered 404' }],
  [
    'discovery names another issuer',
    () => publish(origin(), 'https://elsewhere.example'),
    {
      message: expect.stringMatching(/^discovery names another issuer: found "https:\/\/elsewhere.example", wanted "h/),
    },
  ],
  [
    'discovery names no keys',
    () => documents.set('/.well-known/openid-configuration', { issuer: origin() }),
    { type: 'ZodError' },
  ],
  [
    'keys are elsewhere, over plain HTTP,',
    () => {
      publish(origin())
      const elsewhere = { issuer: origin(), jwks_uri: 'http://elsewhere.example/keys' }
      documents.set('/.well-known/openid-configuration', elsewhere)
    },
    { message: 'discovery names keys over plain HTTP' },
  ],
  [
    'keys are not found',
    () => {
      publish(origin())
      documents.delete('/keys')
    },
    { message: 'key set answered 404' },
  ],
  [
    'key set is invalid',
    () => {
      publish(origin())
      documents.set('/keys', {})
    },
    { type: 'ZodError' },
  ],
  [
    'key set is larger than a mebibyte',
    () => {
      publish(origin())
      documents.set('/keys', { keys: [], padding: 'x'.repeat(1_048_576) })
    },
    { message: 'key set answered with more than 1048576 bytes' },
  ],
])('a provider whose %s makes tokens neither valid nor invalid, and is logged', async (_what, prepare, err) => {
  prepare()
  const log: Record<string, unknown>[] = []
  const { verify } = verifierFor(origin(), log)
  expect(await verify(await tokenOf(origin()))).toEqual({ kind: 'unavailable' })
  expect(log).toMatchObject([{ event: 'token_check_unavailable', err }])
})

test('a provider that takes longer than three seconds is asked once, and that is logged once', async () => {
  const resolve = holdAnswers()
  const log: Record<string, unknown>[] = []
  const { verify } = verifierFor(origin(), log)
  const text = await tokenOf(origin())
  const checks = [await verify(text), await verify(text), ...(await Promise.all([verify(text), verify(text)]))]
  resolve()
  expect(new Set(checks.map(({ kind }) => kind))).toEqual(new Set(['unavailable']))
  expect(log).toMatchObject([
    { err: { message: 'the provider takes too long to answer', cause: { type: 'TimeoutError' } } },
  ])
  expect(requested).toHaveLength(1)
})

test('an unavailable provider is asked again after a second', async () => {
  const log: Record<string, unknown>[] = []
  const { verify } = verifierFor(origin(), log)
  expect(await verify(await tokenOf(origin()))).toEqual({ kind: 'unavailable' })
  publish(origin())
  expect(await verify(await tokenOf(origin()))).toEqual({ kind: 'unavailable' })
  expect([requested.length, log.length]).toEqual([1, 1])
  passTime(1000)
  expect(await verify(await tokenOf(origin()))).toMatchObject({ kind: 'valid' })
})
