import { generateKey } from '@postern/api-key'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { keyRecord } from './builders.ts'
import { type TestGateway, startTestGateway } from './gateway.ts'

let gateway: TestGateway
const limit = 20

beforeAll(async () => {
  gateway = await startTestGateway({ POSTERN_FAILED_ATTEMPTS: String(limit) })
  await gateway.untilReady()
})
afterAll(async () => await gateway.close())

test('a good key that is not in memory works behind an address that sends many invented keys', async () => {
  const statusOf = async (key: string) => (await gateway.get('/api/v1/findings', key)).status
  for (let sent = 0; sent <= limit; sent += 1) expect(await statusOf(generateKey().value)).toBe(401)
  // Who guesses learns nothing more.
  expect(await statusOf(generateKey().value)).toBe(429)
  const { value, hash } = generateKey()
  gateway.keys.records.set(hash, keyRecord({ hash, scopes: ['*'], expiresAt: Date.now() + 86_400_000 }))
  const flood = Array.from({ length: 200 }, async () => await statusOf(generateKey().value))
  expect(await statusOf(value)).toBe(200)
  expect(new Set(await Promise.all(flood))).toEqual(new Set([429]))
  expect(await statusOf(value)).toBe(200)
})
