import { type KeyPolicy, keyPolicySchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type KeysUnderTest, failureOf, keyBody, newKey, newTenant, path, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
const otherRules = {
  forbid_wildcards: false,
  require_owner: false,
  most_keys: null,
  rotation_days: 90,
  revoke_idle_days: null,
  audit_retention_days: 400,
}

afterAll(async () => await service.close())

const policyPath = '/api/v1/key-policy'

async function policyOf(admin: Principal): Promise<KeyPolicy & { readonly etag: string }> {
  const { json, headers } = await service.call(admin, 'GET', policyPath)
  return { ...keyPolicySchema.parse(json), etag: headers['etag'] ?? '' }
}

async function setPolicy(admin: Principal, body: object, headers: Record<string, string> = { 'if-match': '*' }) {
  return await service.call(admin, 'PATCH', policyPath, { body, headers })
}

const make = async (admin: Principal, given: object = {}) =>
  await service.call(admin, 'POST', path, { body: keyBody(given) })

test('a changed policy is logged with its tenant and values, and an unchanged one is not', async () => {
  const admin = await newTenant(service)
  for (const max_key_days of [90, 90, 30]) expect((await setPolicy(admin, { max_key_days })).status).toBe(200)
  const told = service.log
    .map((line) => z.looseObject({ event: z.string(), tenant_id: z.string().optional() }).parse(JSON.parse(line)))
    .filter(({ event, tenant_id }) => event === 'key_policy_set' && tenant_id === admin.tenantId)
  expect(told).toMatchObject([
    { max_key_days: 90, required_addresses: [], actor_id: admin.id, request_id: expect.any(String) },
    { max_key_days: 30, required_addresses: [], actor_id: admin.id, request_id: expect.any(String) },
  ])
})

describe('the trail of a policy', () => {
  const eventsPath = `${policyPath}/events`

  test('shows authors, values and times, newest first, only to administrators of the tenant', async () => {
    const [admin, other] = [await newTenant(service), await newTenant(service)]
    await setPolicy(admin, { max_key_days: 90 })
    await setPolicy({ ...admin, id: 'bo', label: 'Bo' }, { required_addresses: ['203.0.113.0/24'] })
    // Equal values are no change.
    await setPolicy(admin, { max_key_days: 90 })
    await setPolicy(other, { max_key_days: 7 })
    const { json, headers } = await service.call(admin, 'GET', `${eventsPath}?count=true`)
    const at = expect.stringMatching(/^20.*Z$/)
    expect(json).toEqual([
      {
        version: 3,
        at,
        actor: { type: 'user', id: 'bo', label: 'Bo' },
        max_key_days: 90,
        required_addresses: ['203.0.113.0/24'],
        ...otherRules,
      },
      {
        version: 2,
        at,
        actor: { type: 'user', id: 'ada', label: 'Ada Lund' },
        max_key_days: 90,
        required_addresses: [],
        ...otherRules,
      },
    ])
    expect(headers['x-total-count']).toBe('2')
    expect((await service.call({ ...admin, roles: ['auditor'] }, 'GET', eventsPath)).status).toBe(403)
    expect((await service.call(await newTenant(service), 'GET', eventsPath)).json).toEqual([])
  })

  test('is paged without gaps', async () => {
    const admin = await newTenant(service)
    for (const max_key_days of [30, 60, 90]) await setPolicy(admin, { max_key_days })
    const versions = z.array(z.object({ version: z.int() }))
    const first = await service.call(admin, 'GET', `${eventsPath}?limit=2`)
    expect(versions.parse(first.json).map(({ version }) => version)).toEqual([4, 3])
    const next = /<([^>]+)>; rel="next"/.exec(first.headers['link'] ?? '')?.[1] ?? ''
    const second = await service.call(admin, 'GET', next)
    expect(versions.parse(second.json).map(({ version }) => version)).toEqual([2])
    // A cursor beyond the possible versions was invented.
    const cursor = new URL(next, service.url).searchParams.get('cursor') ?? ''
    const [binding] = z.tuple([z.string(), z.int()]).parse(JSON.parse(Buffer.from(cursor, 'base64url').toString()))
    for (const version of [3_000_000_000, 0, 1.5]) {
      const forged = Buffer.from(JSON.stringify([binding, version])).toString('base64url')
      const answer = await service.call(admin, 'GET', `${eventsPath}?limit=2&cursor=${forged}`)
      expect([answer.status, answer.json]).toMatchObject([400, { errors: [{ parameter: 'cursor' }] }])
    }
    const whole = await service.call(admin, 'GET', eventsPath, { headers: { accept: 'application/x-ndjson' } })
    expect(whole.text.trim().split('\n')).toHaveLength(3)
  })
})

describe('changing the policy of a tenant is rejected', () => {
  test('for auditors, API keys and other tenants', async () => {
    const [admin, other] = [await newTenant(service), await newTenant(service)]
    const auditor = { ...admin, roles: ['auditor'] }
    expect((await service.call(auditor, 'GET', policyPath)).status).toBe(403)
    expect((await setPolicy(auditor, { max_key_days: 1 })).status).toBe(403)
    const key = { tenantId: admin.tenantId, kind: 'api_key', scopes: ['admin:sync'] } as const
    expect((await setPolicy(key, { max_key_days: 1 })).json).toMatchObject({ code: 'role_required' })
    expect((await setPolicy(other, { max_key_days: 30 })).status).toBe(200)
    expect(await policyOf(admin)).toMatchObject({ max_key_days: 1825, version: 1, changed_by: null })
  })

  test('without If-Match and after a concurrent change', async () => {
    const admin = await newTenant(service)
    const { etag } = await policyOf(admin)
    expect((await setPolicy(admin, { max_key_days: 90 }, {})).status).toBe(428)
    expect((await setPolicy(admin, { max_key_days: 90 }, { 'if-match': etag })).status).toBe(200)
    expect((await setPolicy(admin, { max_key_days: 30 }, { 'if-match': etag })).status).toBe(412)
    expect((await policyOf(admin)).max_key_days).toBe(90)
  })

  test.each([
    [{}],
    [{ max_key_days: 0 }],
    [{ max_key_days: 1826 }],
    [{ max_key_days: 1.5 }],
    [{ required_addresses: ['everywhere'] }],
    [{ required_addresses: null }],
    [{ version: 7 }],
  ])('for an invalid policy: %j', async (body) => {
    const admin = await newTenant(service)
    expect((await setPolicy(admin, body)).status).toBe(422)
    expect((await policyOf(admin)).version).toBe(1)
  })
})

describe('a policy that an administrator has set', () => {
  test('shows its author and time, and equal values change nothing', async () => {
    const admin = await newTenant(service)
    const answer = await setPolicy(admin, {
      max_key_days: 90,
      required_addresses: ['203.0.113.77/24', '203.0.113.0/24'],
    })
    expect(answer.json).toEqual({
      max_key_days: 90,
      required_addresses: ['203.0.113.0/24'],
      ...otherRules,
      changed_at: expect.stringMatching(/^20/),
      changed_by: { type: 'user', id: 'ada', label: 'Ada Lund' },
      version: 2,
    })
    expect((await setPolicy({ ...admin, id: 'bo', label: 'Bo' }, { max_key_days: 90 })).json).toEqual(answer.json)
    expect((await setPolicy(admin, { required_addresses: [] })).json).toMatchObject({ max_key_days: 90, version: 3 })
  })

  test('limits the lifetime of new keys', async () => {
    const admin = await newTenant(service)
    const old = await newKey(service, admin, { expires_in: '1y' })
    await setPolicy(admin, { max_key_days: 30 })
    expect((await make(admin, { expires_in: '90d' })).status).toBe(422)
    expect((await make(admin, { expires_in: '30d' })).status).toBe(201)
    expect((await service.call(admin, 'GET', `${path}/${old.id}`)).json).toMatchObject({ state: 'active' })
  })

  test('rejects new keys outside its required networks', async () => {
    const admin = await newTenant(service)
    await setPolicy(admin, { required_addresses: ['203.0.113.0/24', '2001:db8::/32'] })
    for (const allowed_addresses of [
      [],
      ['203.0.112.0/23'],
      ['203.0.113.7', '198.51.100.7'],
      ['0.0.0.0/0'],
      ['::/0'],
    ]) {
      const refused = await make(admin, { allowed_addresses })
      expect([refused.status, refused.text.includes('/allowed_addresses')], refused.text).toEqual([422, true])
    }
    expect((await make(admin, { allowed_addresses: ['203.0.113.7', '2001:db8:7::/48'] })).status).toBe(201)
  })

  test('lets an older key be narrowed only to its networks, and rotated only after that', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin)
    await setPolicy(admin, { required_addresses: ['203.0.113.0/24'] })
    const change = async (body: object) =>
      await service.call(admin, 'PATCH', `${path}/${key.id}`, { body, headers: { 'if-match': '*' } })
    const rotate = async () =>
      await service.call(admin, 'POST', `${path}/${key.id}/rotate`, { body: { overlap: '1h' } })
    expect((await rotate()).json).toMatchObject({ status: 409, code: 'conflict' })
    expect((await change({ allowed_addresses: ['198.51.100.0/24'] })).status).toBe(422)
    expect((await change({ label: 'Renamed' })).status).toBe(200)
    expect((await change({ allowed_addresses: ['203.0.113.7'] })).status).toBe(200)
    expect((await rotate()).json).toMatchObject({ allowed_addresses: ['203.0.113.7/32'] })
  })
})

