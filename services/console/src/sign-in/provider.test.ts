import { parseSignIn } from '@postern/sign-in'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type HostileProvider, client, startHostileProvider } from '../../test/hostile-provider.ts'
import { type Provider, ProviderUnavailable, SignInRefused, createProvider } from './provider.ts'

let hostile: HostileProvider
let provider: Provider

function openProvider(): Provider {
  const file = { providers: [{ name: 'Staff', issuer: hostile.issuer, client_id: client.id, scope: 'openid' }] }
  const [settings] = parseSignIn(JSON.stringify(file))
  if (settings === undefined) throw new Error('no provider')
  return createProvider({ ...settings, clientSecret: client.secret }, { url: 'http://127.0.0.1:1' }, Date.now)
}

beforeAll(async () => {
  hostile = await startHostileProvider('0198f6b0-0000-7000-8000-000000000001')
  provider = openProvider()
})
afterAll(async () => await hostile.stop())

describe('a token endpoint that refuses with', () => {
  test.each([
    [400, 'invalid_grant', 'ended', SignInRefused],
    [400, 'interaction_required', 'ended', SignInRefused],
    [400, 'account_selection_required', 'ended', SignInRefused],
    [429, 'too_many_requests', 'unavailable', ProviderUnavailable],
    [408, 'timeout', 'unavailable', ProviderUnavailable],
    [400, 'temporarily_unavailable', 'unavailable', ProviderUnavailable],
    [400, 'server_error', 'unavailable', ProviderUnavailable],
    [503, 'temporarily_unavailable', 'unavailable', ProviderUnavailable],
    // The console's own secret is wrong, so no sign-in is over.
    [400, 'invalid_client', 'unavailable', SignInRefused],
    [403, 'unauthorized_client', 'unavailable', SignInRefused],
  ] as const)('%i %s: a session is %s', async (status, error, kind, failure) => {
    hostile.misdeed = { refusal: { status, error } }
    expect(await provider.refresh('refresh-token', 'person-1')).toMatchObject({ kind })
    const callback = new URL('http://127.0.0.1:1/auth/callback?code=c&state=s')
    const secrets = { state: 's', nonce: 'n', codeVerifier: 'v'.repeat(43) }
    await expect(provider.finish(callback, secrets)).rejects.toBeInstanceOf(failure)
  })
})

test('a refresh token is not redeemed while the keys of the provider cannot be read, because the new one would be lost', async () => {
  const fresh = openProvider()
  const before = hostile.redeemed
  hostile.misdeed = { withoutKeys: true }
  expect(await fresh.refresh('refresh-token', 'person-1')).toMatchObject({ kind: 'unavailable' })
  expect(hostile.redeemed).toBe(before)
  hostile.misdeed = {}
  expect(await fresh.refresh('refresh-token', 'person-1')).toMatchObject({ kind: 'renewed' })
  expect(hostile.redeemed).toBe(before + 1)
})
