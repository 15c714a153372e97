import {
  type PrefixProxy,
  createTestBrowser,
  patience,
  randomRing,
  startPrefixProxy,
} from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { startConsole } from '../src/service.ts'
import { type ConsoleSystem, ownPage, readSession, startConsoleSystem } from './support.ts'

let proxy: PrefixProxy
let system: ConsoleSystem

beforeAll(async () => {
  proxy = await startPrefixProxy('/postern-console')
  system = await startConsoleSystem({
    POSTERN_CONSOLE_URL: proxy.url,
    POSTERN_API_URL: 'https://bank.example/postern/',
  })
  proxy.forwardTo(system.console.url)
})
afterAll(async () => {
  await system.stop()
  await proxy[Symbol.asyncDispose]()
})

describe('behind a proxy that removes a path prefix', () => {
  test('a sign-in returns to the requested page below the prefix', async () => {
    const browser = createTestBrowser()
    const answer = await browser.signIn(proxy.url, 'harbourline-admin', { returnTo: '/connectors?x=1' })
    expect(answer.url).toBe(`${proxy.url}/connectors?x=1`)
    const session = await readSession(browser, proxy.url)
    expect(session).toMatchObject({ tenant: { name: 'Harbourline Bank' } })
  })

  test('the session cookie is for the prefix', async () => {
    const browser = await system.signedIn()
    const answer = await browser.send(`${proxy.url}/auth/logout`, {
      method: 'POST',
      headers: await ownPage(browser, proxy.url),
    })
    const lines = [answer.headers['set-cookie'] ?? []].flat()
    expect(lines.map((line) => line.split('=')[0])).toEqual(['postern-session', 'postern-sign-out'])
    for (const line of lines) expect(line).toContain('Path=/postern-console;')
  })

  test('a sign-out ends the session and leads back to the console by way of the provider', async () => {
    const browser = await system.signedIn()
    const headers = await ownPage(browser, proxy.url)
    const answer = await browser.send(`${proxy.url}/auth/logout`, { method: 'POST', headers })
    const { redirect } = z.object({ redirect: z.string() }).parse(JSON.parse(answer.text))
    expect(redirect).toBe(`${proxy.url}/auth/provider-logout`)
    const { url } = await browser.visit(redirect, { until: (to) => to.startsWith(system.provider.issuer) })
    expect(new URL(url).searchParams.get('post_logout_redirect_uri')).toBe(`${proxy.url}/`)
    expect((await browser.visit(url)).status).toBe(200)
    expect((await browser.send(`${proxy.url}/auth/session`)).status).toBe(401)
  })

  test('a failed sign-in offers a retry below the prefix', async () => {
    const refused = await createTestBrowser().send(`${proxy.url}/auth/callback?code=x&state=y`)
    const [, link = ''] = /<a class="button" href="([^"]*)"/.exec(refused.text) ?? []
    expect(new URL(link, refused.url).href).toBe(`${proxy.url}/auth/login?return_to=%2F`)
  })

  test('the session tells the URL of the API with its path', async () => {
    const browser = await system.signedIn()
    const { text } = await browser.send(`${proxy.url}/auth/session`)
    expect(JSON.parse(text)).toMatchObject({ api_url: 'https://bank.example/postern' })
  })

  test.each(['', '/postern', '/a/b'])(
    'Link and Location of a gateway below "%s" lead to the console below its own prefix',
    async (gatewayPath) => {
      const browser = await system.signedIn()
      system.gateway.answer = {
        headers: {
          location: `${gatewayPath}/api/v1/things/1`,
          link: `<${gatewayPath}/api/v1/things?cursor=x>; rel="next", <${gatewayPath}/api/v1/things>; rel="first"`,
        },
      }
      const headers = await ownPage(browser, proxy.url)
      const answer = await browser.send(`${proxy.url}/api/v1/things`, { method: 'POST', headers, body: '{}' })
      expect(answer.status).toBe(201)
      expect(answer.headers['location']).toBe('/postern-console/api/v1/things/1')
      expect(answer.headers['link']).toBe(
        '</postern-console/api/v1/things?cursor=x>; rel="next", </postern-console/api/v1/things>; rel="first"',
      )
    },
  )

  test('a change from a page of another origin is refused', async () => {
    const browser = await system.signedIn()
    const headers = { ...(await ownPage(browser, proxy.url)), origin: 'https://elsewhere.example' }
    const answer = await browser.send(`${proxy.url}/api/v1/things`, { method: 'POST', headers, body: '{}' })
    expect(answer.status).toBe(403)
  })

  test('a navigation by another host name goes to the configured URL', async () => {
    const answer = await createTestBrowser().send(`${proxy.url}/connectors`, { headers: { host: 'localhost:1' } })
    expect([answer.status, answer.headers['location']]).toEqual([302, `${proxy.url}/connectors`])
    expect(answer.headers['set-cookie']).toContain('Path=/postern-console;')
  })
})

test('below a path over https, cookies are Secure and only for the path, and no rule covers the whole host', async () => {
  const running = await startConsole(
    {
      POSTERN_PORT: '0',
      POSTERN_CONSOLE_URL: 'https://bank.example/postern-console/',
      POSTERN_GATEWAY_URL: 'http://127.0.0.1:9',
      POSTERN_REDIS_URL: 'redis://127.0.0.1:9',
      POSTERN_CONSOLE_SESSION: randomRing(),
      POSTERN_OIDC_ISSUER: 'https://sign-in.example',
      ...patience,
    },
    { writeLog: () => undefined },
  )
  onTestFinished(async () => await running.close())
  const answer = await createTestBrowser().send(`${running.url}/auth/logout`, {
    method: 'POST',
    headers: { origin: 'https://bank.example', host: 'bank.example' },
  })
  expect(answer.headers['set-cookie']).toBe(
    '__Secure-postern-session=; Path=/postern-console; HttpOnly; SameSite=Lax; Secure; Max-Age=0',
  )
  expect(answer.headers['strict-transport-security']).toBeUndefined()
})
