import { apiKeyEventSchema, apiKeyUsageSchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { recordPendingDenials, pruneUses } from '../src/usage/store.ts'
import {
  type KeysUnderTest,
  eventTypes,
  gatewayPrincipal,
  getKey,
  newKey,
  newTenant,
  path,
  sql,
  startKeys,
} from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const report = async (given: { uses?: unknown[]; denials?: unknown[] }) =>
  await service.ask(internalPaths.usage, { uses: [], denials: [], ...given })

const useOf = (admin: Principal, keyId: string, given: object = {}) => ({
  keyId,
  tenantId: admin.tenantId,
  address: '192.0.2.1',
  lastUsedAt: Date.now(),
  count: 1,
  routes: { 'findings.list': 1 },
  ...given,
})

const denialOf = (admin: Principal, keyId: string, given: object = {}) => ({
  keyId,
  tenantId: admin.tenantId,
  address: '192.0.2.1',
  reason: 'revoked',
  at: Date.now(),
  count: 1,
  ...given,
})

async function events(admin: Principal, id: string) {
  return z.array(apiKeyEventSchema).parse((await service.call(admin, 'GET', `${path}/${id}/events?limit=1000`)).json)
}

describe('a report is refused', () => {
  test('from callers that are not gateways', async () => {
    const admin = await newTenant(service)
    const body = { uses: [], denials: [] }
    expect((await service.call(admin, 'POST', internalPaths.usage, { body })).status).toBe(401)
    expect((await service.stranger.call(gatewayPrincipal, 'POST', internalPaths.usage, { body })).status).toBe(401)
    expect((await report({})).status).toBe(204)
  })

  test('completely if one line is invalid', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    expect((await report({ uses: [useOf(admin, id), useOf(admin, id, { count: 0 })] })).status).toBe(422)
    expect((await getKey(service, admin, id)).last_used_at).toBeNull()
  })
})

describe('a report is rejected for good', () => {
  test.each(['uses', 'denials'])('if PostgreSQL cannot store one of its %s', async (kind) => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const line = (address: string) => (kind === 'uses' ? useOf : denialOf)(admin, id, { address })
    expect((await report({ [kind]: [line('192.0.2.1'), line('')] })).status).toBe(422)
    expect((await report({ [kind]: [line('192.0.2.1')] })).status).toBe(204)
  })
})

