import { generateKey } from '@postern/api-key'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type KeysUnderTest, newKey, newTenant, path, revoke, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const find = async (admin: Parameters<KeysUnderTest['call']>[0], body: unknown) =>
  await service.call(admin, 'POST', `${path}/find`, { body })

const withoutRequest = (text: string) => text.replace(/"instance":"[^"]*"/, '')

test('a key is found by its value only by administrators, and only with a whole key', async () => {
  const admin = await newTenant(service)
  const { value } = await newKey(service, admin)
  expect(await find({ ...admin, roles: ['auditor'] }, { key: value })).toMatchObject({ status: 403 })
  expect(
    await find({ tenantId: admin.tenantId, kind: 'api_key', scopes: ['read:findings'] }, { key: value }),
  ).toMatchObject({
    status: 403,
  })
  const wrong = [value.slice(0, -1), ` ${value}`, `${value}\n`, value.toUpperCase(), '', 7, null, [value], undefined]
  for (const key of wrong) {
    const { status, text } = await find(admin, { key })
    expect([key, status]).toEqual([key, 422])
    expect(text).not.toContain(value.slice(8, 30))
  }
  const altered = `${value.slice(0, -1)}${value.endsWith('0') ? '1' : '0'}`
  expect(await find(admin, { key: altered })).toMatchObject({
    status: 422,
    json: { errors: [{ pointer: '/key', code: 'invalid' }] },
  })
})

test('a key is found in every state, without its value', async () => {
  const admin = await newTenant(service)
  const { value, hash, id } = await newKey(service, admin)
  const found = await find(admin, { key: value })
  expect(found).toMatchObject({ status: 200, json: { id, state: 'active' } })
  await revoke(service, admin, id)
  expect(await find(admin, { key: value })).toMatchObject({ status: 200, json: { id, state: 'revoked' } })
  for (const secret of [value.slice(8, 30), hash.slice(0, 20)]) {
    expect(found.text).not.toContain(secret)
    expect(service.log.join('')).not.toContain(secret)
  }
})

test('the key of another tenant looks like one that does not exist', async () => {
  const [admin, other] = [await newTenant(service), await newTenant(service)]
  const { value, id } = await newKey(service, other)
  const [foreign, unknown] = [await find(admin, { key: value }), await find(admin, { key: generateKey().value })]
  expect(foreign.status).toBe(404)
  expect(withoutRequest(foreign.text)).toBe(withoutRequest(unknown.text))
  expect(await find(other, { key: value })).toMatchObject({ status: 200, json: { id } })
})
