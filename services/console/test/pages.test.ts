import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTestBrowser, patience, randomRing } from '@postern/local-stack/testing'
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ConfigurationError } from '@postern/service-kit'
import { readConfig } from '../src/config.ts'
import { readBuiltPages } from '../src/pages/assets.ts'
import { type RunningConsole, startConsole } from '../src/service.ts'

const env = {
  POSTERN_PORT: '0',
  POSTERN_CONSOLE_URL: 'https://console.example',
  POSTERN_GATEWAY_URL: 'http://127.0.0.1:9',
  POSTERN_REDIS_URL: 'redis://127.0.0.1:9',
  POSTERN_CONSOLE_SESSION: randomRing(),
  POSTERN_OIDC_ISSUER: 'https://sign-in.example',
  ...patience,
}
let folder: string
let running: RunningConsole

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pages-'))
  await mkdir(join(folder, 'assets'))
  await writeFile(
    join(folder, 'index.html'),
    '<!doctype html><html><head><link rel="stylesheet" href="/assets/a-1.css"><script type="module" nonce="__CSP_NONCE__" src="/assets/a-1.js"></script></head></html>',
  )
  await writeFile(join(folder, 'assets', 'a-1.js'), 'export const x = 1\n'.repeat(100))
  await writeFile(join(folder, 'assets', 'a-1.css'), 'a{}')
  await writeFile(join(folder, 'assets', 'a-1.js.map'), '{}')
  await writeFile(join(folder, 'favicon.svg'), '<svg/>')
  const pages = readBuiltPages(folder, '')
  running = await startConsole(env, { overrides: { pages }, writeLog: () => undefined })
})
afterAll(async () => {
  await running.close()
  await rm(folder, { recursive: true })
})

/** As a browser behind the proxy that ends TLS. */
async function get(path: string, headers: Readonly<Record<string, string>> = {}) {
  const answer = await request(running.url + path, {
    headers: { host: 'console.example', accept: 'text/html', ...headers },
  })
  return { status: answer.statusCode, headers: answer.headers, bytes: Buffer.from(await answer.body.arrayBuffer()) }
}

test.each([
  ['with the port that goes without saying', 'console.example:443', 200],
  ['in capitals', 'Console.Example', 200],
  ['of another port', 'console.example:8443', 302],
  ['of nobody', 'a host', 302],
])('a request under a host name %s: %s is %d', async (_what, host, status) => {
  const answer = await get('/keys', { host })
  expect([answer.status, answer.headers.location]).toEqual([
    status,
    status === 302 ? 'https://console.example/keys' : undefined,
  ])
})

/** Returns the answer to any method at an address. */
async function told(method: string, path: string) {
  const { statusCode, headers, body } = await request(running.url + path, {
    method,
    headers: { host: 'console.example' },
  })
  const { code, detail } = JSON.parse(await body.text())
  return [statusCode, code, headers['allow'], detail]
}

describe('a method that an address does not take', () => {
  const passed = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

  test.each([
    ['TRACE', '/', 'GET, HEAD'],
    ['PROPFIND', '/', 'GET, HEAD'],
    ['POST', '/keys/0199?x=1', 'GET, HEAD'],
    ['DELETE', '/assets/a-1.js', 'GET, HEAD'],
    ['TRACE', '/api/v1/findings', passed],
    ['POST', '/auth/session', 'GET, HEAD'],
    ['OPTIONS', '/auth/logout', 'POST'],
    ['GET', '/auth/logout', 'POST'],
  ])('returns 405 with the supported methods: %s %s', async (method, path, allow) => {
    expect(await told(method, path)).toEqual([405, 'method_not_allowed', allow, `This address supports ${allow}.`])
  })

  test('returns 404 for an unknown address', async () => {
    for (const path of ['/auth/none', '/api/v2/findings', '/assets/none.js']) {
      const said = [404, 'not_found', undefined, 'This address does not exist. Check its spelling.']
      expect(await told('POST', path), path).toEqual(said)
      expect(await told('GET', path), path).toEqual(said)
    }
  })
})

