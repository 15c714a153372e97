/**
 * @promise Browser: A person with several tenants chooses one at sign-in; a switch is a new session that keeps nothing.
 */

import { type TestBrowser, createTestBrowser } from '@postern/local-stack/testing'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type HostileProvider, client, startHostileProvider } from './hostile-provider.ts'
import { type ConsoleSystem, readSession, startConsoleSystem, tenants } from './support.ts'

let provider: HostileProvider
let system: ConsoleSystem

beforeAll(async () => {
  provider = await startHostileProvider([tenants.harbourline, tenants.korvex])
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
  system.gateway.whoami = undefined
  system.gateway.closedTenant = undefined
})

async function reachChoice(browser: TestBrowser, returnTo = '/') {
  const login = `${system.url}/auth/login?return_to=${encodeURIComponent(returnTo)}`
  const { url } = await browser.visit(login, { until: (each) => each.startsWith(provider.issuer) })
  const parameters = new URL(url).searchParams
  provider.nonce = parameters.get('nonce') ?? ''
  return await browser.send(`${system.url}/auth/callback?code=c&state=${parameters.get('state')}`)
}

async function choose(browser: TestBrowser, tenant: string, origin = system.url) {
  return await browser.send(`${system.url}/auth/tenant`, {
    method: 'POST',
    headers: { origin, 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ tenant }).toString(),
  })
}

const sessionCookie = (browser: TestBrowser) => browser.cookies.get(`${new URL(system.url).host} postern-session`) ?? ''
const isSignedIn = async (browser: TestBrowser) => (await browser.send(`${system.url}/auth/session`)).status === 200

test('the page lists the tenants, and nobody is signed in before one is chosen', async () => {
  const browser = createTestBrowser()
  const page = await reachChoice(browser, '/keys?state=active')
  expect([page.status, page.text]).toEqual([200, expect.stringContaining('Where do you want to work?')])
  expect(page.text).toContain(`value="${tenants.korvex}">Korvex Energy</button>`)
  // With no-referrer, browsers send `Origin: null`.
  expect(page.headers['referrer-policy']).toBe('strict-origin')
  expect(page.text).not.toMatch(/eyJ[\w-]+\./)
  expect(await isSignedIn(browser)).toBe(false)
  const answer = await choose(browser, tenants.korvex)
  expect([answer.status, answer.headers.location]).toEqual([303, `${system.url}/keys?state=active`])
  expect(await readSession(browser, system.url)).toMatchObject({
    tenant: { id: tenants.korvex, name: 'Korvex Energy' },
    roles: ['admin'],
    can_switch: true,
  })
})

test('a person whom all other tenants refuse is asked for none', async () => {
  system.gateway.closedTenant = tenants.harbourline
  const browser = createTestBrowser()
  expect((await reachChoice(browser)).status).toBe(303)
  expect(await readSession(browser, system.url)).toMatchObject({
    tenant: { id: tenants.korvex, name: 'Korvex Energy' },
    can_switch: false,
  })
})

test('every request of the session names its tenant, and pages cannot name another', async () => {
  const browser = createTestBrowser()
  await reachChoice(browser)
  await choose(browser, tenants.korvex)
  await browser.send(`${system.url}/api/v1/findings`, { headers: { 'postern-tenant': tenants.harbourline } })
  expect(system.gateway.requests.at(-1)).toMatchObject({
    url: '/api/v1/findings',
    headers: { 'postern-tenant': tenants.korvex },
  })
})

describe('a choice signs nobody in', () => {
  test('twice', async () => {
    const browser = createTestBrowser()
    await reachChoice(browser)
    const ticket = browser.cookies.get(`${new URL(system.url).host} postern-choice`)
    expect((await choose(browser, tenants.korvex)).status).toBe(303)
    const again = await createTestBrowser().send(`${system.url}/auth/tenant`, {
      method: 'POST',
      headers: {
        origin: system.url,
        cookie: `postern-choice=${ticket}`,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: `tenant=${tenants.korvex}`,
    })
    expect([again.status, again.text]).toEqual([400, expect.stringContaining('This sign-in has expired')])
  })

  test('in another browser', async () => {
    await reachChoice(createTestBrowser())
    const other = createTestBrowser()
    expect([(await choose(other, tenants.korvex)).status, await isSignedIn(other)]).toEqual([400, false])
  })

  test('after four minutes', async () => {
    const browser = createTestBrowser()
    await reachChoice(browser)
    const redis = new Redis(system.redis.url)
    await redis.unlink(await redis.keys('postern:console:kept:*'))
    redis.disconnect()
    expect([(await choose(browser, tenants.korvex)).status, await isSignedIn(browser)]).toEqual([400, false])
  })

  test.each(['https://elsewhere.example', 'null'])('from the page of %s', async (origin) => {
    const browser = createTestBrowser()
    await reachChoice(browser)
    expect([(await choose(browser, tenants.korvex, origin)).status, await isSignedIn(browser)]).toEqual([403, false])
    // The form of the console still works.
    expect((await choose(browser, tenants.korvex)).status).toBe(303)
  })

  test('for a tenant that the token does not grant', async () => {
    const browser = createTestBrowser()
    await reachChoice(browser)
    const answer = await choose(browser, '0199aaaa-0000-7000-8000-00000000000f')
    expect([answer.status, answer.text]).toEqual([403, expect.stringContaining('<code>tenant_not_granted</code>')])
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('after the provider ended the sign-in', async () => {
    const browser = createTestBrowser()
    await reachChoice(browser)
    const notice = await browser.send(`${system.url}/auth/backchannel-logout`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ logout_token: await provider.logoutToken() }).toString(),
    })
    expect(notice.status).toBe(200)
    expect([(await choose(browser, tenants.korvex)).status, await isSignedIn(browser)]).toEqual([403, false])
  })
})

test('a switch ends the session of the other tenant, with another id and CSRF token', async () => {
  const browser = createTestBrowser()
  await reachChoice(browser)
  await choose(browser, tenants.korvex)
  const [before, first] = [sessionCookie(browser), await readSession(browser, system.url)]
  const page = await reachChoice(browser)
  expect(page.text).toContain('Where do you want to work?')
  // Who closes the page stays where they were.
  expect(await readSession(browser, system.url)).toMatchObject({ tenant: { id: tenants.korvex } })
  await choose(browser, tenants.harbourline)
  const second = await readSession(browser, system.url)
  expect(second.tenant.id).toBe(tenants.harbourline)
  expect([sessionCookie(browser) === before, second.csrf_token === first.csrf_token]).toEqual([false, false])
  const old = await createTestBrowser().send(`${system.url}/auth/session`, {
    headers: { cookie: `postern-session=${before}` },
  })
  expect(old.status).toBe(401)
})
