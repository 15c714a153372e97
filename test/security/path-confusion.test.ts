import { startTestStack, type TestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sendRaw } from '../support/raw.ts'

let stack: TestStack
let gateway: string
let key: string

beforeAll(async () => {
  stack = await startTestStack()
  gateway = stack.gateways[0] ?? ''
  const tenant = await stack.createTenant()
  key = (await stack.createKey(tenant, { scopes: ['*'] })).key
})

afterAll(async () => {
  await stack.stop()
})

/** The path as it is on the wire: no client library may tidy it up. */
async function ask(target: string, method = 'GET', requestId = 'path-confusion') {
  return await sendRaw(
    gateway,
    Buffer.from(
      `${method} ${target} HTTP/1.1\r\nHost: postern\r\nAuthorization: ApiKey ${key}\r\nX-Request-Id: ${requestId}\r\n\r\n`,
      'latin1',
    ),
  )
}

describe('a path with a second reading is refused with 400, and nothing is forwarded', () => {
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

describe('a path that is not in the route table is 404, also when it looks like one that is', () => {
  test.each([
    '/api/v1/Findings',
    '/API/v1/findings',
    '/api/v1/findings/',
    '/api/v1/findings.json',
    '/api/v2/findings',
    '/internal/v1/leases',
    '/internal/v1/keys/lookup',
    '/internal/health/ready',
    '/internal/metrics',
    '/',
  ])('%s', async (target) => {
    const { statuses, text } = await ask(target)
    expect(statuses, text).toEqual([404])
  })

  test('the control: the same key reads the true path', async () => {
    expect((await ask('/api/v1/findings')).statuses).toEqual([200])
  })

  test('no service ever sees a request for one of them, while it sees the true one', async () => {
    const refused = ['/api/v1/findings/..', '/api/v1/findings/', '/internal/v1/leases', '/api/v1/findings;x=/..']
    for (const [index, target] of refused.entries()) await ask(target, 'GET', `refused-${index}`)
    await ask('/api/v1/findings', 'GET', 'forwarded-0')
    const isForwarded = async () => /"service":"findings"[^\n]*forwarded-0/.test(await stack.logs())
    await expect.poll(isForwarded).toBe(true)
    expect(await stack.logs()).not.toMatch(/"service":"(?!gateway)[a-z]+"[^\n]*refused-\d/)
    expect(await stack.logs()).toMatch(/"service":"gateway"[^\n]*refused-\d/)
  })
})

describe('a method that a path does not have', () => {
  test.each(['DELETE', 'PUT', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND'])(
    '%s is 405 and names those that it has',
    async (method) => {
      const { statuses, text } = await ask('/api/v1/findings', method)
      expect(statuses, text).toEqual([405])
      expect(text).toMatch(/allow: GET, HEAD, POST/i)
    },
  )

  test('a method override changes nothing', async () => {
    const { statuses } = await sendRaw(
      gateway,
      `GET /api/v1/findings HTTP/1.1\r\nHost: postern\r\nAuthorization: ApiKey ${key}\r\nX-HTTP-Method-Override: DELETE\r\n\r\n`,
    )
    expect(statuses).toEqual([200])
  })
})

test('a URL that is too long is 414', async () => {
  const { statuses } = await ask(`/api/v1/findings?q=${'a'.repeat(9000)}`)
  expect(statuses).toEqual([414])
})
