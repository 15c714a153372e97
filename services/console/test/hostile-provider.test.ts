import { type TestBrowser, createTestBrowser, findFreePort } from '@postern/local-stack/testing'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type HostileProvider, type Misdeed, client, startHostileProvider } from './hostile-provider.ts'
import { startConsole } from '../src/service.ts'
import { maxOpenRedemptions } from '../src/sign-in/provider.ts'
import { type ConsoleSystem, codeOf, readSession, startConsoleSystem, tenants } from './support.ts'

let provider: HostileProvider
let system: ConsoleSystem

beforeAll(async () => {
  provider = await startHostileProvider(tenants.harbourline)
  system = await startConsoleSystem({
    POSTERN_OIDC_ISSUER: provider.issuer,
    POSTERN_OIDC_CLIENT_ID: client.id,
    POSTERN_OIDC_CLIENT_SECRET: client.secret,
  })
})
afterAll(async () => {
  await system.stop()
  await provider.stop()
})
beforeEach(() => {
  provider.misdeed = {}
})

async function signIn(browser: TestBrowser, misdeed: Misdeed): Promise<number> {
  provider.misdeed = misdeed
  const { url } = await browser.visit(`${system.url}/auth/login`, { until: (each) => each.startsWith(provider.issuer) })
  const parameters = new URL(url).searchParams
  provider.nonce = parameters.get('nonce') ?? ''
  return (await browser.send(`${system.url}/auth/callback?code=c&state=${parameters.get('state')}`)).status
}

async function isSignedIn(browser: TestBrowser): Promise<boolean> {
  return (await browser.send(`${system.url}/auth/session`)).status === 200
}

describe('an ID token signs nobody in', () => {
  const hour = 3600
  const misdeeds: readonly (readonly [string, Misdeed])[] = [
    ['with the nonce of another sign-in', { claims: { nonce: 'x'.repeat(43) } }],
    ['without a nonce', { drop: ['nonce'] }],
    ['of another issuer', { claims: { iss: 'https://elsewhere.example' } }],
    ['for another client', { claims: { aud: 'something-else' } }],
    ['that has expired', { claims: { exp: Math.floor(Date.now() / 1000) - hour } }],
    ['without a subject', { drop: ['sub'] }],
    ['that is signed by another key', { foreignKey: true }],
    ['that is not signed', { unsigned: true }],
    ['that is signed with the client’s secret', { symmetric: true }],
  ]
  test.each(misdeeds)('%s', async (_title, misdeed) => {
    const browser = createTestBrowser()
    expect([await signIn(browser, misdeed), await isSignedIn(browser)]).toEqual([403, false])
  })

  test('a valid ID token signs in (control)', async () => {
    const browser = createTestBrowser()
    expect([await signIn(browser, {}), await isSignedIn(browser)]).toEqual([303, true])
  })
})

test('after the provider rotated its key, people sign in at once, and a foreign key still signs nobody in', async () => {
  expect(await signIn(createTestBrowser(), {})).toBe(303)
  await provider.rotateKey()
  expect(await signIn(createTestBrowser(), {})).toBe(303)
  const browser = createTestBrowser()
  expect([await signIn(browser, { foreignKey: true }), await isSignedIn(browser)]).toEqual([403, false])
})

test('sign-ins that wait for the provider do not pile up', async () => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  let waiting = 0
  const misdeed = {
    refusal: { status: 400, error: 'invalid_grant' },
    meanwhile: async () => {
      waiting += 1
      await released
    },
  }
  const held = Array.from({ length: maxOpenRedemptions }, async () => await signIn(createTestBrowser(), misdeed))
  await expect.poll(() => waiting, { timeout: 60_000 }).toBe(maxOpenRedemptions)
  expect(await signIn(createTestBrowser(), misdeed)).toBe(503)
  release()
  expect(new Set(await Promise.all(held))).toEqual(new Set([403]))
  // Those that have ended do not count (control).
  expect(await signIn(createTestBrowser(), {})).toBe(303)
})

const logoutEvent = 'http://schemas.openid.net/event/backchannel-logout'

const post = async (token: string, url = system.url) =>
  await createTestBrowser().send(`${url}/auth/backchannel-logout`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ logout_token: token }).toString(),
  })

describe('a logout token ends no session', () => {
  const misdeeds: readonly (readonly [string, Misdeed])[] = [
    ['of another issuer', { claims: { iss: 'https://elsewhere.example' } }],
    ['for another client', { claims: { aud: 'something-else' } }],
    ['that was issued an hour ago', { claims: { iat: Math.floor(Date.now() / 1000) - 3600 } }],
    ['with a nonce, hence an ID token', { claims: { nonce: 'x' } }],
    ['without the event', { claims: { events: {} } }],
    ['without events', { drop: ['events'] }],
    ['whose event is no object', { claims: { events: { [logoutEvent]: true } } }],
    ['that has expired', { claims: { exp: Math.floor(Date.now() / 1000) - 60 } }],
    ['without an id', { drop: ['jti'] }],
    ['that names nobody', { drop: ['sid'] }],
    ['that is signed by another key', { foreignKey: true }],
    ['that is not signed', { unsigned: true }],
    ['that is signed with the client’s secret', { symmetric: true }],
  ]
  test.each(misdeeds)('%s', async (_title, misdeed) => {
    const browser = createTestBrowser()
    await signIn(browser, {})
    const answer = await post(await provider.logoutToken(misdeed))
    expect([answer.status, codeOf(answer.text), answer.headers['cache-control']]).toEqual([
      400,
      'bad_request',
      'no-store',
    ])
    expect(await isSignedIn(browser)).toBe(true)
  })

  test('twice, but once', async () => {
    const first = createTestBrowser()
    await signIn(first, {})
    const token = await provider.logoutToken()
    expect((await post(token)).status).toBe(200)
    expect(await isSignedIn(first)).toBe(false)
    const next = createTestBrowser()
    await signIn(next, {})
    expect((await post(token)).status).toBe(400)
    expect(await isSignedIn(next)).toBe(true)
  })
})

