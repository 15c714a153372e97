import { createdApiKeySchema, problemSchema } from '@postern/contracts'
import { internalPaths, lookupsAnswerSchema } from '@postern/contracts/internal'
import { generateKey, hashKey, parseKey } from '@postern/api-key'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { insertKey } from '../src/api-key/store.ts'
import { mapDatabaseErrors } from '../src/database-errors.ts'
import {
  type KeysUnderTest,
  administratorOf,
  eventTypes,
  keyBody,
  lookUp,
  newKey,
  newTenant,
  path,
  startKeys,
  sql,
} from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const dayMs = 86_400_000
const inDays = (days: number) => new Date(Date.now() + days * dayMs).toISOString()

describe('creating a key is rejected', () => {
  test('without a valid signature', async () => {
    const unsigned = await fetch(service.url + path, { method: 'POST', body: JSON.stringify(keyBody()) })
    expect(unsigned.status).toBe(401)
    const admin = await newTenant(service)
    const answer = await service.stranger.call(admin, 'POST', path, { body: keyBody() })
    expect(answer.status).toBe(401)
    expect(answer.json).toMatchObject({ code: 'unsigned_request' })
  })

  test('for every API key, whatever its scopes', async () => {
    const { tenantId } = await newTenant(service)
    const key = { tenantId, kind: 'api_key', scopes: ['read:universe', 'admin:sync', 'write:findings'] } as const
    expect((await service.call(key, 'POST', path, { body: keyBody() })).json).toMatchObject({ code: 'role_required' })
  })

  test('for people who are not administrators', async () => {
    const admin = await newTenant(service)
    for (const roles of [[], ['viewer'], ['auditor'], ['viewer', 'auditor']]) {
      const answer = await service.call({ ...admin, roles }, 'POST', path, { body: keyBody() })
      expect(answer.status).toBe(403)
    }
  })

  test('for a tenant that does not exist', async () => {
    const answer = await service.call(administratorOf(crypto.randomUUID()), 'POST', path, { body: keyBody() })
    expect(answer.status).toBe(404)
  })

  test.each([
    ['no label', { label: undefined }, '/label'],
    ['a label of spaces', { label: '  ' }, '/label'],
    ['a label of 101 characters', { label: 'x'.repeat(101) }, '/label'],
    ['a label with a line feed', { label: 'one\ntwo' }, '/label'],
    ['a label that contains a key', { label: `for ${generateKey().value}` }, '/label'],
    ['a label with NUL', { label: 'a\u0000b' }, '/label'],
    ['no scopes', { scopes: [] }, '/scopes'],
    ['an unknown scope', { scopes: ['read:everything'] }, '/scopes/0'],
    ['a scope twice', { scopes: ['read:findings', 'read:findings'] }, '/scopes'],
    ['an unknown choice of expiry', { expires_in: '10y' }, '/expires_in'],
    ['custom without a time', { expires_in: 'custom' }, '/expires_at'],
    ['a time without custom', { expires_at: inDays(3) }, '/expires_at'],
    ['a time in the past', { expires_in: 'custom', expires_at: inDays(-1) }, '/expires_at'],
    ['a time beyond five years', { expires_in: 'custom', expires_at: inDays(1826) }, '/expires_at'],
    ['an invalid time', { expires_in: 'custom', expires_at: 'tomorrow' }, '/expires_at'],
    ['an invalid address', { allowed_addresses: ['300.1.1.1'] }, '/allowed_addresses/0'],
    ['a prefix that is too long', { allowed_addresses: ['10.0.0.0/33'] }, '/allowed_addresses/0'],
    [
      '101 addresses',
      { allowed_addresses: Array.from({ length: 101 }, (_, n) => `10.0.0.${n}`) },
      '/allowed_addresses',
    ],
    ['a field that keys do not have', { revoked_at: null }, '/revoked_at'],
  ])('with a pointer to the error: %s', async (_what, wrong, pointer) => {
    const admin = await newTenant(service)
    const answer = await service.call(admin, 'POST', path, { body: keyBody(wrong) })
    expect(answer.status).toBe(422)
    const { errors = [] } = problemSchema.parse(answer.json)
    expect(errors.map((error) => error.pointer)).toContain(pointer)
    expect((await service.call(admin, 'GET', path)).text).toBe('[]')
  })
})

