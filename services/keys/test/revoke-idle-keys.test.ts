/** @promise Keys and secrets: Idle keys are revoked only if the policy says so, after an announcement, and never if they were used in time. */

import { apiKeyEventSchema, keyPolicySchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { createLogger } from '@postern/service-kit'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { recordIdle, revokeIdleKeys } from '../src/policy/revoke-idle.ts'
import { type KeysUnderTest, getKey, lookUp, newKey, newTenant, path, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

async function execute(text: string, ...values: unknown[]): Promise<void> {
  await service.asSuperuser.system(async (tx) => {
    await tx.execute(sql('set local session_replication_role = replica'))
    await tx.execute(sql(text, ...values))
  })
}

beforeEach(async () => await execute(`update keys.usage_watch set counted_from = '-infinity', seen_at = now()`))

const setPolicy = async (admin: Principal, days: unknown) =>
  await service.call(admin, 'PATCH', '/api/v1/key-policy', {
    body: { revoke_idle_days: days },
    headers: { 'if-match': '*' },
  })

/** A tenant that has had the rule and an endpoint for a year. */
async function tenantWithRule(days: number): Promise<Principal> {
  const admin = await newTenant(service)
  expect((await setPolicy(admin, days)).status).toBe(200)
  const { tenantId } = admin
  await execute(`update keys.tenant set revoke_idle_since = now() - interval '1 year' where tenant_id = $1`, tenantId)
  await execute(`insert into tenancy.event_reader (tenant_id, since) values ($1, now() - interval '1 year')`, tenantId)
  return admin
}

/** A key that was last used this many days ago. */
async function keyUsed(admin: Principal, daysAgo: number) {
  const key = await newKey(service, admin)
  await execute(
    `update keys.api_key set created_at = now() - interval '300 days', last_used_at = now() - $2 * interval '1 day'
      where id = $1`,
    key.id,
    daysAgo,
  )
  return key
}

async function note(): Promise<void> {
  await service.asService.system(recordIdle)
}

/** Lets a day pass since the announcements of a key. */
async function passDay(id: string): Promise<void> {
  await execute(`update keys.idle_notice set noted_at = now() - interval '25 hours' where key_id = $1`, id)
}

async function run(): Promise<readonly string[]> {
  const enforced: string[] = []
  const logger = createLogger({ service: 'keys', level: 'fatal', write: () => undefined })
  const enforcer = {
    enforceKeys: async (hashes: readonly string[]) => {
      enforced.push(...hashes)
      return { at: new Date(), enforcement: null }
    },
  }
  await revokeIdleKeys({ db: service.asService, enforcer, logger })
  return enforced
}

async function announcementsOf({ tenantId }: Principal): Promise<number> {
  const text = `select count(*)::int4 as count from tenancy.change where tenant_id = $1 and event = 'key.expiring'`
  const [row] = await service.asSuperuser.system(async (tx) => await tx.query<{ count: number }>(sql(text, tenantId)))
  return row?.count ?? 0
}

async function stateOf(admin: Principal, id: string): Promise<string> {
  return (await getKey(service, admin, id)).state
}

async function use({ tenantId }: Principal, keyId: string, lastUsedAt: number): Promise<void> {
  const uses = [{ keyId, tenantId, address: '203.0.113.7', lastUsedAt, count: 1, routes: { 'findings.list': 1 } }]
  await service.ask(internalPaths.usage, { uses, denials: [] })
}

describe('an idle key is not revoked', () => {
  test('unless the policy says so', async () => {
    const [off, on] = [await newTenant(service), await tenantWithRule(90)]
    const [kept, gone] = [await keyUsed(off, 200), await keyUsed(on, 92)]
    await note()
    await passDay(gone.id)
    await run()
    expect(await stateOf(off, kept.id)).toBe('active')
    expect(await stateOf(on, gone.id)).toBe('revoked')
    const events = await service.call(on, 'GET', `/api/v1/audit-events?action=key.revoked&resource=${gone.id}`)
    expect(events.json).toMatchObject([
      { actor_type: 'policy', actor_id: 'revoke_idle_days', actor_name: 'Key policy', reason: 'Not used for 90 days' },
    ])
  })

  test('before it was announced for a day, and late reports of its use had a day to arrive', async () => {
    const admin = await tenantWithRule(90)
    const [unannounced, late, gone] = [await keyUsed(admin, 92), await keyUsed(admin, 90.5), await keyUsed(admin, 91.1)]
    await note()
    await passDay(late.id)
    await passDay(gone.id)
    await run()
    expect(await stateOf(admin, unannounced.id)).toBe('active')
    expect(await stateOf(admin, late.id)).toBe('active')
    expect(await stateOf(admin, gone.id)).toBe('revoked')
  })

  test('if a gateway reports late that it was used in time', async () => {
    const admin = await tenantWithRule(30)
    const key = await keyUsed(admin, 40)
    await note()
    await passDay(key.id)
    await use(admin, key.id, Date.now() - 2 * 86_400_000)
    await run()
    expect(await stateOf(admin, key.id)).toBe('active')
    expect((await lookUp(service, key.hash)).record?.revoked).toBe(false)
  })

  test('if its uses may be missing after a restored backup', async () => {
    const admin = await tenantWithRule(30)
    const key = await keyUsed(admin, 40)
    await note()
    await passDay(key.id)
    await execute(`update keys.usage_watch set counted_from = now()`)
    await run()
    expect(await stateOf(admin, key.id)).toBe('active')
  })

  test('if a gateway could not report uses for long', async () => {
    const admin = await tenantWithRule(30)
    const key = await keyUsed(admin, 40)
    await note()
    await passDay(key.id)
    const request = { gateway: crypto.randomUUID(), name: 'late', cursor: null, mark: null }
    expect((await service.ask(internalPaths.leases, { ...request, usageIsLate: true })).status).toBe(200)
    await run()
    expect(await stateOf(admin, key.id)).toBe('active')
    // Other leases change nothing.
    await execute(`update keys.usage_watch set counted_from = '-infinity'`)
    expect((await service.ask(internalPaths.leases, request)).status).toBe(200)
    expect(await run()).toContain(key.hash)
  })

  test('for the days before the rule was that strict, or while its tenant was suspended', async () => {
    const admin = await newTenant(service)
    const key = await keyUsed(admin, 200)
    await setPolicy(admin, 90)
    await note()
    await passDay(key.id)
    await run()
    expect(await announcementsOf(admin)).toBe(0)
    expect(await stateOf(admin, key.id)).toBe('active')
    const suspended = await tenantWithRule(30)
    const other = await keyUsed(suspended, 40)
    await note()
    await passDay(other.id)
    const tenantPath = `${internalPaths.tenants}/${suspended.tenantId}`
    expect((await service.operate('POST', `${tenantPath}/suspend`)).status).toBe(200)
    await run()
    expect((await service.operate('POST', `${tenantPath}/resume`)).status).toBe(200)
    await run()
    expect(await stateOf(suspended, other.id)).toBe('active')
  })
})

describe('an idle key is announced', () => {
  test('30, 14, 7 and 1 days before, each once, and again after another use', async () => {
    const admin = await tenantWithRule(90)
    const key = await keyUsed(admin, 59)
    const idleFor = async (days: number) => {
      const text = `update keys.api_key set last_used_at = now() - $2 * interval '1 day' where id = $1`
      await execute(text, key.id, days)
      await execute(
        `update keys.idle_notice set due_at = (select last_used_at + interval '90 days' from keys.api_key where id = $1)
          where key_id = $1`,
        key.id,
      )
      await note()
      await note()
      return await announcementsOf(admin)
    }
    const counts: number[] = []
    for (const days of [59, 61, 70, 77, 84, 88, 89.5, 89.9]) counts.push(await idleFor(days))
    expect(counts).toEqual([0, 1, 1, 2, 3, 3, 4, 4])
    await use(admin, key.id, Date.now() - 65 * 86_400_000)
    await note()
    expect(await announcementsOf(admin)).toBe(5)
  })

  test('only with notice times that are shorter than the rule', async () => {
    const admin = await tenantWithRule(7)
    await keyUsed(admin, 1)
    await note()
    expect(await announcementsOf(admin)).toBe(0)
    await keyUsed(admin, 6.5)
    await note()
    expect(await announcementsOf(admin)).toBe(1)
  })
})

test('a revoked idle key is rejected by gateways, and its history names the policy', async () => {
  const admin = await tenantWithRule(30)
  const key = await keyUsed(admin, 40)
  await note()
  await passDay(key.id)
  expect(await run()).toContain(key.hash)
  expect(await run()).toEqual([])
  expect((await lookUp(service, key.hash)).record?.revoked).toBe(true)
  const revoked = await getKey(service, admin, key.id)
  expect(revoked).toMatchObject({
    revoked_by: { type: 'policy', label: 'Key policy' },
    revoke_reason: 'Not used for 30 days',
  })
  const { json } = await service.call(admin, 'GET', `${path}/${key.id}/events`)
  const [event] = apiKeyEventSchema.array().parse(json)
  expect(event).toMatchObject({
    type: 'revoked',
    actor: { type: 'policy' },
    detail: { reason: 'Not used for 30 days' },
  })
})

test('the rule needs a number of days from 2 to 1,825, or null', async () => {
  const admin = await newTenant(service)
  for (const days of [0, 1, 1826, 2.5, 'never', -3]) expect((await setPolicy(admin, days)).status).toBe(422)
  expect(keyPolicySchema.parse((await setPolicy(admin, 2)).json).revoke_idle_days).toBe(2)
  expect(keyPolicySchema.parse((await setPolicy(admin, null)).json).revoke_idle_days).toBeNull()
})