describe('PostgreSQL enforces the policy:', () => {
  test('keys outside the required networks are rejected', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin, { allowed_addresses: ['203.0.113.0/24', '198.51.100.0/24'] })
    await setPolicy(admin, { required_addresses: ['203.0.113.0/24'] })
    const insert = `insert into keys.api_key (tenant_id, hash, last_four, label, scopes, allowed_addresses,
        created_by_type, created_by_id, created_by_label, expires_at, made_for)
      select $1, sha256(gen_random_uuid()::text::bytea), 'abcd', 'x', '{read:findings}', $2::text[]::cidr[],
        'user', 'ada', 'Ada', now() + interval '1 day', interval '1 day'`
    const asAnybody = async (...statement: Parameters<typeof sql>) =>
      await failureOf(service.asSuperuser.system(async (tx) => await tx.execute(sql(...statement))))
    const outside = { kind: 'check', constraint: 'api_key_within_required_addresses' }
    expect(await asAnybody(insert, admin.tenantId, [])).toMatchObject(outside)
    expect(await asAnybody(insert, admin.tenantId, ['198.51.100.0/24'])).toMatchObject(outside)
    const move = 'update keys.api_key set allowed_addresses = $2::text[]::cidr[] where id = $1'
    expect(await asAnybody(move, id, ['198.51.100.0/24'])).toMatchObject(outside)
    expect(await asAnybody(move, id, ['203.0.113.0/28'])).toBeUndefined()
  })

  test('the service’s role can change only the policy of a tenant, and no entry of the trail', async () => {
    const admin = await newTenant(service)
    await setPolicy(admin, { max_key_days: 90 })
    const asService = async (text: string) =>
      await failureOf(
        service.asService.write(service.assertionOf(admin.tenantId), async (tx) => await tx.execute(sql(text))),
      )
    for (const text of [
      `update keys.tenant set status = 'suspended'`,
      'update keys.tenant set key_limit = 1000000',
      'update keys.tenant set policy_version = 1',
      'delete from keys.tenant',
      'update keys.key_policy_event set max_key_days = 1',
      'delete from keys.key_policy_event',
    ]) {
      expect(await asService(text), text).toBeDefined()
    }
    const rows = await service.asSuperuser.system(
      async (tx) =>
        await tx.query(sql('select version from keys.key_policy_event where tenant_id = $1', admin.tenantId)),
    )
    expect(rows).toEqual([{ version: 2 }])
  })
})

