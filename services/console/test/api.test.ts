import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { request } from 'undici'
import { type TestBrowser, findFreePort } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startConsole } from '../src/service.ts'
import { type ConsoleSystem, type RecordingGateway, codeOf, ownPage, startConsoleSystem } from './support.ts'

let system: ConsoleSystem
let browser: TestBrowser
let own: Record<string, string>

beforeAll(async () => {
  system = await startConsoleSystem()
  browser = await system.signedIn()
  own = await ownPage(browser, system.url)
})
afterAll(async () => await system.stop())

const url = (path: string): string => `${system.url}/api/v1/${path}`
const without = (name: string): Record<string, string> =>
  Object.fromEntries(Object.entries(own).filter(([key]) => key !== name))

describe('a change', () => {
  test.each([
    ['from another site', () => ({ ...own, origin: 'https://elsewhere.example', 'sec-fetch-site': 'cross-site' })],
    ['from another site of the same domain', () => ({ ...own, 'sec-fetch-site': 'same-site' })],
    ['from another port of this machine', () => ({ ...own, origin: 'http://127.0.0.1:1' })],
    ['from nowhere (Origin: null)', () => ({ ...own, origin: 'null' })],
    ['by a typed address', () => ({ ...without('origin'), 'sec-fetch-site': 'none' })],
    [
      'without an origin',
      () => {
        const { origin: _origin, 'sec-fetch-site': _site, ...rest } = own
        return rest
      },
    ],
    ['without the CSRF token', () => without('x-csrf-token')],
    ['with the CSRF token of another session', () => ({ ...own, 'x-csrf-token': 'x'.repeat(43) })],
  ])('%s does not reach the gateway', async (_title, headers) => {
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
      const before = system.gateway.requests.length
      const answer = await browser.send(url('api-keys'), { method, headers: headers(), body: '{}' })
      expect([answer.status, codeOf(answer.text)]).toEqual([403, 'cross_site_request'])
      expect(system.gateway.requests.length).toBe(before)
    }
  })

  test('without a session does not reach the gateway either', async () => {
    const before = system.gateway.requests.length
    const { statusCode, body } = await request(url('api-keys'), { method: 'POST', headers: own, body: '{}' })
    expect([statusCode, codeOf(await body.text())]).toEqual([401, 'sign_in_required'])
    expect(system.gateway.requests.length).toBe(before)
  })

  test('of the console’s page reaches the gateway with body, type and conditions in the name of the person', async () => {
    const body = JSON.stringify({ label: 'Export' })
    const headers = { ...own, 'idempotency-key': 'one', 'if-match': '"3"', 'x-request-id': 'request-0001' }
    const answer = await browser.send(url('api-keys?x=%20y'), { method: 'POST', headers, body })
    expect([answer.status, answer.text]).toEqual([201, JSON.stringify({ echo: body })])
    expect(system.gateway.requests.at(-1)).toMatchObject({
      method: 'POST',
      url: '/api/v1/api-keys?x=%20y',
      body,
      headers: {
        authorization: expect.stringMatching(/^Bearer [\w-]+\.[\w-]+\.[\w-]+$/),
        'content-type': 'application/json',
        'idempotency-key': 'one',
        'if-match': '"3"',
        'x-request-id': 'request-0001',
        'x-forwarded-for': '127.0.0.1',
      },
    })
  })
})

const read = async (site: string) =>
  (await browser.send(url('findings'), { headers: { 'sec-fetch-site': site } })).status

describe('reading', () => {
  test('from another site is rejected, and from the console or a typed address accepted', async () => {
    expect(await read('cross-site')).toBe(403)
    expect(await read('same-site')).toBe(403)
    expect(await read('none')).toBe(200)
    expect(await read('same-origin')).toBe(200)
  })

  test('with the token of another session does not reach the gateway; with its own, and with none, it does', async () => {
    const other = await ownPage(await system.signedIn('korvex-admin'), system.url)
    const readWith = async (token: string | undefined) => {
      const before = system.gateway.requests.length
      const answer = await browser.send(url('api-keys'), {
        headers: { 'sec-fetch-site': 'same-origin', ...(token === undefined ? {} : { 'x-csrf-token': token }) },
      })
      const code = answer.status === 200 ? undefined : codeOf(answer.text)
      return [answer.status, code, system.gateway.requests.length - before]
    }
    for (const token of [other['x-csrf-token'], 'x'.repeat(43), '']) {
      expect(await readWith(token)).toEqual([403, 'cross_site_request', 0])
    }
    expect(await readWith(own['x-csrf-token'])).toEqual([200, undefined, 1])
    expect(await readWith(undefined)).toEqual([200, undefined, 1])
  })

  test('passes no cookies, credentials or internal headers of the browser to the gateway', async () => {
    const token = own['x-csrf-token'] ?? ''
    const headers = { authorization: 'ApiKey stolen', 'postern-context': 'tenant="x"', 'x-csrf-token': token }
    expect((await browser.send(url('findings'), { headers })).status).toBe(200)
    const seen = system.gateway.requests.at(-1)?.headers ?? {}
    expect(seen['authorization']).toMatch(/^Bearer /)
    for (const name of ['cookie', 'postern-context', 'x-csrf-token', 'sec-fetch-site', 'user-agent']) {
      expect(seen[name], name).toBeUndefined()
    }
  })

  test('returns the gateway’s response with the console’s security headers', async () => {
    const answer = await browser.send(url('findings'))
    expect(answer.headers).toMatchObject({
      etag: '"7"',
      link: '</api/v1/things?cursor=x>; rel="next"',
      'content-type': 'application/json',
      'cache-control': 'no-store',
    })
    expect(answer.headers['set-cookie']).toBeUndefined()
  })

  test.each(['findings/../keys', 'findings//x', 'findings/%2e%2e/keys', 'a;b', 'a%2fb'])(
    'a non-canonical path is rejected: %s',
    async (path) => {
      const before = system.gateway.requests.length
      const answer = await rawGet(path)
      expect([400, 404]).toContain(answer)
      expect(system.gateway.requests.length).toBe(before)
    },
  )

  test('an incomplete or missing response of the gateway is 502', async () => {
    const alone = await startConsoleSystem()
    const person = await alone.signedIn()
    await alone.gateway.stop()
    const answer = await person.send(`${alone.url}/api/v1/findings`)
    expect([answer.status, codeOf(answer.text)]).toEqual([502, 'bad_gateway'])
    await alone.stop().catch(() => undefined)
  })
})