describe('the pages', () => {
  test('every address of the app returns the page with a new nonce and without inline scripts', async () => {
    const nonces = new Set<string>()
    for (const path of ['/', '/keys/0199', '/settings?x=1']) {
      const { status, headers, bytes } = await get(path)
      const [, nonce = ''] =
        /script-src 'nonce-([^']+)' 'strict-dynamic';/.exec(String(headers['content-security-policy'])) ?? []
      expect([status, headers['cache-control']]).toEqual([200, 'no-store'])
      expect(nonce).toMatch(/^[A-Za-z0-9+/]{22}==$/)
      expect(headers['content-security-policy']).toContain("require-trusted-types-for 'script'; trusted-types default")
      const html = bytes.toString()
      expect([...html.matchAll(/nonce="([^"]*)"/g)].map(([, each]) => each)).toEqual([nonce, nonce, nonce])
      expect(html).not.toContain('__CSP_NONCE__')
      nonces.add(nonce)
    }
    expect(nonces.size).toBe(3)
  })

  test('a file with a digest in its name is cached for a year, and other responses are not cached', async () => {
    expect((await get('/assets/a-1.js')).headers['cache-control']).toBe('public, max-age=31536000, immutable')
    for (const path of ['/', '/favicon.svg', '/auth/session', '/api/v1/x', '/assets/none.js']) {
      expect((await get(path)).headers['cache-control'], path).toBe('no-store')
    }
  })

  test('a file is compressed if the client accepts it', async () => {
    const packed = await get('/assets/a-1.js', { 'accept-encoding': 'br, gzip' })
    expect([packed.headers['content-encoding'], packed.headers['vary']]).toEqual(['gzip', 'accept-encoding'])
    const plain = await get('/assets/a-1.js', { 'accept-encoding': 'gzip;q=0' })
    expect(plain.headers['content-encoding']).toBeUndefined()
    expect(packed.bytes.length).toBeLessThan(plain.bytes.length)
  })

  test.each(['/assets/none.js', '/assets/a-1.js.map', '/auth/nothing', '/api/v2/x', '/internal/metrics'])(
    '%s returns 404, not the page',
    async (path) => {
      const { status, headers } = await get(path)
      expect([status, headers['content-type']]).toEqual([404, 'application/problem+json'])
    },
  )

  test('every response has security headers', async () => {
    for (const path of ['/', '/favicon.svg', '/assets/a-1.js', '/auth/session', '/nothing.js', '/api/v1/x']) {
      const { headers } = await get(path)
      expect(headers, path).toMatchObject({
        'strict-transport-security': 'max-age=63072000; includeSubDomains',
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
        'permissions-policy': expect.stringContaining('camera=()'),
      })
      const policy = String(headers['content-security-policy'])
      expect(policy, path).toContain("frame-ancestors 'none'")
      expect(policy, path).not.toMatch(/unsafe|https?:|\*/)
    }
  })

  test('health and metrics are only on the internal port', async () => {
    const answer = await request(`http://127.0.0.1:${running.adminPort}/internal/metrics`)
    expect(await answer.body.text()).toContain('postern_console_sign_ins_total')
  })
})

async function metricsAt(port: number): Promise<string> {
  return await (await fetch(`http://127.0.0.1:${port}/internal/metrics`)).text()
}