describe('a reported use', () => {
  test('sets the last use of the key, never backwards and never in the future', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const at = Date.now() - 5000
    const shown = async () => (await getKey(service, admin, id)).last_used_at
    await report({ uses: [useOf(admin, id, { lastUsedAt: at - 9 }), useOf(admin, id, { lastUsedAt: at })] })
    expect(await shown()).toBe(new Date(at).toISOString())
    expect((await report({ uses: [useOf(admin, id, { lastUsedAt: at - 1000 })] })).status).toBe(204)
    expect(await shown()).toBe(new Date(at).toISOString())
    await report({ uses: [useOf(admin, id, { lastUsedAt: at + 86_400_000 })] })
    expect(Date.parse((await shown()) ?? '')).toBeLessThanOrEqual(Date.now())
  })

  test('separates the last accepted request and the last rejected one', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const at = Date.now() - 60_000
    const shown = async () => {
      const { last_used_at: used, last_refused_at: refused } = await getKey(service, admin, id)
      return [used, refused].map((moment) => (moment === null ? null : Date.parse(moment) - at))
    }
    expect(await shown()).toEqual([null, null])
    // Rejected for what it asked, such as a missing scope: a use without a route.
    await report({ uses: [useOf(admin, id, { lastUsedAt: at, count: 3, routes: {} })] })
    expect(await shown()).toEqual([null, 0])
    await report({ uses: [useOf(admin, id, { lastUsedAt: at + 1000, count: 2, routes: { 'findings.list': 2 } })] })
    expect(await shown()).toEqual([1000, 0])
    // Both since the last report.
    await report({ uses: [useOf(admin, id, { lastUsedAt: at + 2000, count: 3, routes: { 'findings.list': 2 } })] })
    expect(await shown()).toEqual([2000, 2000])
    // Rejected for the caller, such as its address.
    await report({ denials: [denialOf(admin, id, { at: at + 3000 })] })
    expect(await shown()).toEqual([2000, 3000])
    await report({ denials: [denialOf(admin, id, { at: at + 2500 })] })
    expect(await shown()).toEqual([2000, 3000])
  })

  test('of a key under another tenant’s name changes nothing', async () => {
    const [owner, other] = [await newTenant(service), await newTenant(service)]
    const { id } = await newKey(service, owner)
    await report({ uses: [useOf(other, id)], denials: [denialOf(other, id)] })
    expect(await getKey(service, owner, id)).toMatchObject({ last_used_at: null, last_refused_at: null })
    expect(await eventTypes(service, owner, id)).toEqual(['created'])
    await report({ uses: [useOf(owner, id)] })
    expect((await getKey(service, owner, id)).last_used_at).not.toBeNull()
  })

  test('changes no version and adds no log entry', async () => {
    const admin = await newTenant(service)
    const { id, hash } = await newKey(service, admin)
    await report({ uses: [useOf(admin, id)] })
    expect((await getKey(service, admin, id)).version).toBe(1)
    const log = await service.asSuperuser.system(
      async (tx) => await tx.query(sql(`select from keys.revocation where hash = decode($1, 'hex')`, hash)),
    )
    expect(log).toEqual([])
  })

  test('from a new address is recorded in the audit trail once', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    await report({ uses: [useOf(admin, id), useOf(admin, id), useOf(admin, id, { address: '2001:db8::1' })] })
    await report({ uses: [useOf(admin, id)] })
    const noted = (await events(admin, id)).filter(({ type }) => type === 'used_from_new_address')
    expect(new Set(noted.map(({ address }) => address))).toEqual(new Set(['192.0.2.1', '2001:db8::1']))
    expect(noted).toHaveLength(2)
    for (const part of [0, 1]) {
      const uses = Array.from({ length: 90 }, (_, n) => useOf(admin, id, { address: `198.51.${part}.${n}` }))
      await report({ uses })
    }
    // Beyond 100 addresses, each report adds events for at most five new ones.
    const all = (await events(admin, id)).filter(({ type }) => type === 'used_from_new_address')
    expect(all).toHaveLength(100)
    const latest = { lastUsedAt: Date.now() + 1000, address: '203.0.113.77' }
    await report({ uses: [useOf(admin, id, latest)] })
    expect((await events(admin, id))[0]).toMatchObject({ type: 'used_from_new_address', address: '203.0.113.77' })
    const { addresses, addresses_dropped: dropped } = await usageOf(admin, id)
    expect(addresses).toHaveLength(100)
    expect(addresses[0]).toMatchObject({ address: '203.0.113.77' })
    expect(dropped).toBe(83)
  })

  test('is accepted from several gateways about the same 2,000 keys at once', async () => {
    const admin = await newTenant(service)
    const insert = sql(
      `insert into keys.api_key (tenant_id, hash, last_four, label, created_by_type, created_by_id, created_by_label, scopes, expires_at)
       select $1, sha256(convert_to($1::uuid::text || n, 'UTF8')), 'abcd', 'x', 'user', 'x', '', '{*}', now() + interval '1 day'
         from generate_series(1, 2000) as n returning id`,
      admin.tenantId,
    )
    const rows = await service.asService.write(
      service.assertionOf(admin.tenantId),
      async (tx) => await tx.query<{ id: string }>(insert),
    )
    const uses = rows.map(({ id }) => useOf(admin, id))
    const answers = await Promise.all([report({ uses }), report({ uses: uses.toReversed() }), report({ uses })])
    expect(answers.map(({ status }) => status)).toEqual([204, 204, 204])
    const unused = await service.asSuperuser.system(
      async (tx) =>
        await tx.query(sql('select from keys.api_key where tenant_id = $1 and last_used_at is null', admin.tenantId)),
    )
    expect(unused).toEqual([])
  })
})

const aMinutePasses = async (id: string) =>
  await service.asSuperuser.system(
    async (tx) =>
      await tx.execute(
        sql(`update keys.api_key_denial set noted_at = noted_at - interval '61 seconds' where key_id = $1`, id),
      ),
  )

describe('denials of a key', () => {
  test('are in its audit trail at once, then at most once per minute with a count', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const noted = async () =>
      (await events(admin, id)).filter(({ type }) => type === 'denied_revoked').map(({ detail }) => detail['attempts'])
    await report({ denials: [denialOf(admin, id, { count: 2 })] })
    expect(await noted()).toEqual([2])
    for (let round = 0; round < 5; round += 1) await report({ denials: [denialOf(admin, id, { count: 10 })] })
    expect(await noted()).toEqual([2])
    await aMinutePasses(id)
    await report({ denials: [denialOf(admin, id, { count: 1, address: '203.0.113.9' })] })
    expect(await noted()).toEqual([50, 1, 2])
    expect((await events(admin, id))[1]).toMatchObject({ address: '203.0.113.9', actor: null })
  })

  test.each(['revoked', 'expired', 'address', 'scope'] as const)('for %s are counted by address', async (reason) => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const noted = async () =>
      (await events(admin, id))
        .filter(({ type }) => type === `denied_${reason}`)
        .map(({ address, detail }) => [address, detail['attempts'], detail['other_addresses']])
    const denials = (first: number, second: number) => [
      denialOf(admin, id, { reason, count: first, address: '192.0.2.1' }),
      denialOf(admin, id, { reason, count: second, address: '192.0.2.2' }),
    ]
    await report({ denials: denials(5, 1) })
    const atOnce = [
      ['192.0.2.1', 5, undefined],
      ['192.0.2.2', 1, undefined],
    ]
    expect(await noted()).toEqual(atOnce)
    // Denials within the minute are counted by address as well.
    await report({ denials: denials(1, 2) })
    await report({ denials: denials(2, 2) })
    await aMinutePasses(id)
    await service.asService.system(async (tx) => await recordPendingDenials(tx, 1000))
    expect((await noted()).slice(0, 2)).toEqual([
      ['192.0.2.2', 4, undefined],
      ['192.0.2.1', 3, undefined],
    ])
  })

  test('from many addresses are counted for the top ten and for the rest together', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const denials = Array.from({ length: 30 }, (_, n) => denialOf(admin, id, { count: n + 1, address: `192.0.2.${n}` }))
    await report({ denials })
    const noted = (await events(admin, id)).filter(({ type }) => type === 'denied_revoked')
    expect(noted.map(({ detail }) => detail['attempts'])).toEqual([30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 210])
    expect(noted.at(-1)).toMatchObject({ address: null, detail: { other_addresses: true } })
  })

  test('without a later one are written by the housekeeping', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    await report({ denials: [denialOf(admin, id, { reason: 'expired' })] })
    await report({ denials: [denialOf(admin, id, { reason: 'expired', count: 7 })] })
    const tidy = async () => await service.asService.system(async (tx) => await recordPendingDenials(tx, 1000))
    await tidy()
    expect(await eventTypes(service, admin, id)).toEqual(['denied_expired', 'created'])
    await aMinutePasses(id)
    await tidy()
    await tidy()
    expect(await events(admin, id)).toMatchObject([
      { type: 'denied_expired', detail: { attempts: 7 } },
      { type: 'denied_expired', detail: { attempts: 1 } },
      { type: 'created' },
    ])
  })

  test('are counted separately by reason', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const reasons = ['expired', 'revoked', 'address', 'scope'] as const
    await report({ denials: reasons.map((reason) => denialOf(admin, id, { reason })) })
    expect(new Set(await eventTypes(service, admin, id))).toEqual(
      new Set(['created', 'denied_expired', 'denied_revoked', 'denied_address', 'denied_scope']),
    )
  })
})

