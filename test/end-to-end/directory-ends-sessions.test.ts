import { patchUrn } from '@postern/contracts'
import { type TestStack, createTestBrowser, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'

const withinMs = 5000
/** A slow machine may delay an answer. */
const patientMs = 30_000

let stack: TestStack
let scimKey: string
beforeAll(async () => {
  stack = await startTestStack({ console: true, signIn: { directory: { match: '/sub', with: 'externalId' } } })
  const korvex = await stack.createTenant('korvex')
  await stack.nameTenants({ korvex })
  scimKey = (await stack.createKey(korvex, { scopes: ['admin:sync'] })).key
})
afterAll(async () => await stack.stop())

async function scim(method: 'POST' | 'PATCH', path: string, body: unknown): Promise<unknown> {
  const headers = { authorization: `Bearer ${scimKey}`, 'content-type': 'application/scim+json' }
  const answer = await send(stack.gateways[0] ?? '', `/scim/v2${path}`, { method, headers, body: JSON.stringify(body) })
  expect(answer.status, answer.text).toBeLessThan(300)
  return answer.json
}

test('a person whom SCIM made inactive loses the session and cannot sign in until active again', async () => {
  const user = { userName: 'korvex-admin', externalId: 'korvex-admin', active: true }
  const { id } = z.looseObject({ id: z.string() }).parse(await scim('POST', '/Users', user))
  const setActive = async (value: boolean) =>
    await scim('PATCH', `/Users/${id}`, {
      schemas: [patchUrn],
      Operations: [{ op: 'replace', path: 'active', value }],
    })
  const url = stack.consoleUrl
  const browser = createTestBrowser()
  await browser.signIn(url, 'korvex-admin')
  const session = async () => await browser.send(`${url}/auth/session`)
  const first = await session()
  const { csrf_token: token } = z.object({ csrf_token: z.string() }).parse(JSON.parse(first.text))
  const headers = { accept: 'application/json', origin: url, 'sec-fetch-site': 'same-origin', 'x-csrf-token': token }
  const call = async () => (await browser.send(`${url}/api/v1/findings`, { headers })).status
  expect(await call()).toBe(200)

  await setActive(false)
  const endedAt = performance.now()
  let lastAccepted = endedAt
  const callNow = async () => {
    const at = performance.now()
    const status = await call()
    if (status === 200) lastAccepted = at
    return status
  }
  await expect.poll(callNow, { timeout: patientMs }).toBe(401)
  expect(lastAccepted - endedAt).toBeLessThan(withinMs)
  expect([(await session()).status, await call()]).toEqual([401, 401])
  const again = await createTestBrowser().signIn(url, 'korvex-admin')
  expect([again.status, again.text]).toEqual([403, expect.stringContaining('Your access has ended')])

  await setActive(true)
  const back = async () => {
    const other = createTestBrowser()
    await other.signIn(url, 'korvex-admin')
    return (await other.send(`${url}/auth/session`)).status
  }
  await expect.poll(back, { timeout: patientMs, interval: 200 }).toBe(200)
  // The session of before stays ended.
  expect((await session()).status).toBe(401)
})
