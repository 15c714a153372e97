/**
 * @promise Operation: An event of each service reaches an HTTPS receiver within seconds, without a secret in it.
 */

import { createdWebhookSchema, webhookEventTypes } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { startReceiver, verify } from '../../services/sync/test/webhook-support.ts'
import { send } from '../support/http.ts'
import { type RunningIssuer, startIssuer } from '../support/issuer.ts'

let stack: TestStack
let issuer: RunningIssuer
let gateway: string
let receiver: Awaited<ReturnType<typeof startReceiver>>

beforeAll(async () => {
  issuer = await startIssuer()
  receiver = await startReceiver()
  stack = await startTestStack({
    env: {
      POSTERN_OIDC_ISSUER: issuer.url,
      POSTERN_OIDC_AUDIENCE: 'postern',
      POSTERN_SYNC_NETWORKS: '127.0.0.1/32',
      POSTERN_API_URL: 'https://api.bank.example',
    },
  })
  gateway = stack.gateways[0] ?? ''
})
afterAll(async () => {
  await stack.stop()
  await receiver.close()
  await issuer.stop()
})

test('keys, findings, evidence and runs send their events to the administrator’s endpoint', async () => {
  const tenant = await stack.createTenant()
  const { key, id: usedId } = await stack.createKey(tenant, { scopes: ['*'] })
  const authorization = `Bearer ${await issuer.issue({ tenantId: tenant.id, roles: ['admin'] })}`
  const asAdmin = async (path: string, body: unknown = {}) =>
    await send(gateway, path, { method: 'POST', headers: { authorization }, body })
  const body = { url: `${receiver.url}/hook`, events: ['*'], ca: receiver.ca }
  expect(await send(gateway, '/api/v1/webhooks', { method: 'POST', key, body })).toMatchObject({ status: 403 })
  const made = await asAdmin('/api/v1/webhooks', body)
  expect(made.status, made.text).toBe(201)
  const { secret } = createdWebhookSchema.parse(made.json)

  const { id, key: value } = await stack.createKey(tenant, { scopes: ['read:findings'] })
  expect((await asAdmin(`/api/v1/api-keys/${id}/revoke`)).status).toBe(200)
  const { id: leakedId, key: leaked } = await stack.createKey(tenant, { scopes: ['read:findings'] })
  await send(gateway, '/api/v1/leaked-keys', { method: 'POST', body: { keys: [leaked] } })
  const entity = [{ external_id: 'T-1', name: 'Treasury', type: 'department' }]
  expect((await send(gateway, '/api/v1/sync/entities', { method: 'POST', key, body: entity })).status).toBe(200)
  const finding = { title: 'No review', severity: 'high', condition: 'Nobody reviews.' }
  const found = await send(gateway, '/api/v1/findings', { method: 'POST', key, body: finding })
  expect(found.status, found.text).toBe(201)

  const got = () => receiver.at('/hook').map((each) => `${each.body.type} ${each.body.data.id}`)
  await vi.waitFor(
    () => {
      expect(got()).toEqual(
        expect.arrayContaining([
          `key.created ${id}`,
          `key.revoked ${id}`,
          `key.leaked ${leakedId}`,
          `key.revoked ${leakedId}`,
          expect.stringMatching(/^sync_run\.finished /),
          expect.stringMatching(/^finding\.created /),
        ]),
      )
    },
    { timeout: 60_000 },
  )
  expect(got().indexOf(`key.created ${id}`)).toBeLessThan(got().indexOf(`key.revoked ${id}`))
  expect(got()).not.toContain(`key.created ${usedId}`)
  for (const each of receiver.at('/hook')) {
    expect(verify(secret, each)).toMatchObject({ type: each.body.type })
    expect(Object.keys(webhookEventTypes)).toContain(each.body.type)
    expect(Object.keys(each.body.data)).toEqual(['id', 'version', 'url'])
    for (const one of [key, value, leaked]) expect(each.text).not.toContain(one)
  }
  const revoked = receiver.at('/hook').find((each) => each.body.type === 'key.revoked')
  expect(revoked?.body.data).toMatchObject({ url: `https://api.bank.example/api/v1/api-keys/${id}` })
})
