import { publishedOpenApi } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'

let issuer: RunningIssuer
let stack: TestStack
let gateway: string
beforeAll(async () => {
  issuer = await startIssuer()
  stack = await startTestStack({
    gateways: 2,
    env: { POSTERN_OIDC_ISSUER: issuer.url, POSTERN_OIDC_AUDIENCE: 'postern' },
  })
  gateway = stack.gateways[0] ?? ''
})

afterAll(async () => {
  await stack.stop()
  await issuer.stop()
})

describe('the reference', () => {
  test.each([
    ['/docs', 'text/html'],
    ['/docs/reference.js', 'text/javascript'],
  ])('is public at %s, and returns 304 if unchanged', async (target, mediaType) => {
    const answer = await send(gateway, target)
    expect([answer.status, answer.headers['content-type']]).toEqual([200, `${mediaType}; charset=utf-8`])
    const headers = { 'if-none-match': String(answer.headers['etag']) }
    expect(await send(gateway, target, { headers })).toMatchObject({ status: 304, text: '' })
    const several = { 'if-none-match': `"other", W/${String(answer.headers['etag'])}` }
    expect(await send(gateway, target, { headers: several })).toMatchObject({ status: 304, text: '' })
  })

  test('may run only its own script, and send requests only to its own origin', async () => {
    const { headers } = await send(gateway, '/docs')
    const policy = String(headers['content-security-policy']).split('; ')
    expect(policy).toEqual(
      expect.arrayContaining(["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"]),
    )
    expect(policy.find((each) => each.startsWith('script-src '))).toMatch(
      /^script-src 'self' 'sha256-[A-Za-z0-9+/]{43}='$/,
    )
  })

  test('and other responses of the gateway are rejected in an unknown media type', async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['read:findings'] })
    for (const [target, accept, refused] of [
      ['/api/v1/whoami', 'application/json', 'text/csv'],
      ['/api/v1/openapi.json', 'application/*', 'text/html'],
      ['/docs', 'text/html', 'application/json'],
      ['/problems/not-found', '*/*', 'application/json'],
    ] as const) {
      expect((await send(gateway, target, { key, headers: { accept } })).status, target).toBe(200)
      const answer = await send(gateway, target, { key, headers: { accept: refused } })
      expect([answer.status, answer.code], target).toEqual([406, 'not_acceptable'])
    }
  })

  test('and the document are compressed if the caller accepts it, with a separate entity tag', async () => {
    const cases = ['/docs/reference.js', '/api/v1/openapi.json', '/api/v1/swagger.json'].flatMap((target) => [
      [target, 'gzip', 'gzip'] as const,
      [target, 'gzip, br', 'br'] as const,
    ])
    for (const [target, accepted, coding] of cases) {
      const plain = await send(gateway, target)
      const packed = await fetch(new URL(target, gateway), { headers: { 'accept-encoding': accepted } })
      expect(packed.headers.get('content-encoding')).toBe(coding)
      expect(Number(packed.headers.get('content-length'))).toBeLessThan(plain.text.length / 3)
      expect([packed.headers.get('vary'), plain.headers['vary']]).toEqual(['accept-encoding', 'accept-encoding'])
      expect(await packed.text()).toBe(plain.text)
      const etag = packed.headers.get('etag') ?? ''
      expect(etag).not.toBe(plain.headers['etag'])
      const headers = { 'accept-encoding': accepted, 'if-none-match': etag }
      const again = await fetch(new URL(target, gateway), { headers })
      expect([again.status, again.headers.get('content-encoding')]).toEqual([304, null])
    }
  })

  test('are what an unknown path links to (RFC 8631)', async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['read:findings'] })
    const { status, headers } = await send(gateway, '/api/v1', { key })
    expect([status, headers['link']]).toEqual([
      404,
      '</api/v1/openapi.json>; rel="service-desc", </docs>; rel="service-doc"',
    ])
  })

  test('and the document describe the API that serves them', async () => {
    const answer = await send(gateway, '/api/v1/openapi.json')
    const { servers } = z.object({ servers: z.tuple([z.object({ url: z.string() })]) }).parse(answer.json)
    expect(answer.json).toEqual(JSON.parse(JSON.stringify(publishedOpenApi(servers[0].url))))
  })
})
