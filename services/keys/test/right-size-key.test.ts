import { type ApiKeyUsage, apiKeyUsageSchema, createdApiKeySchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { scopesOfRoutes } from '../src/right-sizing/right-size.ts'
import { setRoutes, watchUsage } from '../src/right-sizing/store.ts'
import { type KeysUnderTest, newKey, newTenant, path, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
  // As housekeeping does.
  await service.asService.system(async (tx) => await setRoutes(tx, scopesOfRoutes))
})
afterAll(async () => await service.close())

const superuser = async (text: string, ...values: unknown[]) =>
  await service.asSuperuser.system(async (tx) => {
    await tx.execute(sql('set local session_replication_role = replica'))
    await tx.execute(sql(text, ...values))
  })

async function oldKey(admin: Principal, given: object, days = 31): Promise<string> {
  const { id } = await newKey(service, admin, given)
  await superuser(`update keys.api_key set created_at = now() - $2 * interval '1 day' where id = $1`, id, days)
  return id
}

async function use({ tenantId }: Principal, keyId: string, ...ids: string[]): Promise<void> {
  const routes = Object.fromEntries(ids.map((id) => [id, 1]))
  const uses = [{ keyId, tenantId, address: '203.0.113.7', lastUsedAt: Date.now(), count: ids.length, routes }]
  expect((await service.ask(internalPaths.usage, { uses, denials: [] })).status).toBe(204)
}

async function sizeOf(admin: Principal, id: string): Promise<ApiKeyUsage['right_sizing']> {
  const { json } = await service.call(admin, 'GET', `${path}/${id}/usage`)
  return apiKeyUsageSchema.parse(json).right_sizing
}

const both = { scopes: ['read:findings', 'read:universe'] }

describe('nothing is suggested', () => {
  test('for a key younger than 30 days, which says since when it counted', async () => {
    const admin = await newTenant(service)
    const young = await oldKey(admin, both, 29)
    await use(admin, young, 'findings.list')
    const { counted_from: from, ...size } = await sizeOf(admin, young)
    expect(size).toMatchObject({ complete: false, unneeded_scopes: [], suggested_scopes: null, routes_used: 1 })
    expect(Date.now() - Date.parse(from)).toBeGreaterThan(28 * 86_400_000)
    expect(Date.now() - Date.parse(from)).toBeLessThan(30 * 86_400_000)
    const old = await oldKey(admin, both)
    await use(admin, old, 'findings.list')
    expect(await sizeOf(admin, old)).toMatchObject({ complete: true, suggested_scopes: ['read:findings'] })
  })

  test('while uses may be missing, because a backup was restored', async () => {
    const admin = await newTenant(service)
    const id = await oldKey(admin, both)
    await use(admin, id, 'findings.list')
    await superuser(`update keys.usage_watch set seen_at = now() - interval '50 minutes'`)
    await service.asService.system(watchUsage)
    expect((await sizeOf(admin, id)).complete).toBe(true)
    await superuser(`update keys.usage_watch set seen_at = now() - interval '70 minutes'`)
    await service.asService.system(watchUsage)
    const { counted_from: from, ...size } = await sizeOf(admin, id)
    expect(size).toMatchObject({ complete: false, suggested_scopes: null })
    expect(Date.now() - Date.parse(from)).toBeLessThan(60_000)
    await superuser(`update keys.usage_watch set counted_from = '-infinity'`)
  })

  test.each<[string, object, string[]]>([
    ['if every scope was needed', both, ['findings.list', 'universe.list-entities']],
    ['if a wildcard was needed completely', { scopes: ['read:*'] }, ['findings.list', 'universe.list-entities']],
    ['if no scope was needed', both, []],
    ['if the key called only routes without a scope', both, ['gateway.whoami']],
    ['if a route is unknown, which may need any scope', both, ['findings.list', 'of.a-newer-release']],
    // Its response contains what the scopes of the key allow.
    ['if both scopes open the changes feed', both, ['findings.list-changes']],
  ])('%s', async (_, given, routes) => {
    const admin = await newTenant(service)
    const id = await oldKey(admin, given)
    if (routes.length > 0) await use(admin, id, ...routes)
    expect(await sizeOf(admin, id)).toMatchObject({ complete: true, suggested_scopes: null })
  })
})

describe('the scopes that suffice are suggested', () => {
  test.each<[string, string[], string[], string[], string[]]>([
    ['without a scope that was never needed', both.scopes, ['findings.list'], ['read:universe'], ['read:findings']],
    ['instead of a wildcard', ['read:*'], ['universe.list-entities'], ['read:findings'], ['read:universe']],
    [
      'instead of every scope',
      ['*'],
      ['findings.list', 'findings.get', 'findings.create'],
      ['read:universe', 'write:evidence', 'admin:sync'],
      ['read:findings', 'write:findings'],
    ],
  ])('%s', async (_, scopes, routes, unneeded, suggested) => {
    const admin = await newTenant(service)
    const id = await oldKey(admin, { scopes })
    await use(admin, id, ...routes)
    const size = await sizeOf(admin, id)
    expect(size).toMatchObject({ unneeded_scopes: unneeded, suggested_scopes: suggested, routes_used: routes.length })
    expect(size.routes_callable).toBeGreaterThan(size.routes_used)
  })

  test('and the key can be narrowed to them', async () => {
    const admin = await newTenant(service)
    const id = await oldKey(admin, { scopes: ['*'] })
    await use(admin, id, 'findings.list')
    const { suggested_scopes: scopes } = await sizeOf(admin, id)
    const changed = await service.call(admin, 'PATCH', `${path}/${id}`, {
      body: { scopes },
      headers: { 'if-match': '*' },
    })
    expect(changed).toMatchObject({ status: 200, json: { scopes: ['read:findings'] } })
    expect(await sizeOf(admin, id)).toMatchObject({ unneeded_scopes: [], suggested_scopes: null })
  })
})

describe('a rotation', () => {
  test('gives the new key fewer scopes, and never more', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin, { scopes: ['read:*'] })
    const rotate = async (scopes: string[]) =>
      await service.call(admin, 'POST', `${path}/${id}/rotate`, { body: { scopes } })
    expect(await rotate(['read:findings', 'write:findings'])).toMatchObject({
      status: 409,
      json: { errors: [{ pointer: '/scopes', code: 'widens' }] },
    })
    expect((await rotate([])).status).toBe(422)
    const { status, json } = await rotate(['read:findings'])
    expect(status).toBe(201)
    expect(createdApiKeySchema.parse(json)).toMatchObject({ scopes: ['read:findings'], rotated_from: id })
  })
})
