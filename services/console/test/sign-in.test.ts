/**
 * @promise Browser: Only the browser that started a sign-in can finish it, once, with the provider that was asked.
 * @alsoShownBy services/console/test/hostile-provider.test.ts
 */

import { once } from 'node:events'
import { createServer } from 'node:http'
import { type TestBrowser, createTestBrowser, findFreePort } from '@postern/local-stack/testing'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type ConsoleSystem, readSession, startConsoleSystem, tenants } from './support.ts'

let system: ConsoleSystem
let browser: TestBrowser

beforeAll(async () => {
  system = await startConsoleSystem()
})
afterAll(async () => await system.stop())
beforeEach(() => {
  browser = createTestBrowser()
})

const isCallback = (url: string): boolean => url.startsWith(`${system.url}/auth/callback`)
const isElsewhere = (url: string): boolean => !url.startsWith(system.url)

/** The address at which the provider's answer arrives, not yet visited. */
async function answerOf(from: TestBrowser, person = 'harbourline-admin'): Promise<string> {
  const answer = await from.signIn(system.url, person, { until: isCallback })
  expect(isCallback(answer.url), answer.text).toBe(true)
  return answer.url
}

async function isSignedIn(who: TestBrowser): Promise<boolean> {
  return (await who.send(`${system.url}/auth/session`)).status === 200
}

function changed(url: string, change: (parameters: URLSearchParams) => void): string {
  const copy = new URL(url)
  change(copy.searchParams)
  return copy.href
}

describe('a response of the provider signs nobody in', () => {
  test('that was used before', async () => {
    const url = await answerOf(browser)
    const cookies = new Map(browser.cookies)
    expect((await browser.send(url)).status).toBe(303)
    const thief = createTestBrowser()
    for (const [name, value] of cookies) thief.cookies.set(name, value)
    const again = await thief.send(url)
    expect([again.status, await isSignedIn(thief)]).toEqual([400, false])
    expect(await isSignedIn(browser)).toBe(true)
  })

  test('with a made-up code, and nothing of it remains in Redis', async () => {
    const redis = new Redis(system.redis.url)
    onTestFinished(() => redis.disconnect())
    const before = new Set(await redis.keys('*'))
    const url = await answerOf(browser)
    const cookies = new Map(browser.cookies)
    // The console writes a key that lives a millisecond to see whether Redis accepts writes.
    before.add('postern:console:health')
    const added = async () => (await redis.keys('*')).filter((key) => !before.has(key))
    const refused = await browser.send(changed(url, (parameters) => parameters.set('code', 'made-up')))
    expect([refused.status, await isSignedIn(browser), await added()]).toEqual([403, false, []])
    // The code of the provider is still good.
    for (const [name, value] of cookies) browser.cookies.set(name, value)
    expect((await browser.send(url)).status).toBe(303)
    expect(await added()).not.toEqual([])
  })

  test('in a browser that did not start the sign-in', async () => {
    const url = await answerOf(browser)
    const victim = createTestBrowser()
    expect((await victim.send(url)).status).toBe(400)
    // Nor in one that has begun another.
    await victim.visit(`${system.url}/auth/login`, { until: isElsewhere })
    expect((await victim.send(url)).status).toBe(400)
    expect(await isSignedIn(victim)).toBe(false)
    expect((await browser.send(url)).status).toBe(303)
  })

  test.each([
    ['without a state', (each: URLSearchParams) => each.delete('state')],
    ['with the state of nobody', (each: URLSearchParams) => each.set('state', 'x'.repeat(43))],
    ['with two states', (each: URLSearchParams) => each.append('state', each.get('state') ?? '')],
    ['of another provider (mix-up)', (each: URLSearchParams) => each.set('iss', 'https://elsewhere.example')],
    ['without an issuer', (each: URLSearchParams) => each.delete('iss')],
    ['with another code', (each: URLSearchParams) => each.set('code', 'x'.repeat(43))],
    ['that is an error', (each: URLSearchParams) => (each.delete('code'), each.set('error', 'access_denied'))],
  ])('%s', async (_title, change) => {
    const url = await answerOf(browser)
    const answer = await browser.send(changed(url, change))
    expect([400, 403]).toContain(answer.status)
    expect(answer.text).toContain('Sign in again')
    expect(answer.text).not.toContain('access_denied')
    expect(await isSignedIn(browser)).toBe(false)
  })

  test('whose sign-in started ten minutes ago', async () => {
    const url = await answerOf(browser)
    system.advance(600_000)
    expect((await browser.send(url)).status).toBe(400)
    const control = createTestBrowser()
    await control.signIn(system.url, 'harbourline-admin')
    expect(await isSignedIn(control)).toBe(true)
  })

  test.each([
    [401, { code: 'invalid_token' }, 'could not be verified'],
    [403, { code: 'tenant_suspended' }, 'Your organization is suspended'],
    [503, { code: 'service_unavailable' }, 'cannot sign you in at the moment'],
  ])('when the gateway answers %i %j', async (status, body, text) => {
    system.gateway.whoami = { status, body }
    const answer = await browser.signIn(system.url, 'harbourline-admin')
    system.gateway.whoami = undefined
    expect(answer.text).toContain(text)
    expect(await isSignedIn(browser)).toBe(false)
  })
})

