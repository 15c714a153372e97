/**
 * @promise Browser: The browser stores no token, and other sites cannot act for a user (CSRF).
 * @alsoShownBy services/console/test/api.test.ts
 */

import { request } from 'undici'
import { Redis } from 'ioredis'
import { type TestBrowser, createTestBrowser } from '@postern/local-stack/testing'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ConsoleSystem, codeOf, ownPage, readSession, startConsoleSystem } from './support.ts'

let system: ConsoleSystem

beforeAll(async () => {
  system = await startConsoleSystem({ POSTERN_SESSION_IDLE_MINUTES: '30', POSTERN_SESSION_HOURS: '12' })
})
afterAll(async () => await system.stop())

const minute = 60_000
const hour = 60 * minute

async function callApi(browser: TestBrowser) {
  return await browser.send(`${system.url}/api/v1/findings`, { headers: { accept: 'application/json' } })
}

const lastToken = (): string => String(system.gateway.requests.at(-1)?.headers['authorization'])

describe('a session', () => {
  test('ends after half an hour without use, even if a page reads it', async () => {
    const browser = await system.signedIn()
    system.advance(29 * minute)
    expect((await callApi(browser)).status).toBe(200)
    system.advance(29 * minute)
    expect((await browser.send(`${system.url}/auth/session`)).status).toBe(200)
    system.advance(minute)
    const answer = await callApi(browser)
    expect([answer.status, codeOf(answer.text)]).toEqual([401, 'sign_in_required'])
  })

  test.each([
    ['polls the API', { accept: 'application/json', 'x-by-itself': '1' }],
    ['repeats a stream of events', { accept: 'text/event-stream' }],
  ])('ends after half an hour without use, even if an open page %s', async (_what, headers) => {
    const browser = await system.signedIn()
    const path = `${system.url}/api/v1/sync-runs`
    for (const wait of [20, 9]) {
      system.advance(wait * minute)
      expect((await browser.send(path, { headers })).status).toBe(200)
      expect(system.gateway.requests.at(-1)?.headers['x-by-itself']).toBeUndefined()
    }
    system.advance(minute)
    const answer = await browser.send(path, { headers })
    expect([answer.status, codeOf(answer.text)]).toEqual([401, 'sign_in_required'])
  })

  test('is extended by every change, even if the page marks it as automatic', async () => {
    const browser = await system.signedIn()
    system.advance(29 * minute)
    const headers = { ...(await ownPage(browser, system.url)), 'x-by-itself': '1' }
    const change = { method: 'POST', headers, body: '{}' }
    expect((await browser.send(`${system.url}/api/v1/api-keys`, change)).status).toBe(201)
    system.advance(29 * minute)
    expect((await callApi(browser)).status).toBe(200)
  })

  test('ends twelve hours after the sign-in even if it is used', async () => {
    const browser = await system.signedIn()
    for (let used = 0; used < 12 * hour - 20 * minute; used += 20 * minute) {
      system.advance(20 * minute)
      expect((await callApi(browser)).status).toBe(200)
    }
    const { expires_at: end, idle_expires_at: idleEnd } = await readSession(browser, system.url)
    expect(idleEnd).toBe(end)
    system.advance(20 * minute)
    expect((await callApi(browser)).status).toBe(401)
  })

  test('can be ended by the provider during its whole lifetime', async () => {
    await system.signedIn()
    const redis = new Redis(system.redis.url)
    const ways = (await redis.keys('postern:console:*')).filter((key) => !key.includes(':session:'))
    const owners = ways.filter((key) => /:(?:subject|sid):/.test(key))
    const lives = await Promise.all(owners.map(async (key) => await redis.pttl(key)))
    redis.disconnect()
    expect(owners.map((key) => key.split(':')[2]).toSorted()).toEqual(expect.arrayContaining(['sid', 'subject']))
    for (const life of lives) expect(life).toBeGreaterThan(11 * hour)
  })

  test('is encrypted in Redis under a digest, without readable ids, tokens or names', async () => {
    const browser = await system.signedIn()
    await callApi(browser)
    const id = browser.cookies.get(`${new URL(system.url).host} postern-session`) ?? ''
    const redis = new Redis(system.redis.url)
    const texts: string[] = []
    for (const key of await redis.keys('*')) {
      texts.push(key, JSON.stringify(key.includes(':session:') ? await redis.hgetall(key) : await redis.type(key)))
    }
    redis.disconnect()
    const all = texts.join('\n')
    expect(all).toContain('postern:console:session:')
    for (const secret of [id, lastToken().replace('Bearer ', ''), 'Amara', 'harbourline'])
      expect(all).not.toContain(secret)
  })

  test('whose content in Redis was swapped with another one is rejected', async () => {
    const [one, other] = [await system.signedIn(), await system.signedIn('korvex-viewer')]
    const redis = new Redis(system.redis.url)
    const id = one.cookies.get(`${new URL(system.url).host} postern-session`) ?? ''
    const mine = `postern:console:session:${(await import('node:crypto')).hash('sha256', id, 'base64url')}`
    const before = await redis.hget(mine, 'content')
    for (const key of await redis.keys('postern:console:session:*')) {
      if (key !== mine) await redis.hset(mine, 'content', (await redis.hget(key, 'content')) ?? '')
    }
    expect((await callApi(one)).status).toBe(401)
    await redis.hset(mine, 'content', before ?? '')
    redis.disconnect()
    expect([(await callApi(one)).status, (await callApi(other)).status]).toEqual([200, 200])
  })

  test('renews its access token before it expires, once for all concurrent requests', async () => {
    const browser = await system.signedIn()
    await callApi(browser)
    const before = lastToken()
    system.advance(280_000)
    const from = system.gateway.requests.length
    const answers = await Promise.all(Array.from({ length: 8 }, async () => await callApi(browser)))
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200))
    const seen = system.gateway.requests.slice(from)
    const tokens = new Set(seen.map(({ headers }) => headers['authorization']))
    expect(tokens.size).toBe(1)
    expect([...tokens][0]).not.toBe(before)
    // Asked once who that is, hence renewed once: the provider would have taken a second renewal for theft.
    expect(seen.filter(({ url }) => url === '/api/v1/whoami').length).toBe(1)
    system.advance(280_000)
    expect((await callApi(browser)).status).toBe(200)
  })

  test('renews its access token before a long upload, because requests end with their token', async () => {
    const browser = await system.signedIn()
    await callApi(browser)
    const before = lastToken()
    const send = async (length: number) => {
      const headers = { ...(await ownPage(browser, system.url)), 'content-type': 'text/plain' }
      return await browser.send(`${system.url}/api/v1/things`, { method: 'POST', headers, body: 'x'.repeat(length) })
    }
    expect((await send(1024 * 1024)).status).toBe(201)
    expect(lastToken()).toBe(before)
    expect((await send(1024 * 1024 + 1)).status).toBe(201)
    expect(lastToken()).not.toBe(before)
  })

  test('ends if the provider rejects the renewal or the person has lost access', async () => {
    const browser = await system.signedIn()
    system.gateway.whoami = { status: 403, body: { code: 'tenant_suspended' } }
    system.advance(280_000)
    expect((await callApi(browser)).status).toBe(401)
    system.gateway.whoami = undefined
    expect((await callApi(browser)).status).toBe(401)
  })

  test('is unavailable while Redis is down, and works again if Redis has kept it', async () => {
    const browser = await system.signedIn()
    system.redis.kill('SIGSTOP')
    const answer = await callApi(browser)
    system.redis.kill('SIGCONT')
    expect([answer.status, codeOf(answer.text)]).toEqual([503, 'service_unavailable'])
    expect((await callApi(browser)).status).toBe(200)
  })
})

