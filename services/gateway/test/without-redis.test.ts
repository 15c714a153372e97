import { generateKey } from '@postern/api-key'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { keyRecord } from './builders.ts'
import { type TestGateway, startTestGateway } from './gateway.ts'

let gateway: TestGateway

beforeEach(async () => {
  gateway = await startTestGateway({ POSTERN_GATEWAY_COUNT: '11' })
  await gateway.untilReady()
})

afterEach(async () => await gateway.close())

async function fromAdmin(path: string): Promise<string> {
  return await (await fetch(`http://127.0.0.1:${gateway.adminPort}${path}`)).text()
}

test('a gateway without Redis is ready, and its readiness says what does not work', async () => {
  expect(JSON.parse(await fromAdmin('/internal/health/ready'))).toEqual({
    status: 'ok',
    degraded: ['redis_commands', 'redis_subscription'],
  })
})

test('a removed setting is logged at the start and has no effect', () => {
  const line = gateway.log.map((text) => JSON.parse(text)).find(({ event }) => event === 'setting_removed')
  expect(line).toMatchObject({ name: 'POSTERN_GATEWAY_COUNT', advice: expect.stringContaining('Remove it') })
})

test('a caller gets this gateway’s share of its limit, and the headers show it', async () => {
  gateway.keys.lease = { gateways: 4 }
  await expect.poll(async () => await fromAdmin('/internal/metrics')).toContain('postern_gateway_leases_held')
  await expect
    .poll(async () => await fromAdmin('/internal/metrics'))
    .toMatch(/^postern_gateway_rate_limit_share_ratio\{[^}]*\} 0\.25$/m)
  const { value: key, hash } = generateKey()
  gateway.keys.records.set(hash, keyRecord({ hash, keyLimit: 20 }))
  const answers = []
  for (let sent = 0; sent < 6; sent += 1) answers.push(await gateway.get('/api/v1/findings', key))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429])
  expect(answers.at(-1)?.headers.get('ratelimit-policy')).toBe('"caller";q=5;w=60')
  expect(answers.at(-1)?.text).toContain('its share of 5')
})