describe('signing in', () => {
  test('returns to the requested page, and the session names the person', async () => {
    const end = await browser.signIn(system.url, 'harbourline-auditor', { returnTo: '/keys?state=active' })
    expect([end.url, end.status]).toEqual([`${system.url}/keys?state=active`, 200])
    expect(await readSession(browser, system.url)).toMatchObject({
      person: { id: 'harbourline-auditor', name: 'Jonas Lindqvist', email: 'jonas.lindqvist@harbourline.example' },
      tenant: { id: tenants.harbourline, name: 'Harbourline Bank' },
      roles: ['auditor'],
    })
  })

  test.each([
    ['//elsewhere.example/x'],
    ['/\\elsewhere.example'],
    ['https://elsewhere.example/'],
    ['/auth/login'],
    ['/a\tb'],
    ['javascript:alert(1)'],
  ])('never leads to %j', async (returnTo) => {
    const end = await browser.signIn(system.url, 'harbourline-admin', { returnTo })
    expect(end.url).toBe(`${system.url}/`)
  })

  test('sends a new PKCE challenge, state and nonce each time', async () => {
    const [one, other] = [0, 1].map(async () => {
      const { url } = await browser.visit(`${system.url}/auth/login`, { until: isElsewhere })
      return new URL(url).searchParams
    })
    const parameters = [await one, await other]
    for (const each of parameters) {
      expect(each?.get('code_challenge_method')).toBe('S256')
      expect(each?.get('response_type')).toBe('code')
    }
    for (const name of ['state', 'nonce', 'code_challenge']) {
      const values = parameters.map((each) => each?.get(name) ?? '')
      expect(values[0]).not.toBe(values[1])
      for (const value of values) expect(value).toMatch(/^[\w-]{43}$/)
    }
  })

  test('works in two tabs at once and starts a new session each time', async () => {
    const first = await answerOf(browser)
    const second = await answerOf(browser)
    expect((await browser.send(first)).status).toBe(303)
    const sessionCookie = `${new URL(system.url).host} postern-session`
    const before = browser.cookies.get(sessionCookie)
    expect((await browser.send(second)).status).toBe(303)
    expect(browser.cookies.get(sessionCookie)).not.toBe(before)
    // The one before has ended: whoever knew it has nothing.
    const holder = createTestBrowser()
    holder.cookies.set(sessionCookie, before ?? '')
    expect([await isSignedIn(holder), await isSignedIn(browser)]).toEqual([false, true])
  })

  test('never reuses an existing session id (session fixation)', async () => {
    const sessionCookie = `${new URL(system.url).host} postern-session`
    const planted = 'A'.repeat(43)
    browser.cookies.set(sessionCookie, planted)
    await browser.signIn(system.url, 'harbourline-admin')
    const attacker = createTestBrowser()
    attacker.cookies.set(sessionCookie, planted)
    expect([await isSignedIn(attacker), await isSignedIn(browser)]).toEqual([false, true])
    attacker.cookies.set(sessionCookie, browser.cookies.get(sessionCookie) ?? '')
    expect(await isSignedIn(attacker), 'the harness can steal a session').toBe(true)
  })

  test('under another host name redirects to the configured address first', async () => {
    const answer = await browser.send(`${system.url}/auth/login?return_to=/x`, { headers: { host: 'localhost:1' } })
    expect([answer.status, answer.headers['location']]).toEqual([302, `${system.url}/auth/login?return_to=/x`])
  })

  test('behind a proxy that replaces the Host header ends with an explanation, not in an endless redirect', async () => {
    const path = `${system.url}/settings/api-keys`
    const behindProxy = { headers: { host: 'console.internal:8090' } }
    expect((await browser.send(path, behindProxy)).status).toBe(302)
    const again = await browser.send(path, behindProxy)
    expect([again.status, again.text]).toEqual([400, expect.stringContaining('X-Forwarded-Host')])
    const forwarded = { headers: { ...behindProxy.headers, 'x-forwarded-host': new URL(system.url).host } }
    expect((await browser.send(path, forwarded)).status).not.toBe(400)
  })
})

describe('rejections after the sign-in', () => {
  test('a person without a role has no session', async () => {
    system.gateway.whoami = {
      status: 200,
      body: {
        kind: 'user',
        id: 'x',
        label: 'X',
        tenant: { id: tenants.korvex, name: 'Korvex' },
        tenants: [{ id: tenants.korvex, name: 'Korvex', roles: [] }],
        granted: [],
        scopes: [],
        roles: [],
        masked: null,
        expires_at: null,
      },
    }
    const answer = await browser.signIn(system.url, 'korvex-viewer')
    system.gateway.whoami = undefined
    expect([answer.status, await isSignedIn(browser)]).toEqual([403, false])
    expect(answer.text).toContain('You have no role in Postern')
  })

  test('a repeated or malformed session cookie is rejected', async () => {
    const owner = await system.signedIn()
    const id = owner.cookies.get(`${new URL(system.url).host} postern-session`) ?? ''
    const read = async (cookie: string) =>
      (await browser.send(`${system.url}/auth/session`, { headers: { cookie } })).status
    expect(await read(`postern-session=${'B'.repeat(43)}; postern-session=${id}`)).toBe(401)
    expect(await read(`postern-session=${id.slice(1)}`)).toBe(401)
    expect(await read(`postern-session=${id}`)).toBe(200)
  })
})

test('many sign-ins at once ask a provider that hangs once, and say that it is away', async () => {
  let asked = 0
  const provider = createServer(() => (asked += 1))
  const port = await findFreePort()
  await once(provider.listen(port, '127.0.0.1'), 'listening')
  const other = await startConsoleSystem({ POSTERN_OIDC_ISSUER: `http://127.0.0.1:${port}` })
  onTestFinished(async () => {
    provider.closeAllConnections()
    provider.close()
    await other.stop()
  })
  const attempts = 40
  const answers = await Promise.all(
    Array.from({ length: attempts }, async () => await browser.send(`${other.url}/auth/login`)),
  )
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]))
  expect(asked).toBeLessThan(attempts / 2)
})
