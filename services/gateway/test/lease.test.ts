/**
 * @promise Revocation: A gateway that cannot find out whether a key is valid answers 503; it neither grants access nor answers
 * 401.
 * @alsoShownBy services/gateway/src/authenticate/key-lookup.test.ts
 */

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

/** Sends concurrent requests with different keys, every second one unknown. */
async function useAtOnce(count: number): Promise<number[]> {
  const keys = Array.from({ length: count }, (_none, at) => ({ ...generateKey(), isKnown: at % 2 === 0 }))
  for (const key of keys) if (key.isKnown) gateway.keys.records.set(key.hash, { ...record, hash: key.hash })
  return await Promise.all(keys.map(async (key) => (await gateway.get('/api/v1/findings', key.value)).status))
}

describe('without a lease', () => {
  test('each request is looked up again, so that a revocation applies to the next one', async () => {
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

  test('what is in memory is looked up again when the clock of PostgreSQL was set back', async () => {
    const renewed = async (): Promise<void> => {
      const { renewals } = gateway.keys
      await expect.poll(() => gateway.keys.renewals).toBeGreaterThan(renewals + 1)
    }
    await gateway.untilReady()
    expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
    gateway.keys.lease = { now: Date.now() + 60_000 }
    await renewed()
    expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
    expect(gateway.keys.lookups).toBe(1)
    gateway.keys.lease = {}
    await renewed()
    expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
    expect(gateway.keys.lookups).toBe(2)
  })

  test('keys that are first used at the same time get each their own answer', async () => {
    await gateway.untilReady()
    const statuses = await useAtOnce(30)
    expect(statuses).toEqual(Array.from({ length: 30 }, (_none, at) => (at % 2 === 0 ? 200 : 401)))
    expect(gateway.keys.lookups).toBe(30)
  })

  test('a log that knows less than was seen is counted', async () => {
    await gateway.untilReady()
    gateway.keys.lease = { cursor: 3 }
    const { renewals } = gateway.keys
    while (gateway.keys.renewals < renewals + 2) await new Promise((resolve) => setTimeout(resolve, 5))
    gateway.keys.lease = { cursor: 1, reset: true }
    const metrics = async () => await (await fetch(`http://127.0.0.1:${gateway.adminPort}/internal/metrics`)).text()
    await expect.poll(metrics).toMatch(/^postern_gateway_log_resets_total\S* [1-9]/m)
  })

  test('a revocation in a lease renewal rejects the key in memory', async () => {
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