describe('without an OpenID provider', () => {
  const logs: string[] = []
  let alone: RunningConsole
  beforeAll(async () => {
    alone = await startConsole(
      { ...env, POSTERN_OIDC_ISSUER: '', POSTERN_OIDC_CLIENT_SECRET: 'of compose' },
      { overrides: { pages: readBuiltPages(folder, '') }, writeLog: (line) => void logs.push(line) },
    )
  })
  afterAll(async () => await alone.close())

  const ask = async (path: string, options: { method?: string; accept?: string; body?: string } = {}) => {
    const { method = 'GET', accept = 'text/html', body } = options
    const headers = { accept, origin: env.POSTERN_CONSOLE_URL, cookie: `__Host-postern-session=${'A'.repeat(43)}` }
    const answer = await request(alone.url + path, { method, headers, ...(body === undefined ? {} : { body }) })
    return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() }
  }

  test('the console is ready without Redis and a gateway', async () => {
    const answer = await fetch(`http://127.0.0.1:${alone.adminPort}/internal/health/ready`)
    expect([answer.status, await answer.json()]).toEqual([200, { status: 'ok' }])
    expect(await metricsAt(alone.adminPort)).toMatch(/^postern_console_sign_in_configured\{[^}]*\} 0$/m)
    expect(await metricsAt(running.adminPort)).toMatch(/^postern_console_sign_in_configured\{[^}]*\} 1$/m)
    expect(logs.filter((line) => line.includes('"event":"sign_in_not_configured"'))).toHaveLength(1)
  })

  test.each(['/', '/settings/api-keys', '/auth/login?return_to=/x', '/auth/callback?code=x&state=y', '/verify'])(
    '%s names the missing setting',
    async (path) => {
      const { status, headers, text } = await ask(path)
      expect([status, headers['content-type'], headers['location']]).toEqual([
        503,
        'text/html; charset=utf-8',
        undefined,
      ])
      expect(text).toContain('Sign-in is not configured')
      expect(text).toContain('POSTERN_OIDC_ISSUER')
      expect(headers).toMatchObject({ 'cache-control': 'no-store', 'x-frame-options': 'DENY' })
      expect(text).not.toMatch(/<script|href=/)
    },
  )

  test.each([
    ['GET', '/api/v1/findings'],
    ['POST', '/api/v1/api-keys'],
    ['GET', '/.well-known/jwks.json'],
    ['GET', '/auth/session'],
    ['POST', '/auth/logout'],
    ['POST', '/auth/backchannel-logout'],
    ['DELETE', '/anything'],
  ])('%s %s returns a problem that names the missing setting', async (method, path) => {
    const body = method === 'POST' ? '{"a":' : undefined
    const answer = await ask(path, { method, accept: 'application/json', ...(body === undefined ? {} : { body }) })
    expect([answer.status, answer.headers['content-type']]).toEqual([503, 'application/problem+json'])
    expect(JSON.parse(answer.text)).toMatchObject({
      code: 'sign_in_not_configured',
      detail: expect.stringContaining('Set POSTERN_OIDC_ISSUER'),
    })
  })

  test('files of the pages are available', async () => {
    expect((await ask('/favicon.svg')).text).toBe('<svg/>')
    expect((await ask('/assets/none.js', { accept: '*/*' })).headers['content-type']).toBe('application/problem+json')
  })
})

describe('over https', () => {
  test('cookies are Secure and bound to this host', async () => {
    const browser = createTestBrowser()
    // No provider answers: a cookie that is cleared has the same attributes.
    const answer = await browser.send(`${running.url}/auth/logout`, {
      method: 'POST',
      headers: { origin: env.POSTERN_CONSOLE_URL, host: 'console.example' },
    })
    expect(answer.headers['set-cookie']).toBe(
      '__Host-postern-session=; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=0',
    )
  })

  test.each([
    ['POSTERN_CONSOLE_URL', 'http://console.example'],
    ['POSTERN_CONSOLE_URL', 'https://console.example/path?query'],
    ['POSTERN_CONSOLE_URL', 'https://console.example/a%20b'],
    ['POSTERN_CONSOLE_URL', 'https://console.example/a;b'],
    ['POSTERN_OIDC_ISSUER', 'http://sign-in.example'],
    ['POSTERN_OIDC_SCOPE', 'profile email'],
    ['POSTERN_CONSOLE_SESSION', 'k1:short'],
  ])('the configuration %s=%s is refused', (name, value) => {
    expect(() => readConfig({ ...env, [name]: value })).toThrow(ConfigurationError)
    expect(readConfig(env).isSecure).toBe(true)
  })
})