test.each(['300.1.1.1', '10.01.1.1', '10.0.0.0/33', '10.1', 'example.com', '::10.0.0.1', ''])(
  'an invalid address is rejected with the accepted forms: %s',
  async (address) => {
    const body = keyBody({ allowed_addresses: [address] })
    const answer = await service.call(await newTenant(service), 'POST', path, { body })
    expect(answer).toMatchObject({
      status: 422,
      json: {
        errors: [{ pointer: '/allowed_addresses/0', detail: expect.stringMatching(/as 203\.0\.113\.7, .*\/32$/) }],
      },
    })
  },
)

describe('a new key', () => {
  test('is shown once, works at once, and is stored as a hash', async () => {
    const admin = await newTenant(service)
    const answer = await service.call(admin, 'POST', path, { body: keyBody({ label: '  Nightly export ' }) })
    expect(answer.status).toBe(201)
    expect(answer.headers['cache-control']).toBe('no-store')
    const { key, ...shown } = createdApiKeySchema.parse(answer.json)
    expect(parseKey(key)?.value).toBe(key)
    expect(shown).toMatchObject({
      label: 'Nightly export',
      masked: `•••••${key.slice(-4)}`,
      state: 'active',
      scopes: ['read:findings'],
      allowed_addresses: [],
      created_by: { type: 'user', id: 'ada', label: 'Ada Lund' },
      revoked_at: null,
      last_used_at: null,
      last_refused_at: null,
      rotated_from: null,
      version: 1,
    })
    expect((await lookUp(service, hashKey(key))).record).toMatchObject({
      id: shown.id,
      tenantId: admin.tenantId,
      revoked: false,
    })

    const read = await service.call(admin, 'GET', `${path}/${shown.id}`)
    expect(read.json).toEqual(shown)
    expect(read.text).not.toContain(key.slice(8, 40))
    const rows = await service.asSuperuser.system(
      async (tx) => await tx.query({ text: 'select k::text as row from keys.api_key as k', values: [] }),
    )
    expect(JSON.stringify(rows)).toContain(hashKey(key))
    expect(JSON.stringify(rows)).not.toContain(key.slice(8, 40))
  })

  test('is found by gateways in a batch, in the requested order', async () => {
    const [one, other] = [await newTenant(service), await newTenant(service)]
    const [first, second] = [await newKey(service, one), await newKey(service, other)]
    const hashes = [second.hash, generateKey().hash, first.hash]
    const { json } = await service.ask(internalPaths.lookupKeys, { hashes })
    const { records } = lookupsAnswerSchema.parse(json)
    expect(records.map((record) => record && [record.hash, record.id, record.tenantId])).toEqual([
      [hashes[0], second.id, other.tenantId],
      null,
      [hashes[2], first.id, one.tenantId],
    ])
  })

  test.each([
    ['30d', 30],
    ['90d', 90],
    ['1y', 365],
  ])('with expires_in %s expires exactly %i days after its creation', async (expires_in, days) => {
    const { created_at, expires_at } = await newKey(service, await newTenant(service), { expires_in })
    expect(Date.parse(expires_at) - Date.parse(created_at)).toBe(days * dayMs)
  })

  test('expires at the requested time, whatever its time zone', async () => {
    const given = { expires_in: 'custom', expires_at: '2027-03-01T12:00:00.250+05:30' }
    expect((await newKey(service, await newTenant(service), given)).expires_at).toBe('2027-03-01T06:30:00.250Z')
  })

  test('lives at most as long as the tenant allows', async () => {
    const admin = await newTenant(service)
    await service.asSuperuser.system(
      async (tx) =>
        await tx.execute({
          text: 'update keys.tenant set max_key_days = 30 where tenant_id = $1',
          values: [admin.tenantId],
        }),
    )
    expect((await service.call(admin, 'POST', path, { body: keyBody({ expires_in: '90d' }) })).status).toBe(422)
    expect((await service.call(admin, 'POST', path, { body: keyBody({ expires_in: '30d' }) })).status).toBe(201)
  })

  test('stores its addresses in canonical form', async () => {
    const allowed_addresses = [
      '203.0.113.77/24',
      '::ffff:198.51.100.7',
      '2001:DB8:0:0::1/32',
      '203.0.113.0/24',
      '192.0.2.1',
    ]
    expect((await newKey(service, await newTenant(service), { allowed_addresses })).allowed_addresses).toEqual([
      '203.0.113.0/24',
      '198.51.100.7/32',
      '2001:db8::/32',
      '192.0.2.1/32',
    ])
  })

  test('accepts every scope and wildcard', async () => {
    const scopes = [
      'read:universe',
      'read:findings',
      'write:evidence',
      'write:findings',
      'admin:sync',
      'read:*',
      'write:*',
      'admin:*',
      '*',
    ]
    expect((await newKey(service, await newTenant(service), { scopes })).scopes).toEqual(scopes)
  })

  test('has its creation in the audit trail, with its author and without its value', async () => {
    const admin = await newTenant(service)
    const { id, value } = await newKey(service, admin)
    expect(await eventTypes(service, admin, id)).toEqual(['created'])
    const { json, text } = await service.call(admin, 'GET', `${path}/${id}/events`)
    expect(json).toMatchObject([
      {
        actor: { type: 'user', id: 'ada', label: 'Ada Lund' },
        detail: { label: 'Nightly export', scopes: ['read:findings'] },
      },
    ])
    expect(text).not.toContain(value.slice(8, 40))
  })

  test('can be created by the operator for a tenant', async () => {
    const { tenantId } = await newTenant(service)
    const answer = await service.call({ tenantId, kind: 'operator', id: 'root', label: 'Operator' }, 'POST', path, {
      body: keyBody(),
    })
    expect(answer.json).toMatchObject({ created_by: { type: 'operator', id: 'root' } })
  })
})