async function usageOf(admin: Principal, id: string): Promise<z.infer<typeof apiKeyUsageSchema>> {
  const answer = await service.call(admin, 'GET', `${path}/${id}/usage`)
  expect(answer.status).toBe(200)
  return apiKeyUsageSchema.parse(answer.json)
}

const dayMs = 86_400_000

function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10)
}

describe('the usage of a key', () => {
  test('of another tenant returns 404', async () => {
    const [owner, other] = [await newTenant(service), await newTenant(service)]
    const { id } = await newKey(service, owner)
    expect((await service.call(other, 'GET', `${path}/${id}/usage`)).status).toBe(404)
    expect((await usageOf(owner, id)).routes).toEqual([])
  })

  test('is listed by day, including unused days, and by route', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const now = Date.now()
    const before = now - 3 * dayMs
    const long = now - 40 * dayMs
    await report({
      uses: [
        useOf(admin, id, { lastUsedAt: now, count: 5, routes: { 'findings.list': 4, 'findings.get': 1 } }),
        useOf(admin, id, { lastUsedAt: now, count: 2, address: '192.0.2.2', routes: { 'findings.list': 2 } }),
        useOf(admin, id, { lastUsedAt: before, count: 3, routes: { 'findings.list': 3 } }),
        useOf(admin, id, { lastUsedAt: long, count: 9, routes: { 'findings.list': 9 } }),
      ],
    })
    await report({ uses: [useOf(admin, id, { lastUsedAt: now, routes: { 'findings.list': 1 } })] })
    const { days, routes, addresses } = await usageOf(admin, id)
    expect(addresses.map(({ address }) => address)).toEqual(['192.0.2.2', '192.0.2.1'])
    expect(days).toHaveLength(30)
    expect(days.at(-1)).toEqual({ day: dayOf(now), requests: 8, refusals: 0 })
    expect(days.at(-4)).toEqual({ day: dayOf(before), requests: 3, refusals: 0 })
    expect(days.reduce((sum, { requests }) => sum + requests, 0)).toBe(11)
    expect(routes).toEqual([
      { route: 'findings.list', requests: 10, last_used_on: dayOf(now) },
      { route: 'findings.get', requests: 1, last_used_on: dayOf(now) },
    ])
  })

  test('ignores reports for another tenant', async () => {
    const [owner, other] = [await newTenant(service), await newTenant(service)]
    const { id } = await newKey(service, owner)
    await report({ uses: [useOf(other, id, { routes: { 'findings.list': 1 } })] })
    expect((await usageOf(owner, id)).routes).toEqual([])
    await report({ uses: [useOf(owner, id, { routes: { 'findings.list': 1 } })] })
    expect((await usageOf(owner, id)).routes).toHaveLength(1)
  })

  test('is kept for one month', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const use = (daysAgo: number) =>
      useOf(admin, id, { lastUsedAt: Date.now() - daysAgo * dayMs, routes: { 'findings.list': 1 } })
    await report({ uses: [use(0), use(20), use(33), use(400)] })
    await service.asService.system(async (tx) => await pruneUses(tx, 1000))
    const kept = await service.asSuperuser.system(
      async (tx) => await tx.query(sql('select from keys.api_key_use where key_id = $1', id)),
    )
    expect(kept).toHaveLength(2)
  })
})