describe('signing out', () => {
  test('ends the session, revokes the refresh token and leads to the provider, which learns the ID token', async () => {
    const browser = await system.signedIn()
    const cookies = new Map(browser.cookies)
    const answer = await browser.send(`${system.url}/auth/logout`, {
      method: 'POST',
      headers: await ownPage(browser, system.url),
    })
    expect(answer.status, answer.text).toBe(200)
    const { redirect }: { redirect: string } = JSON.parse(answer.text)
    expect(redirect).toBe(`${system.url}/auth/provider-logout`)
    const hints = async (from: TestBrowser): Promise<string[]> => {
      const { status, headers } = await from.send(redirect)
      expect(status).toBe(303)
      return [...new URL(String(headers['location'])).searchParams.keys()].toSorted()
    }
    const thief = createTestBrowser()
    for (const [name, value] of cookies) thief.cookies.set(name, value)
    expect((await callApi(thief)).status).toBe(401)
    expect([...browser.cookies.keys()].some((name) => name.endsWith('postern-session'))).toBe(false)
    // No other browser gets the token, and this one once.
    const usual = ['client_id', 'post_logout_redirect_uri']
    expect(await hints(thief)).toEqual(usual)
    const ticket = new Map(browser.cookies)
    const to = await browser.visit(redirect, { until: (url) => url.startsWith(system.provider.issuer) })
    const { searchParams } = new URL(to.url)
    expect(decodeJwt(searchParams.get('id_token_hint') ?? '')).toMatchObject({
      iss: system.provider.issuer,
      aud: system.provider.clientId,
      sub: 'harbourline-admin',
    })
    expect(searchParams.get('post_logout_redirect_uri')).toBe(`${system.url}/`)
    // The provider knows the person by the token, and does not ask.
    expect((await browser.visit(to.url)).text).toContain('Signing out')
    for (const [name, value] of ticket) browser.cookies.set(name, value)
    expect(await hints(browser)).toEqual(usual)
  })

  test('is rejected from another site and without the CSRF token', async () => {
    const browser = await system.signedIn()
    const headers = await ownPage(browser, system.url)
    const send = async (change: Record<string, string>) =>
      (await browser.send(`${system.url}/auth/logout`, { method: 'POST', headers: { ...headers, ...change } })).status
    expect(await send({ origin: 'https://elsewhere.example', 'sec-fetch-site': 'cross-site' })).toBe(403)
    expect(await send({ 'x-csrf-token': 'x' })).toBe(403)
    expect((await callApi(browser)).status).toBe(200)
    expect(await send({})).toBe(200)
  })

  test('at the provider ends the session (back-channel)', async () => {
    // Of its own: the clock of the other is half a day ahead of the provider's.
    const fresh = await startConsoleSystem()
    const [browser, other] = [await fresh.signedIn(), await fresh.signedIn()]
    const status = async (who: TestBrowser) => (await who.send(`${fresh.url}/api/v1/findings`)).status
    const page = await browser.visit(`${fresh.provider.issuer}/session/end?client_id=${fresh.provider.clientId}`)
    const [, action = ''] = /action="([^"]+)"/.exec(page.text) ?? []
    const [, xsrf = ''] = /name="xsrf" value="([^"]+)"/.exec(page.text) ?? []
    expect(await status(browser)).toBe(200)
    await browser.visit(action, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ xsrf, logout: 'yes' }).toString(),
    })
    await expect.poll(async () => await status(browser)).toBe(401)
    // The same person, signed in elsewhere: another sign-in.
    expect(await status(other)).toBe(200)
    await fresh.stop()
  })
})