/** What a browser receives where the gateway answers so. */
const received = async (method: 'GET' | 'POST', answer: RecordingGateway['answer'], encoding = 'gzip, br') => {
  system.gateway.answer = answer
  try {
    const cookie = [...browser.cookies].map(([name, value]) => `${name.split(' ')[1]}=${value}`).join('; ')
    const headers = { ...own, cookie, 'accept-encoding': encoding }
    const { headers: given, body } = await request(url('findings'), {
      method,
      headers,
      ...(method === 'POST' ? { body: '{}' } : {}),
    })
    return { headers: given, bytes: Buffer.from(await body.arrayBuffer()) }
  } finally {
    system.gateway.answer = {}
  }
}

describe('an answer of the API', () => {
  const long = JSON.stringify({ rows: Array.from({ length: 200 }, (_, row) => `row ${row}`) })
  test.each([
    ['gzip', gunzipSync],
    ['br', brotliDecompressSync],
  ] as const)('is compressed with %s for a browser that accepts it', async (encoding, unpack) => {
    const { headers, bytes } = await received('GET', { body: long }, encoding)
    expect([headers['content-encoding'], headers['vary']]).toEqual([encoding, 'accept-encoding'])
    expect(bytes.length).toBeLessThan(long.length / 2)
    expect(unpack(bytes).toString()).toBe(long)
  })

  test.each([
    ['to a change, which may contain a new key', 'POST', { body: long }, undefined],
    ['to a browser that accepts no compression', 'GET', { body: long }, 'identity'],
    ['that is short', 'GET', { body: '{"a":1}', headers: { 'content-length': '7' } }, undefined],
    ['that is a stream of events', 'GET', { body: long, headers: { 'content-type': 'text/event-stream' } }, undefined],
    ['that is a file', 'GET', { body: long, headers: { 'content-disposition': 'attachment' } }, undefined],
    ['with a digest of its bytes', 'GET', { body: long, headers: { 'content-digest': 'sha-256=:AAAA:' } }, undefined],
  ] as const)('%s is not compressed', async (_what, method, answer, encoding) => {
    const { headers, bytes } = await received(method, answer, encoding)
    expect(headers['content-encoding']).toBeUndefined()
    expect(bytes.toString()).toBe(answer.body)
  })
})

describe('a console is ready', () => {
  test('not without Redis', async () => {
    const nowhere = `redis://127.0.0.1:${await findFreePort()}`
    expect((await readiness({ POSTERN_REDIS_URL: nowhere }))[0]).toBe(503)
  })

  test('after a gateway has answered once, even if gateways fail later', async () => {
    const alone = await startConsoleSystem()
    const ready = async () => (await fetch(`http://127.0.0.1:${alone.console.adminPort}/internal/health/ready`)).status
    expect(await ready()).toBe(200)
    await alone.gateway.stop()
    expect(await ready()).toBe(200)
    await alone.stop().catch(() => undefined)
  })

  test('not before a gateway has answered', async () => {
    const nowhere = `http://127.0.0.1:${await findFreePort()}`
    expect((await readiness({ POSTERN_GATEWAY_URL: nowhere }))[0]).toBe(503)
  })

  test('with both of them', async () => {
    expect(await readiness({})).toEqual([200, { status: 'ok' }])
  })
})

/** How a console with other settings says that it stands. */
async function readiness(settings: Record<string, string>): Promise<[number, unknown]> {
  const env = { ...system.env, POSTERN_PORT: '0', ...settings }
  const other = await startConsole(env, { writeLog: () => undefined })
  try {
    const answer = await fetch(`http://127.0.0.1:${other.adminPort}/internal/health/ready`)
    return [answer.status, await answer.json()]
  } finally {
    await other.close()
  }
}

/** Sends the path unchanged, which browsers and URL parsers would not. */
async function rawGet(path: string): Promise<number> {
  const { get } = await import('node:http')
  const { promise, resolve } = Promise.withResolvers<number>()
  const { host } = new URL(system.url)
  const cookie = [...browser.cookies].find(([name]) => name === `${host} postern-session`)?.[1] ?? ''
  const { hostname, port } = new URL(system.url)
  get({ hostname, port, path: `/api/v1/${path}`, headers: { cookie: `postern-session=${cookie}` } }, (answer) => {
    answer.resume()
    resolve(answer.statusCode ?? 0)
  })
  return await promise
}