describe('a logout token', () => {
  test.each([
    ['a sign-in (sid)', {}],
    ['a person (sub)', { claims: { sub: 'person-1' }, drop: ['sid'] }],
    ['both', { claims: { sub: 'person-1' } }],
  ] satisfies [string, Misdeed][])('that names %s ends the session in every console process', async (_title, names) => {
    const port = await findFreePort()
    const second = await startConsole({ ...system.env, POSTERN_PORT: String(port) }, { writeLog: () => {} })
    const [one, other] = [createTestBrowser(), createTestBrowser()]
    await signIn(other, {})
    await signIn(one, {})
    const asked = async (who: TestBrowser, url: string) => {
      const { host } = new URL(system.url)
      const cookie = `postern-session=${who.cookies.get(`${host} postern-session`)}`
      return (await createTestBrowser().send(`${url}/auth/session`, { headers: { cookie, host } })).status
    }
    const urls = [system.url, `http://127.0.0.1:${port}`]
    expect(await Promise.all(urls.map(async (url) => await asked(one, url)))).toEqual([200, 200])
    expect((await post(await provider.logoutToken(names))).status).toBe(200)
    expect(await Promise.all(urls.map(async (url) => await asked(one, url)))).toEqual([401, 401])
    // Another sign-in of the person ends only if the notice names the person alone.
    expect(await asked(other, system.url)).toBe('drop' in names ? 401 : 200)
    await second.close()
  })

  test('that names a sign-in and a person ends sessions to which the provider gave no sid', async () => {
    const browser = createTestBrowser()
    await signIn(browser, { withoutSid: true })
    expect((await post(await provider.logoutToken())).status).toBe(200)
    expect(await isSignedIn(browser)).toBe(true)
    expect((await post(await provider.logoutToken({ claims: { sub: 'person-1' } }))).status).toBe(200)
    expect(await isSignedIn(browser)).toBe(false)
  })

  test.each([
    ['another sign-in', { claims: { sid: 'another', sub: 'person-1' } }],
    ['another person', { claims: { sub: 'person-2' }, drop: ['sid'] }],
  ] satisfies [string, Misdeed][])('of %s ends no session', async (_title, names) => {
    const browser = createTestBrowser()
    await signIn(browser, {})
    expect((await post(await provider.logoutToken(names))).status).toBe(200)
    expect(await isSignedIn(browser)).toBe(true)
  })

  test.each([
    ['a sign-in', {}],
    ['a person', { claims: { sub: 'person-1' }, drop: ['sid'] }],
  ] satisfies [string, Misdeed][])(
    'that arrives during the sign-in of %s prevents the session',
    async (_title, names) => {
      const browser = createTestBrowser()
      const meanwhile = async () => {
        expect((await post(await provider.logoutToken(names))).status).toBe(200)
      }
      expect([await signIn(browser, { meanwhile }), await isSignedIn(browser)]).toEqual([403, false])
      // Not the next sign-in.
      expect([await signIn(browser, {}), await isSignedIn(browser)]).toEqual([303, true])
    },
  )
})

test('a session without a refresh token says that it ends with its access token', async () => {
  const browser = createTestBrowser()
  await signIn(browser, {})
  const { expires_at: end, idle_expires_at: idleEnd } = await readSession(browser, system.url)
  expect(idleEnd).toBe(end)
  expect(Math.abs(Date.parse(end) - Date.now() - 300_000)).toBeLessThan(10_000)
})

test('a logout token that could not be processed is accepted when the provider repeats it', async () => {
  const browser = createTestBrowser()
  await signIn(browser, {})
  const token = await provider.logoutToken()
  const redis = new Redis(system.redis.url)
  const all = await redis.keys('postern:console:*')
  const types = await Promise.all(all.map(async (key) => await redis.type(key)))
  const ways = all.filter((_key, index) => types[index] === 'set')
  // Of another type than it has: what asks for it is refused by Redis.
  for (const way of ways) {
    await redis.rename(way, `aside:${way}`)
    await redis.set(way, '')
  }
  expect((await post(token)).status).toBeGreaterThanOrEqual(500)
  expect(await isSignedIn(browser)).toBe(true)
  for (const way of ways) await redis.rename(`aside:${way}`, way)
  redis.disconnect()
  expect((await post(token)).status).toBe(200)
  expect(await isSignedIn(browser)).toBe(false)
})

test('while the provider is unavailable, existing sessions work and new sign-ins fail', async () => {
  const browser = createTestBrowser()
  await signIn(browser, {})
  await provider.stop()
  expect((await browser.send(`${system.url}/api/v1/findings`)).status).toBe(200)
  const fresh = await startConsoleSystem({ POSTERN_OIDC_ISSUER: provider.issuer })
  const answer = await createTestBrowser().send(`${fresh.url}/auth/login`)
  await fresh.stop()
  expect([answer.status, answer.text.includes('is not available')]).toEqual([503, true])
})
