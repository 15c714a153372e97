import { generateKey } from '@postern/api-key'
import { startTestStack, type TestStack } from '@postern/local-stack/testing'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Answer, send } from '../support/http.ts'

let stack: TestStack
let tenant: { readonly id: string }

const failuresAMinute = 20

beforeAll(async () => {
  stack = await startTestStack({ gateways: 3, env: { POSTERN_FAILED_ATTEMPTS: String(failuresAMinute) } })
})

afterAll(async () => {
  await stack.stop()
})

/** Calls whoami. */
async function whoIs(key: string, origin = stack.gateways[0] ?? ''): Promise<Answer> {
  return await send(origin, '/api/v1/whoami', { key })
}

/** Sends requests to all gateways in turn, several at a time. */
async function flood(count: number, key: string): Promise<Answer[]> {
  const answers: Answer[] = []
  let sent = 0
  const worker = async (): Promise<void> => {
    while (sent < count) {
      const origin = stack.gateways[sent % stack.gateways.length] ?? ''
      sent += 1
      answers.push(await whoIs(key, origin))
    }
  }
  await Promise.all(Array.from({ length: 12 }, worker))
  return answers
}

/** Limits are set by the platform, in the database. */
async function setLimits(limits: { readonly key: number; readonly tenant: number }): Promise<void> {
  tenant = await stack.createTenant()
  const client = new Client({ connectionString: stack.database.url('superuser') })
  await client.connect()
  await client.query('update keys.tenant set key_limit = $1, tenant_limit = $2 where tenant_id = $3', [
    limits.key,
    limits.tenant,
    tenant.id,
  ])
  await client.end()
}

const accepted = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200).length

describe('limits over all gateways together', () => {
  test('a key is limited and gets 429, while another key of the tenant still works', async () => {
    await setLimits({ key: 50, tenant: 100_000 })
    const { key } = await stack.createKey(tenant, { scopes: ['read:findings'] })
    const { key: neighbour } = await stack.createKey(tenant, { scopes: ['read:findings'] })
    const answers = await flood(200, key)
    // A flood that crosses the minute may use two windows, never more.
    expect([50, 100]).toContain(Math.ceil(accepted(answers) / 50) * 50)
    expect(accepted(answers)).toBeGreaterThan(0)
    const refused = answers.find(({ status }) => status === 429)
    expect(refused?.code).toBe('too_many_requests')
    expect(Number(refused?.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    expect(Number(refused?.headers['retry-after'])).toBeLessThanOrEqual(60)
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]))
    expect((await whoIs(neighbour)).status).toBe(200)
  })

  test('a tenant is limited independently of its number of keys', async () => {
    await setLimits({ key: 100_000, tenant: 60 })
    const keys = await Promise.all(
      [1, 2, 3].map(async () => await stack.createKey(tenant, { scopes: ['read:findings'] })),
    )
    const answers = (await Promise.all(keys.map(async ({ key }) => await flood(60, key)))).flat()
    expect([60, 120]).toContain(Math.ceil(accepted(answers) / 60) * 60)
    expect(answers.length - accepted(answers)).toBeGreaterThan(0)
  })
})

describe('an address that fails to authenticate again and again', () => {
  test('gets 429 for invalid keys, while valid keys from it still work, even at their first use', async () => {
    await setLimits({ key: 100_000, tenant: 100_000 })
    const { key: inUse } = await stack.createKey(tenant, { scopes: ['read:findings'] })
    const { key: notYet } = await stack.createKey(tenant, { scopes: ['read:findings'] })
    for (const origin of stack.gateways) expect((await whoIs(inUse, origin)).status).toBe(200)
    const guess = async () => await whoIs(generateKey().value)
    for (let attempt = 0; attempt <= failuresAMinute; attempt += 1) expect((await guess()).status).toBe(401)
    await expect.poll(async () => (await guess()).status).toBe(429)
    expect((await whoIs(notYet)).status).toBe(200)
    for (const origin of stack.gateways) expect((await whoIs(inUse, origin)).status).toBe(200)
  })
})