describe('cookies', () => {
  test('over http on loopback is HttpOnly, SameSite=Lax, for the whole host, and ends with the browser', async () => {
    const browser = createTestBrowser()
    const end = await browser.signIn(system.url, 'harbourline-admin', {
      until: (url) => url.startsWith(`${system.url}/auth/callback`),
    })
    const answer = await browser.send(end.url)
    const lines = [answer.headers['set-cookie'] ?? []].flat()
    const session = lines.find((line) => line.startsWith('postern-session='))
    expect(session?.replace(/=[\w-]{43};/, '=…;')).toBe('postern-session=…; Path=/; HttpOnly; SameSite=Lax')
  })

  test('no response of the console contains a token', async () => {
    const browser = await system.signedIn()
    const texts: string[] = []
    for (const path of ['/', '/auth/session', '/api/v1/findings', '/api/v1/whoami']) {
      const { text, headers } = await browser.send(system.url + path)
      texts.push(text, JSON.stringify(headers))
    }
    const token = lastToken().replace('Bearer ', '')
    expect(token.split('.')).toHaveLength(3)
    const all = texts.join('\n') + system.logs.join('\n')
    expect(all).toContain('harbourline-admin')
    expect(all).not.toContain(token)
    expect(all).not.toContain(token.split('.')[1])
    expect(all).not.toContain(system.provider.clientSecret)
    const raw = await request(`${system.url}/auth/session`)
    await raw.body.dump()
    expect(raw.statusCode).toBe(401)
  })
})