describe('during a change of the policy', () => {
  test('a key that the new policy forbids is not created, and the repeated request is rejected with the reason', async () => {
    const admin = await newTenant(service)
    const keys = await holdUp('keys.api_key')
    const making = make(admin, { expires_in: '1y' })
    await keys.waiters(1)
    expect((await setPolicy(admin, { max_key_days: 30 })).status).toBe(200)
    await keys.letGo()
    expect(await making).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    expect(await make(admin, { expires_in: '1y' })).toMatchObject({ status: 422 })
  })

  test.each([
    ['the first limit', null],
    ['a lower limit', 5],
  ])('no key is created beyond %s', async (_what, before) => {
    const admin = await newTenant(service)
    await setPolicy(admin, { most_keys: before })
    await newKey(service, admin)
    // The creation reads the policy of before, and must not be decided by it.
    const policy = await holdUpPolicy(admin.tenantId, 1)
    const making = make(admin)
    await policy.waiters(1)
    await policy.letGo()
    expect((await making).status).toBe(before === null ? 503 : 409)
    expect((await make(admin)).status).toBe(409)
    await setPolicy(admin, { most_keys: 2 })
    expect((await make(admin)).status).toBe(201)
  })

  test('an equal change that had to wait returns the author of the first change', async () => {
    const admin = await newTenant(service)
    const trail = await holdUp('keys.key_policy_event')
    const first = setPolicy(admin, { max_key_days: 30 })
    await trail.waiters(1)
    const second = setPolicy({ ...admin, id: 'bo', label: 'Bo' }, { max_key_days: 30 })
    await trail.waiters(2)
    await trail.letGo()
    expect((await first).json).toMatchObject({ version: 2, changed_by: { id: 'ada' } })
    expect((await second).json).toEqual((await first).json)
  })
})

/** Blocks writers of a table until it is released. */
async function holdUp(table: string) {
  return await holdUpBy(sql(`lock table ${table} in share mode`))
}

/** Changes the number of keys in a transaction that commits when it is released. */
async function holdUpPolicy(tenantId: string, mostKeys: number) {
  return await holdUpBy(sql('update keys.tenant set most_keys = $2 where tenant_id = $1', tenantId, mostKeys))
}

async function holdUpBy(statement: ReturnType<typeof sql>) {
  const locked = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  const holding = service.asSuperuser.system(async (tx) => {
    await tx.execute(statement)
    locked.resolve()
    await released.promise
  })
  await locked.promise
  const waiting = sql(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
  return {
    waiters: async (count: number) =>
      await expect
        .poll(async () => (await service.asSuperuser.system(async (tx) => await tx.query(waiting))).length)
        .toBe(count),
    letGo: async () => {
      released.resolve()
      await holding
    },
  }
}
