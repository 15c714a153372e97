import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TestStack } from '../src/testing/index.ts'
import { startTestStack } from '../src/testing/index.ts'

/** Retries while the gateway has no lease, as on a busy machine. */
async function read(gateway: string, key: string): Promise<Response> {
  for (;;) {
    const answer = await fetch(`${gateway}/api/v1/findings`, { headers: { authorization: `ApiKey ${key}` } })
    if (answer.status !== 503 || !(await answer.clone().text()).includes('auth_unavailable')) return answer
  }
}

describe('a test stack', { timeout: 120_000 }, () => {
  let stack: TestStack

  beforeAll(async () => {
    stack = await startTestStack({ gateways: 2 })
  }, 120_000)

  afterAll(async () => await stack.stop())

  test('has gateways that accept a new key, and reject one without the scope', async () => {
    const tenant = await stack.createTenant()
    const reader = await stack.createKey(tenant, { scopes: ['read:findings'] })
    const writer = await stack.createKey(tenant, { scopes: ['write:findings'] })
    for (const gateway of stack.gateways) {
      expect((await read(gateway, writer.key)).status).toBe(403)
      expect((await read(gateway, reader.key)).status).toBe(200)
    }
  })

  test('can lose a service and get it back on the same port', async () => {
    const key = await stack.createKey(await stack.createTenant(), { scopes: ['read:findings'] })
    const gateway = stack.gateways[0] ?? ''
    stack.process('findings').kill('SIGKILL')
    await stack.process('findings').exited
    expect((await read(gateway, key.key)).status).toBe(503)
    await stack.restart('findings')
    expect((await read(gateway, key.key)).status).toBe(200)
  })

  test('shows in its logs what every process has printed, also before a restart', async () => {
    await stack.restart('gateway-2')
    const listening = (await stack.logs()).split('\n').filter((line) => line.includes('"listening"'))
    expect(listening.filter((line) => line.includes('"gateway"')).length).toBeGreaterThanOrEqual(3)
    for (const service of ['keys', 'findings', 'universe', 'evidence', 'sync']) {
      expect(listening.some((line) => line.includes(`"${service}"`))).toBe(true)
    }
  })
})
