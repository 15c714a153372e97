import { createdApiKeySchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type KeysUnderTest, keyBody, newKey, newTenant, path, sql, startKeys } from './service.ts'

let keys: KeysUnderTest
beforeAll(async () => (keys = await startKeys()))
afterAll(async () => await keys.close())

const repeatable = (body: object = keyBody()) => ({ body, headers: { 'idempotency-key': crypto.randomUUID() } })

describe('a key requested twice with one Idempotency-Key', () => {
  test('is created once, and the second response contains its id but not its value', async () => {
    const admin = await newTenant(keys)
    const request = repeatable()
    const first = await keys.call(admin, 'POST', path, request)
    const { id, key } = createdApiKeySchema.parse(first.json)
    const second = await keys.call(admin, 'POST', path, request)
    expect([second.status, second.json]).toMatchObject([409, { code: 'conflict' }])
    expect(second.text).toContain(id)
    expect(second.text).not.toContain(key)
    expect((await keys.call(admin, 'GET', path)).json).toMatchObject([{ id }])
  })

  test('leaves no part of its value in the database', async () => {
    const admin = await newTenant(keys)
    const { key } = createdApiKeySchema.parse((await keys.call(admin, 'POST', path, repeatable())).json)
    const kept = await keys.asSuperuser.system(
      async (tx) =>
        await tx.query(sql('select answer from keys.idempotency_record where tenant_id = $1', admin.tenantId)),
    )
    expect(kept).toHaveLength(1)
    expect(JSON.stringify(kept)).not.toContain(key.slice('postern_'.length, -6))
  })

  test('is created if the first attempt was rejected', async () => {
    const admin = await newTenant(keys)
    const request = repeatable(keyBody({ expires_in: 'custom', expires_at: '2000-01-01T00:00:00.000Z' }))
    expect(await keys.call(admin, 'POST', path, request)).toMatchObject({ status: 422 })
    expect(await keys.call(admin, 'POST', path, { ...request, body: keyBody() })).toMatchObject({ status: 201 })
  })
})

describe('a repeated request', () => {
  test('to rotate a key creates one successor', async () => {
    const admin = await newTenant(keys)
    const { id } = await newKey(keys, admin)
    const request = repeatable({})
    const first = createdApiKeySchema.parse((await keys.call(admin, 'POST', `${path}/${id}/rotate`, request)).json)
    const second = await keys.call(admin, 'POST', `${path}/${id}/rotate`, request)
    expect(second.status).toBe(409)
    expect(second.text).toContain(first.id)
    expect(second.text).not.toContain(first.key)
  })

  test('to revoke a key returns the first response', async () => {
    const admin = await newTenant(keys)
    const { id } = await newKey(keys, admin)
    const request = repeatable({ reason: 'lost' })
    const first = await keys.call(admin, 'POST', `${path}/${id}/revoke`, request)
    const second = await keys.call(admin, 'POST', `${path}/${id}/revoke`, request)
    expect([first.status, first.headers['idempotent-replayed']]).toEqual([200, undefined])
    expect([second.status, second.headers['idempotent-replayed']]).toEqual([200, 'true'])
    expect([second.text, second.headers['etag']]).toEqual([first.text, first.headers['etag']])
  })

  test('for another key is rejected', async () => {
    const admin = await newTenant(keys)
    const [one, two] = [await newKey(keys, admin), await newKey(keys, admin)]
    const request = repeatable({})
    expect(await keys.call(admin, 'POST', `${path}/${one.id}/revoke`, request)).toMatchObject({ status: 200 })
    const second = await keys.call(admin, 'POST', `${path}/${two.id}/revoke`, request)
    expect([second.status, second.json]).toMatchObject([422, { code: 'idempotency_key_reused' }])
    expect(await keys.call(admin, 'GET', `${path}/${two.id}`)).toMatchObject({ json: { state: 'active' } })
  })
})