test.each(['53100', '53400'])('a write that a full database rejects with %s is answered with 507', async (state) => {
  const { tenantId } = await newTenant(service)
  const db = mapDatabaseErrors(service.asService)
  const writing = db.write(
    service.assertionOf(tenantId),
    async (tx) => await tx.execute(sql(`do $$ begin raise exception 'full' using errcode = '${state}'; end $$`)),
  )
  await expect(writing).rejects.toMatchObject({ code: 'insufficient_storage' })
})

describe('the clock of the database', () => {
  test('set back during the creation of a key: the request fails with 503 and creates nothing', async () => {
    const { tenantId } = await newTenant(service)
    const db = mapDatabaseErrors(service.asService)
    const { hash, value } = generateKey()
    // As the previous statement read it.
    const createdAt = new Date(Date.now() + 3_600_000)
    const key = {
      hash,
      lastFour: value.slice(-4),
      label: 'Nightly export',
      note: null,
      owner: null,
      scopes: ['read:findings'],
      addresses: [],
      createdAt,
      expiresAt: new Date(createdAt.valueOf() + dayMs),
      rotatedFrom: null,
    }
    const making = db.write(service.assertionOf(tenantId), async (tx) => {
      return await insertKey(tx, tenantId, key, { type: 'user', id: 'ada', label: 'Ada Lund' })
    })
    await expect(making).rejects.toMatchObject({ code: 'service_unavailable', options: { retryAfterSeconds: 1 } })
    expect((await lookUp(service, hash)).record).toBeNull()
  })

  test('set back before a key’s creation: a narrowing fails with 503, and a revoke succeeds', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const ahead = `update keys.api_key set created_at = created_at + interval '1 hour' where id = $1`
    await service.asSuperuser.system(async (tx) => {
      await tx.execute(sql("set local session_replication_role = 'replica'"))
      await tx.execute(sql(ahead, id))
    })
    const rotated = await service.call(admin, 'POST', `${path}/${id}/rotate`, { body: { overlap: '0s' } })
    expect([rotated.status, rotated.headers['retry-after']]).toEqual([503, '1'])
    expect((await service.call(admin, 'POST', `${path}/${id}/revoke`)).status).toBe(200)
  })
})
