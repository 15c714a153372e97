import { operator, startTestStack, type TestStack } from '@postern/local-stack/testing'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { send } from '../support/http.ts'

/*
 * PostgreSQL fails over to a standby that lacks the last change. Its log number is assigned again to a revocation. The
 * test removes what such a standby lacks: the change, its number and later cursors of gateways.
 */

let stack: TestStack

beforeAll(async () => {
  // Redis is off, because its announcements work regardless of numbers.
  stack = await startTestStack({ redis: false })
})

afterAll(async () => await stack.stop())

async function revoke(tenant: { readonly id: string }, id: string) {
  const as = { ...operator, tenantId: tenant.id }
  return await stack.operator.call(as, 'POST', `/api/v1/api-keys/${id}/revoke`, { body: { reason: 'leaked' } })
}

test('a revocation that reuses the number of a lost one is in force when it returns', async () => {
  const tenant = await stack.createTenant()
  const [lost, key] = [
    await stack.createKey(tenant, { scopes: ['read:findings'] }),
    await stack.createKey(tenant, { scopes: ['read:findings'] }),
  ]
  const ask = async () => (await send(stack.gateways[0] ?? '', '/api/v1/findings', { key: key.key })).status
  expect(await ask()).toBe(200)
  // The gateway has received it.
  expect(await revoke(tenant, lost.id)).toMatchObject({ status: 200, json: { enforcement: { confirmed: 1 } } })
  expect(await ask()).toBe(200)
  const client = new Client({ connectionString: stack.database.url('superuser') })
  await client.connect()
  try {
    await client.query('begin')
    const { rows } = await client.query<{ seq: string; mark: string }>(
      `delete from keys.revocation where seq = (select seq from keys.revocation_seq)
       returning seq, mark_before as mark`,
    )
    const [last] = rows
    await client.query('update keys.revocation_seq set seq = $1::bigint - 1, mark = $2', [last?.seq, last?.mark])
    await client.query('update keys.gateway_lease set acked = least(acked, $1::bigint - 1)', [last?.seq])
    await client.query(
      `update keys.api_key set revoked_at = now(), revoked_by_type = 'operator', revoked_by_id = 'x', revoked_by_label = 'x'
        where id = $1`,
      [key.id],
    )
    await client.query('commit')
  } finally {
    await client.end()
  }
  // A repeated revoke waits for the existing change.
  expect((await revoke(tenant, key.id)).status).toBe(200)
  expect(await ask()).toBe(401)
})
