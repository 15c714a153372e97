import { type HealthReason, createdApiKeySchema, keyHealthSchema, problemSchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { reviewKeys } from '../src/health/store.ts'
import { scopesOfRoutes } from '../src/right-sizing/right-size.ts'
import { setRoutes } from '../src/right-sizing/store.ts'
import { type KeysUnderTest, keyBody, newKey, newTenant, path, revoke, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
  // As housekeeping does.
  await service.asService.system(async (tx) => await setRoutes(tx, scopesOfRoutes))
})
afterAll(async () => await service.close())

/** A key with an address limit, so that it needs no look. */
const calm = { allowed_addresses: ['203.0.113.0/24'] }

/** Changes a key behind the triggers, as time does, and reviews it. */
async function age({ tenantId }: Principal, id: string, assignment: string): Promise<void> {
  await service.asSuperuser.system(async (tx) => {
    await tx.execute(sql('set local session_replication_role = replica'))
    await tx.execute(sql(`update keys.api_key set ${assignment} where id = $1`, id))
    await tx.execute(sql('select keys.assess_keys($1, array[$2]::uuid[])', tenantId, id))
  })
}

async function reasonsOf(admin: Principal): Promise<Record<string, number>> {
  const { json } = await service.call(admin, 'GET', '/api/v1/key-health')
  const { reasons } = keyHealthSchema.parse(json)
  return Object.fromEntries(reasons.filter(({ keys }) => keys > 0).map(({ reason, keys }) => [reason, keys]))
}

async function idsWith(admin: Principal, query: string): Promise<string[]> {
  const { json } = await service.call(admin, 'GET', `${path}?${query}`)
  return Array.isArray(json) ? json.map(({ id }: { id: string }) => id) : []
}

async function use({ tenantId }: Principal, keyId: string, route = 'findings.list', count = 1): Promise<void> {
  const lastUsedAt = Date.now()
  const uses = [{ keyId, tenantId, address: '203.0.113.7', lastUsedAt, count, routes: { [route]: count } }]
  await service.ask(internalPaths.usage, { uses, denials: [] })
}

async function refuseRequests({ tenantId }: Principal, keyId: string, count: number): Promise<void> {
  const [at, address, code] = [Date.now(), '203.0.113.7', 'insufficient_scope']
  const counts = [{ code, route: 'universe.list-entities', address, count, firstAt: at, lastAt: at }]
  const refusals = [{ keyId, tenantId, counts, recent: [] }]
  await service.ask(internalPaths.usage, {
    uses: [{ keyId, tenantId, address, lastUsedAt: at, count, routes: {} }],
    denials: [],
    refusals,
  })
}

/** Reviews a key that a report has scheduled for the next minute. */
async function reviewSoon(id: string): Promise<void> {
  await service.asSuperuser.system(
    async (tx) =>
      await tx.execute(
        sql(
          `update keys.api_key_review set review_at = now()
            where key_id = $1 and review_at <= now() + interval '1 minute'`,
          id,
        ),
      ),
  )
  await review()
}

async function setPolicy(admin: Principal, body: unknown) {
  return await service.call(admin, 'PATCH', '/api/v1/key-policy', { body, headers: { 'if-match': '*' } })
}

async function review(): Promise<void> {
  while (await service.asService.system(async (tx) => await reviewKeys(tx, 1000)));
}

const inDays = (days: number) => encodeURIComponent(new Date(Date.now() + days * 86_400_000).toISOString())

