import { problemSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Principal } from '@postern/local-stack/testing'
import {
  type KeysUnderTest,
  LeaseHolder,
  eventTypes,
  getKey,
  lookUp,
  newKey,
  newTenant,
  path,
  revoke,
  sql,
  startKeys,
  whileLeased,
} from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const dayMs = 86_400_000
const inDays = (days: number) => new Date(Date.now() + days * dayMs).toISOString()

async function patch(admin: Principal, key: { id: string; etag: string }, body: unknown) {
  return await service.call(admin, 'PATCH', `${path}/${key.id}`, { body, headers: { 'if-match': key.etag } })
}

async function rotate(admin: Principal, id: string, body: unknown = {}) {
  return await service.call(admin, 'POST', `${path}/${id}/rotate`, { body })
}

/** Makes every call of the function fail. */
async function renameFunction(from: string, to: string): Promise<void> {
  await service.asSuperuser.system(
    async (tx) => void (await tx.execute(sql(`alter function keys.${from} rename to ${to}`))),
  )
}

describe('changing a key is refused', () => {
  test('to people who are not administrators', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin)
    expect((await patch({ ...admin, roles: ['auditor'] }, key, { label: 'x' })).status).toBe(403)
    expect((await patch(admin, key, { label: 'x' })).status).toBe(200)
  })

  test('for a key that does not exist', async () => {
    const admin = await newTenant(service)
    expect((await patch(admin, { id: crypto.randomUUID(), etag: '*' }, { label: 'x' })).status).toBe(404)
  })

  test('without If-Match and with an older version', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin)
    const without = await service.call(admin, 'PATCH', `${path}/${key.id}`, { body: { label: 'x' } })
    expect(without.json).toMatchObject({ status: 428, code: 'precondition_required' })
    expect((await patch(admin, key, { label: 'second' })).status).toBe(200)
    const stale = await patch(admin, key, { label: 'third' })
    expect(stale.json).toMatchObject({ status: 412, code: 'precondition_failed' })
    expect(await getKey(service, admin, key.id)).toMatchObject({ label: 'second', version: 2 })
  })

  test.each(['"1"', '"x"', 'W/"1.0.active"', '1', '"11.0.active"', ''])(
    'with an If-Match that names nothing: %s',
    async (etag) => {
      const admin = await newTenant(service)
      const key = await newKey(service, admin)
      expect((await patch(admin, { ...key, etag }, { label: 'x' })).status).toBe(412)
    },
  )

  test.each([
    ['other scopes', { scopes: ['write:findings'] }, '/scopes'],
    ['more scopes', { scopes: ['read:findings', 'read:universe'] }, '/scopes'],
    ['a wildcard over its scope', { scopes: ['read:*'] }, '/scopes'],
    ['no addresses instead of some', { allowed_addresses: [] }, '/allowed_addresses'],
    ['another address', { allowed_addresses: ['198.51.100.1'] }, '/allowed_addresses'],
    ['a wider range', { allowed_addresses: ['203.0.112.0/23'] }, '/allowed_addresses'],
    ['a range of the other family', { allowed_addresses: ['::/0'] }, '/allowed_addresses'],
    ['a later expiry', { expires_at: inDays(91) }, '/expires_at'],
  ])('if it would give the key %s, and advises to create a new key', async (_what, body, pointer) => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin, { allowed_addresses: ['203.0.113.0/24'] })
    const answer = await patch(admin, key, { label: 'changed', ...body })
    expect(answer.status).toBe(409)
    const { detail, errors = [] } = problemSchema.parse(answer.json)
    expect(detail).toContain('Create a new key')
    expect(errors.map((error) => error.pointer)).toEqual([pointer])
    expect(await getKey(service, admin, key.id)).toMatchObject({ label: key.label, version: 1 })
  })

  test.each([
    [{}, ''],
    [{ scopes: [] }, '/scopes'],
    [{ expires_at: inDays(-1) }, '/expires_at'],
    [{ label: null }, '/label'],
    [{ revoked_at: '2026-11-21T09:30:00.000Z' }, '/revoked_at'],
    [{ state: 'revoked' }, '/state'],
  ])('for an invalid body: %j', async (body, pointer) => {
    const admin = await newTenant(service)
    const answer = await patch(admin, await newKey(service, admin), body)
    expect(answer.status).toBe(422)
    expect(problemSchema.parse(answer.json).errors?.map((error) => error.pointer)).toContain(pointer)
  })

  test('if the key is revoked, even without a difference', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin)
    const { headers } = await revoke(service, admin, key.id)
    const answer = await patch(admin, { ...key, etag: headers['etag'] ?? '' }, { label: key.label })
    expect(answer.json).toMatchObject({ status: 409, code: 'conflict' })
  })
})

