import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestGateway, startTestGateway } from './gateway.ts'

let gateway: TestGateway
const most = 3

beforeAll(async () => {
  gateway = await startTestGateway({
    POSTERN_TRUSTED_PROXIES: '127.0.0.1',
    POSTERN_TENANT_CONNECTIONS: String(most * 8),
  })
  await gateway.untilReady()
})
afterAll(async () => await gateway.close())

async function ask(address: string, query = '', signal?: AbortSignal): Promise<Response> {
  const headers = { 'x-forwarded-for': address }
  const url = `http://127.0.0.1:${gateway.port}/api/v1/remediation-log/keys${query}`
  return await fetch(url, { headers, ...(signal === undefined ? {} : { signal }) })
}

test('strangers of one network cannot hold the connections of all strangers', async () => {
  const leave = new AbortController()
  const held = Array.from({ length: most }, async (_, at) => {
    await ask(`2001:db8::${at}`, '?unanswered', leave.signal).catch(() => undefined)
  })
  await expect.poll(gateway.arrived, { timeout: 60_000 }).toBe(most)
  const refused = await ask('2001:db8::ffff')
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
  expect(await refused.json()).toMatchObject({ code: 'too_many_requests' })
  expect((await ask('192.0.2.1')).status).toBe(200)
  leave.abort()
  await Promise.all(held)
  // Ended requests do not count (control).
  await expect.poll(async () => (await ask('2001:db8::ffff')).status, { timeout: 60_000 }).toBe(200)
})
