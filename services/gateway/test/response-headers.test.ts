import { generateKey } from '@postern/api-key'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { keyRecord } from './builders.ts'
import { type TestGateway, startTestGateway } from './gateway.ts'

const day = 86_400_000
let gateway: TestGateway

/** A key that the keys service knows. */
function makeKey(settings: Parameters<typeof keyRecord>[0], expiresInDays: number): string {
  const { value, hash } = generateKey()
  const expiresAt = Date.now() + expiresInDays * day
  gateway.keys.records.set(hash, { ...keyRecord({ hash, ...settings }), expiresAt })
  return value
}

beforeAll(async () => {
  gateway = await startTestGateway()
  await gateway.untilReady()
})

const closings: Promise<void>[] = []
afterAll(async () => {
  await Promise.all([gateway.close(), ...closings])
})

describe('an answer to a known key', () => {
  test.each([
    ['of a service', '/api/v1/findings', 200],
    ['of the gateway', '/api/v1/whoami', 200],
    ['that its scope does not reach', '/api/v1/connectors', 403],
    ['that there is no such route', '/api/v1/no-such-thing', 404],
    ['that a parameter is none', '/api/v1/whoami?x=1', 400],
    ['that the service is away', '/api/v1/entities', 503],
  ])('%s reports the rest of its limit', async (_what, path, status) => {
    const key = makeKey({ scopes: ['read:*'], keyLimit: 600 }, 30)
    const answer = await gateway.get(path, key)
    expect(answer.status).toBe(status)
    expect(answer.headers.get('ratelimit-policy')).toBe('"caller";q=600;w=60')
    expect(answer.headers.get('ratelimit')).toMatch(/^"caller";r=(?:600|599);t=\d+$/)
    expect(answer.headers.get('api-version')).toBe('1.0.0-beta')
    expect(answer.headers.get('x-request-id')).not.toBeNull()
  })

  test('that reaches its limit reports that no requests are left', async () => {
    const key = makeKey({ scopes: ['read:*'], keyLimit: 1 }, 30)
    expect((await gateway.get('/api/v1/findings', key)).status).toBe(200)
    const refused = await gateway.get('/api/v1/findings', key)
    expect(refused.status).toBe(429)
    expect(refused.headers.get('ratelimit')).toMatch(/^"caller";r=0;t=\d+$/)
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
  })

  test('has its expiry during the last 14 days, even in a refusal', async () => {
    const [late, early] = [makeKey({ scopes: ['read:*'] }, 13), makeKey({ scopes: ['read:*'] }, 15)]
    for (const path of ['/api/v1/findings', '/api/v1/connectors']) {
      const at = (await gateway.get(path, late)).headers.get('x-key-expires-at')
      expect(Date.parse(at ?? '') - Date.now()).toBeLessThan(13 * day)
      expect((await gateway.get(path, early)).headers.get('x-key-expires-at')).toBeNull()
    }
  })
})

/** The status of an answer to a key with one scope, and its Tus-Resumable. */
const ask = async (target: string, scope: 'write:*' | 'read:*', init: RequestInit = {}) => {
  const headers = { authorization: `ApiKey ${makeKey({ scopes: [scope] }, 30)}`, ...init.headers }
  const { status, headers: answered } = await fetch(`http://127.0.0.1:${gateway.port}${target}`, { ...init, headers })
  return [status, answered.get('tus-resumable')]
}

test('only refusals of requests for resumable uploads name the tus version', async () => {
  const path = '/api/v1/evidence/uploads'
  const piece = { method: 'PATCH', body: 'x', headers: { 'content-encoding': 'gzip' } }
  const answers = [
    await ask(path, 'write:*', { method: 'POST', headers: { authorization: 'ApiKey none' } }),
    await ask(path, 'read:*', { method: 'POST' }),
    await ask(path, 'write:*', { method: 'POST', body: 'x' }),
    await ask(`${path}/019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001`, 'write:*', piece),
  ]
  expect(answers).toEqual([401, 403, 400, 415].map((status) => [status, '1.0.0']))
  expect(await ask('/api/v1/evidence', 'read:*', { method: 'POST' })).toEqual([403, null])
})

test('a response to an unknown caller has no limit', async () => {
  for (const key of [undefined, generateKey().value]) {
    const refused = await gateway.get('/api/v1/findings', key)
    expect(refused.status).toBe(401)
    expect(refused.headers.get('ratelimit')).toBeNull()
    expect(refused.headers.get('www-authenticate')).toContain('ApiKey')
    expect(refused.headers.get('api-version')).toBe('1.0.0-beta')
  }
})

test('every response of a draining gateway closes its connection, including refusals', async () => {
  const draining = await startTestGateway({ POSTERN_DRAIN_MS: '10000' })
  const { value, hash } = generateKey()
  const record = keyRecord({ hash, scopes: ['read:findings'] })
  draining.keys.records.set(hash, { ...record, expiresAt: Date.now() + day })
  await draining.untilReady()
  closings.push(draining.close())
  await draining.untilReady(false)
  const connectionOf = async (path: string, key?: string): Promise<unknown> => {
    const { status, headers } = await draining.get(path, key)
    return [status, headers.get('connection')]
  }
  expect(await connectionOf('/api/v1/findings', value)).toEqual([200, 'close'])
  expect(await connectionOf('/api/v1/whoami?x=1', value)).toEqual([400, 'close'])
  expect(await connectionOf('/api/v1/findings')).toEqual([401, 'close'])
  expect(await connectionOf('/api/v1/connectors', value)).toEqual([403, 'close'])
  expect(await connectionOf('/api/v1/nothing', value)).toEqual([404, 'close'])
  expect(await connectionOf('//', value)).toEqual([400, 'close'])
})
