/**
 * @promise Edge: The path that the gateway matches is the path that it signs, forwards and the service verifies.
 * @alsoShownBy packages/signed-context/src/request-target.test.ts
 */

import { routeTable } from '@postern/contracts'
import { startTestStack, type TestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCachingProxy, startCarelessServer } from '../support/caching-proxy.ts'
import { sendRaw } from '../support/raw.ts'

let stack: TestStack
let gateway: string
let key: string
let otherKey: string

beforeAll(async () => {
  stack = await startTestStack()
  gateway = stack.gateways[0] ?? ''
  const tenant = await stack.createTenant()
  key = (await stack.createKey(tenant, { scopes: ['*'] })).key
  otherKey = (await stack.createKey(await stack.createTenant(), { scopes: ['*'] })).key
})

afterAll(async () => {
  await stack.stop()
})

/** Sends the path unchanged, without a client library. Retries a 503 of a gateway without a lease. */
async function ask(target: string, method = 'GET', requestId = 'path-confusion', more = '') {
  const head = `${method} ${target} HTTP/1.1\r\nHost: postern\r\nAuthorization: ApiKey ${key}\r\nX-Request-Id: ${requestId}\r\n`
  for (;;) {
    const answer = await sendRaw(gateway, Buffer.from(`${head}${more}\r\n`, 'latin1'))
    if (answer.statuses[0] !== 503) return answer
  }
}

describe('an ambiguous path is rejected with 400 and not forwarded', () => {
  test.each([
    '/api/v1/findings/..',
    '/api/v1/findings/.',
    '/api/v1/./findings',
    '/api/v1/entities/../findings',
    '/api/v1/findings/%2e%2e/entities',
    '/api/v1/findings/%2E%2E%2Fentities',
    '/api/v1/findings/x%2f..%2f..%2finternal%2fv1%2fleases',
    '/api/v1/findings/x\\..\\..\\..\\..\\internal\\v1\\leases',
    '/api/v1/findings/x%5c..%5centities',
    '/api/v1/findings/%252e%252e/entities',
    '//api/v1/findings',
    '/api//v1/findings',
    '/api/v1//findings',
    '/api/v1/findings;x=/..',
    '/api/v1/findings%00',
    '/api/v1/findings%0d%0aX: y',
    '/api/v1/findings%zz',
    '/api/v1/findings%',
    '/api/v1/findings%c0%ae',
    '/api/v1/%66indings',
    '/api/v1/findings#x',
    'http://postern/api/v1/findings',
    'http://elsewhere.example/api/v1/findings',
    'postern/api/v1/findings',
    '*',
  ])('%s', async (target) => {
    const { statuses, text } = await ask(target)
    expect(statuses, text).toEqual([400])
    expect(text).toContain('application/problem+json')
  })

  test('bytes beyond ASCII', async () => {
    const { statuses } = await ask('/api/v1/findings/\u00e4')
    expect(statuses).toEqual([400])
  })
})

describe('a path that is not in the route table returns 404, even if it resembles a route', () => {
  test.each([
    '/api/v1/Findings',
    '/API/v1/findings',
    '/api/v1/findings/',
    '/api/v1/findings.json',
    '/api/v2/findings',
    '/internal/v1/leases',
    '/internal/v1/keys/lookups',
    '/internal/health/ready',
    '/internal/metrics',
    '/',
  ])('%s', async (target) => {
    const { statuses, text } = await ask(target)
    expect(statuses, text).toEqual([404])
  })

  test('control: the same key can read the real path', async () => {
    expect((await ask('/api/v1/findings')).statuses).toEqual([200])
  })

  test('services receive no request for these paths, but do receive the real one', async () => {
    const refused = ['/api/v1/findings/..', '/api/v1/findings/', '/internal/v1/leases', '/api/v1/findings;x=/..']
    for (const [index, target] of refused.entries()) await ask(target, 'GET', `refused-${index}`)
    await ask('/api/v1/findings', 'GET', 'forwarded-0')
    const isForwarded = async () => /"service":"findings"[^\n]*forwarded-0/.test(await stack.logs())
    await expect.poll(isForwarded).toBe(true)
    expect(await stack.logs()).not.toMatch(/"service":"(?!gateway)[a-z]+"[^\n]*refused-\d/)
    expect(await stack.logs()).toMatch(/"service":"gateway"[^\n]*refused-\d/)
  })
})