describe('a key needs attention', () => {
  test.each<[HealthReason, object, string | undefined]>([
    ['never_used', calm, `created_at = now() - interval '25 hours'`],
    ['idle', calm, `created_at = now() - interval '89 days', last_used_at = now() - interval '91 days'`],
    ['expiring', calm, `expires_at = now() + interval '29 days'`],
    ['rotation_due', calm, `last_used_at = now(), created_at = now() - interval '91 days'`],
    ['wildcard', { ...calm, scopes: ['read:*'] }, undefined],
    ['no_address_limit', {}, undefined],
  ])('%s', async (reason, given, assignment) => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin, given)
    await newKey(service, admin, calm)
    if (assignment !== undefined) {
      expect(await reasonsOf(admin)).toEqual({})
      await age(admin, id, assignment)
    }
    expect(await reasonsOf(admin)).toEqual({ [reason]: 1 })
    expect(await idsWith(admin, `health=${reason}`)).toEqual([id])
    await revoke(service, admin, id)
    expect(await reasonsOf(admin)).toEqual({})
    expect(await idsWith(admin, `health=${reason}`)).toEqual([])
  })

  test('while it does not need some of its scopes, until it uses them', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin, { ...calm, scopes: ['read:findings', 'read:universe'] })
    await use(admin, id)
    await age(admin, id, `created_at = now() - interval '29 days'`)
    expect(await reasonsOf(admin)).toEqual({})
    await age(admin, id, `created_at = now() - interval '31 days'`)
    expect(await idsWith(admin, 'health=unneeded_scopes')).toEqual([id])
    await use(admin, id, 'universe.list-entities')
    await review()
    expect(await reasonsOf(admin)).toEqual({})
  })

  test('if it has more scopes than it uses, until it is narrowed', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin, { ...calm, scopes: ['read:findings', 'read:universe'] })
    await use(admin, id)
    await age(admin, id, `created_at = now() - interval '31 days'`)
    expect(await idsWith(admin, 'health=unneeded_scopes')).toEqual([id])
    const body = { scopes: ['read:findings'] }
    await service.call(admin, 'PATCH', `${path}/${id}`, { body, headers: { 'if-match': '*' } })
    expect(await reasonsOf(admin)).toEqual({})
  })

  test('if one of ten of its requests was refused, and at least 50', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin, calm)
    await use(admin, id)
    const refuse = async (times: number) => await refuseRequests(admin, id, times)
    await refuse(49)
    await reviewSoon(id)
    expect(await reasonsOf(admin)).toEqual({})
    await refuse(1)
    await reviewSoon(id)
    expect(await idsWith(admin, 'health=refused_often')).toEqual([id])
    await use(admin, id, 'findings.list', 451)
    await age(admin, id, 'label = label')
    expect(await reasonsOf(admin)).toEqual({})
  })

  test('as never used until its first use', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin, calm)
    await age(admin, id, `created_at = now() - interval '2 days'`)
    expect(await reasonsOf(admin)).toEqual({ never_used: 1 })
    await use(admin, id)
    expect(await reasonsOf(admin)).toEqual({})
  })

  test('as soon as its owner left, until it has another one', async () => {
    const admin = await newTenant(service)
    const { tenantId } = admin
    const people = [{ tenantId, id: 'kofi', name: 'Kofi Mensah', roles: [], lastSeenAt: Date.now() }]
    await service.ask(internalPaths.usage, { uses: [], denials: [], people })
    const key = await newKey(service, admin, { ...calm, owner: { type: 'person', id: 'kofi' } })
    await service.asSuperuser.system(
      async (tx) => await tx.execute(sql('update keys.member set left_at = now() where tenant_id = $1', tenantId)),
    )
    expect(await idsWith(admin, 'health=owner_left')).toEqual([key.id])
    const body = { owner: { type: 'team', name: 'SOC', contact: 'soc@harbourline.example' } }
    await service.call(admin, 'PATCH', `${path}/${key.id}`, { body, headers: { 'if-match': key.etag } })
    expect(await reasonsOf(admin)).toEqual({})
  })

  test('if it was replaced and is still used, until it ends', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin, calm)
    await service.call(admin, 'POST', `${path}/${id}/rotate`, { body: { overlap: '24h' } })
    expect(await reasonsOf(admin)).toEqual({})
    await use(admin, id)
    expect(await idsWith(admin, 'health=rotated_in_use')).toEqual([id])
    await age(admin, id, `created_at = now() - interval '2 days', expires_at = now() - interval '1 second'`)
    expect(await reasonsOf(admin)).toEqual({})
  })

  test('if the policy became stricter, after a review', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin, { ...calm, scopes: ['read:*'] })
    const strict = [
      { forbid_wildcards: true },
      { forbid_wildcards: false, max_key_days: 30 },
      { max_key_days: 365, required_addresses: ['198.51.100.0/24'] },
    ]
    for (const rules of strict) {
      expect((await setPolicy(admin, rules)).status).toBe(200)
      await review()
      expect(await idsWith(admin, 'health=outside_policy')).toEqual([id])
    }
    expect((await setPolicy(admin, { required_addresses: [], rotation_days: 1 })).status).toBe(200)
    await review()
    expect(await reasonsOf(admin)).toEqual({ wildcard: 1 })
  })
})

test('counts and lists contain no keys of another tenant', async () => {
  const [admin, other] = [await newTenant(service), await newTenant(service)]
  const own = await newKey(service, admin)
  await newKey(service, other)
  await newKey(service, other)
  expect(await reasonsOf(admin)).toEqual({ no_address_limit: 1 })
  expect(await idsWith(admin, 'health=no_address_limit&count=true')).toEqual([own.id])
})

test('keys with one of several reasons are listed and counted once', async () => {
  const admin = await newTenant(service)
  const both = await newKey(service, admin, { scopes: ['read:*'] })
  const one = await newKey(service, admin, { ...calm, scopes: ['read:*'] })
  const other = await newKey(service, admin)
  await newKey(service, admin, calm)
  for (const query of ['health=wildcard,no_address_limit', 'health=wildcard&health=no_address_limit']) {
    const { headers, json } = await service.call(admin, 'GET', `${path}?${query}&count=true`)
    expect(json).toMatchObject([{ id: other.id }, { id: one.id }, { id: both.id }])
    expect(headers['x-total-count']).toBe('3')
  }
  expect(await idsWith(admin, 'health=wildcard,no_address_limit&scope=read:universe')).toEqual([one.id, both.id])
  expect((await service.call(admin, 'GET', `${path}?health=wildcard,unknown`)).status).toBe(400)
  const filter = { health: ['wildcard', 'no_address_limit'] }
  const preview = await service.call(admin, 'POST', `${path}/bulk/preview`, { body: { filter } })
  expect(preview).toMatchObject({ status: 200, json: { active: 3 } })
})

