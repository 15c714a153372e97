/**
 * @promise Keys and secrets: Anyone who has a key can report it without credentials: it is revoked, and the answer tells nothing about it.
 * @alsoShownBy services/keys/test/report-leak.test.ts
 * @alsoShownBy services/keys/src/leak/reports.test.ts
 */

import { generateKeyPairSync, sign } from 'node:crypto'
import { generateKey } from '@postern/api-key'
import { leakReceiptSchema } from '@postern/contracts'
import { type TestStack, operator, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { send } from '../support/http.ts'

const github = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const githubKeys = JSON.stringify({
  public_keys: [
    { key_identifier: 'one', key: github.publicKey.export({ type: 'spki', format: 'pem' }), is_current: true },
  ],
})

let stack: TestStack
beforeAll(async () => {
  // Three reports a minute, each of which counts as twenty requests, and three of GitHub.
  stack = await startTestStack({
    gateways: 2,
    env: {
      POSTERN_PUBLIC_REQUESTS: '70',
      POSTERN_LOG_LEVEL: 'trace',
      POSTERN_GITHUB_SCANNING_KEYS: githubKeys,
    },
  })
})
afterAll(async () => await stack.stop())

test('a report that GitHub has signed arrives through the gateway, and one that it has not is refused', async () => {
  const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['read:findings'] })
  const [gateway = ''] = stack.gateways
  const body = JSON.stringify([{ token: key, type: 'postern_api_key', url: '', source: 'commit' }])
  const report = async (signed: string) =>
    await send(gateway, '/api/v1/leaked-keys/github', {
      method: 'POST',
      body,
      headers: {
        'content-type': 'application/json',
        'Github-Public-Key-Identifier': 'one',
        'Github-Public-Key-Signature': sign('sha256', Buffer.from(signed), github.privateKey).toString('base64'),
      },
    })
  expect(await report('another body')).toMatchObject({ status: 400, code: 'bad_request' })
  expect((await send(gateway, '/api/v1/findings', { key })).status).toBe(200)
  expect(await report(body)).toMatchObject({ status: 200, json: [{ label: 'true_positive' }] })
  expect(await send(gateway, '/api/v1/findings', { key })).toMatchObject({ status: 401, code: 'key_revoked' })
  expect(await report(body)).toMatchObject({ status: 409, code: 'conflict' })
})

test('a reported key works at no gateway, its trail names the address, and no log has a value', async () => {
  const tenant = await stack.createTenant()
  const { id, key } = await stack.createKey(tenant, { scopes: ['read:findings'] })
  const [first = '', second = ''] = stack.gateways
  for (const gateway of [first, second]) {
    expect((await send(gateway, '/api/v1/findings', { key })).status).toBe(200)
  }
  const unknown = generateKey().value
  const report = async (value: string) =>
    await send(first, '/api/v1/leaked-keys', { method: 'POST', body: { keys: [value] } })
  const [found, missed] = await Promise.all([report(key), report(unknown)])
  const withoutId = ({ status, headers, json }: typeof found) => {
    const { id: _id, received_at: _at, ...rest } = leakReceiptSchema.parse(json)
    const { date: _date, 'x-request-id': _requestId, ...others } = headers
    return { status, headers: others, rest }
  }
  expect(found.status).toBe(202)
  expect(withoutId(missed)).toEqual(withoutId(found))
  for (const gateway of [first, second]) {
    expect(await send(gateway, '/api/v1/findings', { key })).toMatchObject({ status: 401, code: 'key_revoked' })
  }
  const events = await stack.operator.call({ ...operator, tenantId: tenant.id }, 'GET', `/api/v1/api-keys/${id}/events`)
  expect(events.json).toContainEqual(
    expect.objectContaining({
      type: 'revoked',
      address: '127.0.0.1',
      actor: { type: 'reporter', id: '127.0.0.1', label: '127.0.0.1' },
    }),
  )

  expect((await report(unknown)).status).toBe(202)
  expect(await report(unknown)).toMatchObject({ status: 429, code: 'too_many_requests' })
  const logs = await stack.logs()
  expect(logs).toContain('/api/v1/leaked-keys')
  for (const value of [key, unknown]) expect(logs).not.toContain(value.slice(-12))
})