describe('a key', () => {
  test('can be renamed, and the audit trail has the old and the new label', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin)
    const answer = await patch(admin, key, { label: ' Weekly export ' })
    expect(answer.json).toMatchObject({ label: 'Weekly export', version: 2, scopes: key.scopes })
    const { json } = await service.call(admin, 'GET', `${path}/${key.id}/events`)
    expect(json).toMatchObject([
      { type: 'updated', detail: { changes: { label: { from: 'Nightly export', to: 'Weekly export' } } } },
      { type: 'created' },
    ])
  })

  test('can be changed with an ETag from before its last use', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin)
    const uses = [
      {
        keyId: key.id,
        tenantId: admin.tenantId,
        address: '192.0.2.1',
        lastUsedAt: Date.now(),
        count: 1,
        routes: { 'findings.list': 1 },
      },
    ]
    await service.ask('/internal/v1/usage', { uses, denials: [] })
    const now = await service.call(admin, 'GET', `${path}/${key.id}`)
    expect(now.headers['etag']).not.toBe(key.etag)
    expect((await patch(admin, key, { label: 'x' })).status).toBe(200)
  })

  test('is narrowed when every gateway has confirmed the change', async () => {
    const admin = await newTenant(service)
    await whileLeased(async () => {
      const key = await newKey(service, admin, {
        scopes: ['read:*', 'admin:sync'],
        allowed_addresses: ['203.0.113.0/24'],
      })
      const gateway = await new LeaseHolder(service.ask).take()
      let isAnswered = false
      const narrower = { scopes: ['read:findings'], allowed_addresses: ['203.0.113.64/26'], expires_at: inDays(2) }
      const answer = patch(admin, key, narrower).finally(() => {
        isAnswered = true
      })
      try {
        await expect
          .poll(async () => (await gateway.renew()).revocations, { interval: 2 })
          .toMatchObject([{ kind: 'key', hash: key.hash, version: 2, revoked: false }])
        expect(isAnswered).toBe(false)
        await gateway.renew()
        expect((await answer).json).toMatchObject({ ...narrower, state: 'active', version: 2 })
      } finally {
        await gateway.release()
        await answer
      }
      expect((await lookUp(service, key.hash)).record).toMatchObject({
        scopes: ['read:findings'],
        allowedAddresses: ['203.0.113.64/26'],
        expiresAt: Date.parse(narrower.expires_at),
        version: 2,
      })
    })
  })

  test('whose narrowing was not confirmed is enforced by repeating the request with the same ETag', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin, { scopes: ['read:findings', 'read:universe'] })
    const narrower = { scopes: ['read:findings'], allowed_addresses: ['2001:db8::/32'], expires_at: inDays(2) }
    await renameFunction('read_grants()', 'gone')
    try {
      expect((await patch(admin, key, narrower)).json).toMatchObject({ status: 503, code: 'revocation_unconfirmed' })
    } finally {
      await renameFunction('gone()', 'read_grants')
    }
    const enforced = () => service.log.filter((line) => line.includes('"event":"change_enforced"')).length
    const before = enforced()
    const repeated = await patch(admin, key, narrower)
    expect(repeated.json).toMatchObject({ ...narrower, version: 2 })
    expect(repeated.headers['etag']).not.toBe(key.etag)
    expect(enforced()).toBe(before + 1)
    expect(await eventTypes(service, admin, key.id)).toEqual(['updated', 'created'])
    // A further narrowing needs the current ETag.
    for (const other of [{ ...narrower, label: 'x' }, { expires_at: inDays(1) }, { expires_at: inDays(-1) }]) {
      expect((await patch(admin, key, other)).json).toMatchObject({ status: 412, code: 'precondition_failed' })
    }
    expect((await patch(admin, key, { scopes: key.scopes })).json).toMatchObject({ status: 412 })
    // Labels are not enforced, so an old ETag is a conflict as for every other resource.
    expect((await patch(admin, key, { label: key.label })).json).toMatchObject({ status: 412 })
    const without = await service.call(admin, 'PATCH', `${path}/${key.id}`, { body: narrower })
    expect(without.json).toMatchObject({ status: 428, code: 'precondition_required' })
  })

  test('that has expired in the meantime is returned by the repeated change', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin)
    expect((await rotate(admin, key.id, { overlap: '0s' })).status).toBe(201)
    const { expires_at } = await getKey(service, admin, key.id)
    expect((await patch(admin, key, { expires_at })).json).toMatchObject({ state: 'expired', expires_at, version: 2 })
  })

  test('that gets equal values does not change and records no event', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin)
    const answer = await patch(admin, key, { label: key.label, scopes: key.scopes, expires_at: key.expires_at })
    expect(answer.json).toMatchObject({ version: 1 })
    expect(await eventTypes(service, admin, key.id)).toEqual(['created'])
  })
})