test('keys of a reason are listed in pages with other filters', async () => {
  const admin = await newTenant(service)
  const made: string[] = []
  for (const label of ['one', 'two', 'three']) made.unshift((await newKey(service, admin, { label })).id)
  const first = await service.call(admin, 'GET', `${path}?health=no_address_limit&limit=2&count=true`)
  expect(first.headers['x-total-count']).toBe('3')
  const next = /<([^>]*)>; rel="next"/.exec(first.headers['link'] ?? '')?.[1] ?? ''
  const second = await service.call(admin, 'GET', next)
  const ids = [first.json, second.json].flatMap((page) =>
    Array.isArray(page) ? page.map(({ id }: { id: string }) => id) : [],
  )
  expect(ids).toEqual(made)
  expect(await idsWith(admin, 'health=no_address_limit&label=two')).toEqual([made[1]])
  expect((await service.call(admin, 'GET', `${path}?health=sick`)).status).toBe(400)
})

test('keys are selected by their end and their last use', async () => {
  const admin = await newTenant(service)
  const [soon, late] = [await newKey(service, admin, { expires_in: '30d' }), await newKey(service, admin)]
  expect(await idsWith(admin, `expires_before=${inDays(31)}`)).toEqual([soon.id])
  await use(admin, soon.id)
  expect(await idsWith(admin, `unused_since=${inDays(-1)}`)).toEqual([late.id])
  expect((await service.call(admin, 'GET', `${path}?expires_before=tomorrow`)).status).toBe(400)
})

describe('the policy refuses', () => {
  test('wildcards of new and rotated keys', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin, { scopes: ['read:*'] })
    await setPolicy(admin, { forbid_wildcards: true })
    const answer = await service.call(admin, 'POST', path, { body: keyBody({ scopes: ['read:findings', '*'] }) })
    expect(answer.status).toBe(422)
    expect(problemSchema.parse(answer.json).errors).toMatchObject([
      { pointer: '/scopes/1', code: 'wildcard_forbidden' },
    ])
    expect((await service.call(admin, 'POST', `${path}/${id}/rotate`, { body: {} })).json).toMatchObject({
      status: 409,
    })
    await newKey(service, admin)
  })

  test('keys without an owner', async () => {
    const admin = await newTenant(service)
    await setPolicy(admin, { require_owner: true })
    const operator = { tenantId: admin.tenantId, kind: 'operator', id: 'root', label: 'Operator' } as const
    const answer = await service.call(operator, 'POST', path, { body: keyBody() })
    expect(problemSchema.parse(answer.json).errors).toMatchObject([{ pointer: '/owner', code: 'required' }])
    const owner = { type: 'team', name: 'SOC', contact: 'soc@harbourline.example' }
    expect((await service.call(operator, 'POST', path, { body: keyBody({ owner }) })).status).toBe(201)
    await newKey(service, admin)
  })

  test('more active keys than it allows, also at the same time; revoked and rotated keys do not count', async () => {
    const admin = await newTenant(service)
    await setPolicy(admin, { most_keys: 2 })
    const answers = await Promise.all(
      Array.from({ length: 6 }, async () => await service.call(admin, 'POST', path, { body: keyBody() })),
    )
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 201, 409, 409, 409, 409])
    const [id = ''] = await idsWith(admin, 'state=active')
    expect((await service.call(admin, 'POST', `${path}/${id}/rotate`, { body: { overlap: '0s' } })).status).toBe(201)
    await revoke(service, admin, (await idsWith(admin, 'state=active'))[0] ?? '')
    await newKey(service, admin)
  })

  test('20 keys at the same time, of which only the last one has room', async () => {
    const admin = await newTenant(service)
    await setPolicy(admin, { most_keys: 4 })
    for (let made = 0; made < 3; made += 1) await newKey(service, admin)
    const answers = await Promise.all(
      Array.from({ length: 20 }, async () => await service.call(admin, 'POST', path, { body: keyBody() })),
    )
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(19)
  })

  test('any number of keys by rotating each new one', async () => {
    const admin = await newTenant(service)
    await setPolicy(admin, { most_keys: 1 })
    const { id: first } = await newKey(service, admin)
    const rotate = async (id: string) => await service.call(admin, 'POST', `${path}/${id}/rotate`)
    const { id: second } = createdApiKeySchema.parse((await rotate(first)).json)
    const refused = await rotate(second)
    expect([refused.status, problemSchema.parse(refused.json).detail]).toEqual([409, expect.stringContaining(first)])
    await revoke(service, admin, first)
    expect((await rotate(second)).status).toBe(201)
  })

  test('invalid rules', async () => {
    const admin = await newTenant(service)
    for (const body of [{ most_keys: 0 }, { rotation_days: 0 }, { require_owner: null }, { forbid_wildcards: 'yes' }]) {
      expect((await setPolicy(admin, body)).status).toBe(422)
    }
    expect((await setPolicy(admin, { most_keys: 5 })).json).toMatchObject({ most_keys: 5, rotation_days: 90 })
    expect((await setPolicy(admin, { most_keys: null })).json).toMatchObject({ most_keys: null })
  })
})