describe('a method that a path does not support', () => {
  test.each(['DELETE', 'PUT', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND'])(
    '%s is 405 and names those that it has',
    async (method) => {
      const { statuses, text } = await ask('/api/v1/findings', method)
      expect(statuses, text).toEqual([405])
      expect(text).toMatch(/allow: GET, HEAD, POST/i)
    },
  )

  test('ignores a method override', async () => {
    const { statuses } = await ask('/api/v1/findings', 'GET', 'path-confusion', 'X-HTTP-Method-Override: DELETE\r\n')
    expect(statuses).toEqual([200])
  })
})

test('a URL that is too long returns 414', async () => {
  const { statuses } = await ask(`/api/v1/findings?q=${'a'.repeat(9000)}`)
  expect(statuses).toEqual([414])
})

/** Sends one request with these additional header lines and returns the raw response. */
async function get(
  origin: string,
  target: string,
  lines: readonly string[],
  method = 'GET',
  body = '',
): Promise<string> {
  const content = body === '' ? [] : ['Content-Type: application/json', `Content-Length: ${body.length}`]
  const host = lines.some((line) => /^host:/i.test(line)) ? [] : ['Host: postern']
  const head = [`${method} ${target} HTTP/1.1`, ...host, ...lines, ...content, 'Connection: close']
  const bytes = Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`, 'latin1')
  for (;;) {
    const { statuses, text } = await sendRaw(origin, bytes, { answers: Infinity, limitMs: 30_000 })
    // A gateway without its lease, on a busy machine, knows nobody.
    if (statuses[0] !== 503 || !text.includes('auth_unavailable')) return text
  }
}

const as = (who: string): string => `Authorization: ApiKey ${who}`
const elsewhere = 'elsewhere.example'

const without = (answer: string): string => answer.replaceAll(/\r\n(?:x-request-id|date): [^\r]*/gi, '')

/** Returns the answers of a cache to the victim and then to the attacker. */
async function afterVictim(cache: string, target: string, attacker: readonly string[]): Promise<[string, string]> {
  return [await get(cache, target, [as(key)]), await get(cache, target, attacker)]
}

/** A problem document names the request in `instance`, an error of SCIM in its text. */
const withoutRequestId = (answer: string): string => answer.replaceAll(/"instance":"[^"]*"|Request [\w-]+\./g, '')

describe('a cache in front of the gateway', () => {
  const lies = [
    `Host: ${elsewhere}`,
    ...['Forwarded-Host', 'Host', 'Forwarded-Server', 'HTTP-Host-Override', 'Original-Host'].map(
      (name) => `X-${name}: ${elsewhere}`,
    ),
    `Forwarded: for=1.2.3.4;host=${elsewhere};proto=https`,
    `X-Forwarded-Proto: ${elsewhere}`,
    `X-Forwarded-Port: 1@${elsewhere}`,
    `X-Forwarded-Prefix: //${elsewhere}`,
    `X-Forwarded-For: ${elsewhere}`,
    `X-Forwarded-Scheme: http://${elsewhere}`,
    `X-Original-URL: //${elsewhere}/api/v1/connectors`,
    `X-Rewrite-URL: //${elsewhere}/api/v1/connectors`,
    `Referer: http://${elsewhere}/`,
    `Origin: http://${elsewhere}`,
  ]

  test('never gets a Link or Location that a client forged', async () => {
    const finding = '{"title":"x","condition":"x","severity":"low"}'
    for (let count = 0; count < 2; count += 1) await get(gateway, '/api/v1/findings', [as(key)], 'POST', finding)
    const answers = await Promise.all(
      lies.map(async (lie) => [
        await get(gateway, '/api/v1/findings', [as(key), lie], 'POST', finding),
        await get(gateway, '/api/v1/findings?limit=1', [as(key), lie]),
        ...(await Promise.all(
          ['/docs', '/api/v1/openapi.json', '/problems/not-found', '/.well-known/jwks.json', '/none'].map(
            async (target) => await get(gateway, target, [lie]),
          ),
        )),
      ]),
    )
    for (const [at, [made = '', list = '', ...others]] of answers.entries()) {
      expect(made, lies[at]).toMatch(/^HTTP\/1\.1 201 [^]*\r\nlocation: \/api\/v1\/findings\/[0-9a-f-]{36}\r\n/i)
      expect(list, lies[at]).toMatch(/^HTTP\/1\.1 200 [^]*\r\nlink: <\/api\/v1\/findings\?[^>]*>; rel="next"\r\n/i)
      for (const answer of [made, list, ...others]) expect(answer, lies[at]).not.toContain(elsewhere)
    }
    // The control: a server that trusts them is detected, and a cache serves its response to others.
    await using careless = await startCarelessServer()
    await using cache = await startCachingProxy(careless.url)
    expect(await get(cache.url, '/x', [`X-Forwarded-Host: ${elsewhere}`])).toContain(elsewhere)
    expect(await get(cache.url, '/x', [])).toContain(elsewhere)
  })

  test('may not store responses of authenticated operations, whatever their status', async () => {
    const closed = routeTable.filter(({ access }) => access.kind !== 'public')
    const answers = await Promise.all(
      closed.map(async ({ method, path }) => {
        const target = path.replaceAll(/:\w+/g, 'x')
        return {
          id: `${method} ${path}`,
          answer: await get(gateway, target, [as(key)], method, method === 'GET' ? '' : '{}'),
        }
      }),
    )
    expect(
      answers.filter(({ answer }) => !/\r\ncache-control: no-store\r\n/i.test(answer)).map(({ id }) => id),
    ).toEqual([])
    const statuses = new Set(answers.map(({ answer }) => answer.slice(9, 12)))
    for (const status of ['200', '403', '404', '422']) expect(statuses).toContain(status)
    for (const nobody of [[], ['Authorization: ApiKey x']]) {
      expect(await get(gateway, '/api/v1/findings', nobody)).toMatch(
        /^HTTP\/1\.1 401 [^]*\r\ncache-control: no-store\r\n/i,
      )
    }
  })

  test('may store only responses that are the same for everybody', async () => {
    const open = routeTable.filter(({ access, method }) => access.kind === 'public' && method === 'GET')
    expect(open.length).toBeGreaterThan(3)
    for (const { path } of open) {
      const target = path.replace(':slug', 'not-found').replaceAll(/:\w+/g, 'x')
      const [nobody = '', one = '', other = ''] = await Promise.all(
        [[], [as(key)], [as(otherKey)]].map(async (lines) =>
          withoutRequestId(without(await get(gateway, target, lines))),
        ),
      )
      expect(one, target).toBe(nobody)
      expect(other, target).toBe(nobody)
      expect(nobody.split('\r\n\r\n', 1)[0], target).not.toMatch(/ratelimit|x-key-expires-at|set-cookie/i)
    }
  })

  const disguised = [
    '/x.css',
    '.css',
    '/x.js',
    '%2fx.css',
    ';x.css',
    '%00.css',
    '%23x.css',
    '%3fx.css',
    '/..%2fx.css',
    '?x.css',
  ]

  test("never serves one caller's response to another, even if it ignores credentials and stores file-like paths", async () => {
    await using cache = await startCachingProxy(gateway, { staticAnyway: true })
    const { tenant }: { tenant: { id: string } } = JSON.parse(
      (await get(gateway, '/api/v1/whoami', [as(key)])).split('\r\n\r\n')[1] ?? '',
    )
    for (const target of ['/api/v1/whoami', '/api/v1/findings']) {
      const [own, others] = await afterVictim(cache.url, target, [as(otherKey)])
      expect(own).toMatch(/^HTTP\/1\.1 200 /)
      expect(others).toMatch(/^HTTP\/1\.1 200 /)
      expect(others.split('\r\n\r\n')[1]).not.toBe(own.split('\r\n\r\n')[1])
      for (const attacker of [[], ['Authorization: ApiKey x']]) {
        expect((await afterVictim(cache.url, target, attacker))[1]).toMatch(/^HTTP\/1\.1 401 /)
      }
      for (const disguise of disguised) {
        for (const answer of await afterVictim(cache.url, target + disguise, [])) {
          expect(answer, target + disguise).toMatch(/^HTTP\/1\.1 4\d\d /)
          expect(answer, target + disguise).not.toContain(tenant.id)
        }
      }
    }
    // The control: the cache does store, and a server that accepts such paths is detected.
    expect(cache.kept.size).toBeGreaterThan(0)
    await using careless = await startCarelessServer()
    await using before = await startCachingProxy(careless.url, { staticAnyway: true })
    for (const target of ['/api/v1/whoami', '/api/v1/whoami/x.css']) {
      expect((await afterVictim(before.url, target, []))[1]).toContain(`you are ApiKey ${key}`)
    }
    expect(before.hits()).toBe(2)
  })
})
