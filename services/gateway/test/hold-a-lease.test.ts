import { generateKey } from '@postern/api-key'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { keyRecord } from './builders.ts'
import { type TestGateway, startTestGateway } from './gateway.ts'

let gateway: TestGateway
const { value, hash } = generateKey()
const record = keyRecord({ hash, expiresAt: Date.now() + 86_400_000 })

beforeEach(async () => {
  gateway = await startTestGateway()
  gateway.keys.records.set(hash, record)
})

afterEach(async () => {
  await gateway.close()
})

describe('without a lease', () => {
  test('each request is looked up anew, so that a revocation holds for the very next one', async () => {
    gateway.keys.lease = { granted: false }
    expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
    const { lookups } = gateway.keys
    expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
    expect(gateway.keys.lookups).toBeGreaterThan(lookups)
    gateway.keys.records.set(hash, { ...record, version: 2, revoked: true })
    const answer = await gateway.get('/api/v1/findings', value)
    expect(answer.status).toBe(401)
    expect(answer.text).toContain('key_revoked')
  })

  test.each(['frozen', 'erring'] as const)(
    'a %s keys service means 503 with Retry-After, never 200 and never 401',
    async (mode) => {
      await gateway.untilReady()
      expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
      gateway.keys.mode = mode
      await gateway.untilReady(false)
      for (const key of [value, generateKey().value]) {
        const answer = await gateway.get('/api/v1/findings', key)
        expect(answer.status).toBe(503)
        expect(answer.headers.get('retry-after')).toBe('1')
        expect(answer.text).toContain('auth_unavailable')
      }
      gateway.keys.mode = 'well'
      await gateway.untilReady()
      expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
    },
  )
})

describe('under a lease', () => {
  test('a key is looked up once', async () => {
    await gateway.untilReady()
    for (let sent = 0; sent < 3; sent += 1) expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
    expect(gateway.keys.lookups).toBe(1)
  })

  test('a revocation that a renewal brings refuses the key that is in memory', async () => {
    await gateway.untilReady()
    expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
    gateway.keys.lease = { cursor: 1, revocations: [{ kind: 'key', seq: 1, hash, version: 2, revoked: true }] }
    const { renewals } = gateway.keys
    while (gateway.keys.renewals < renewals + 2) await new Promise((resolve) => setTimeout(resolve, 5))
    const answer = await gateway.get('/api/v1/findings', value)
    expect(answer.status).toBe(401)
    expect(answer.text).toContain('key_revoked')
    expect(gateway.keys.lookups).toBe(1)
  })
})
