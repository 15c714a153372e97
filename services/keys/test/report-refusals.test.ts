import { type ApiKeyUsage, apiKeyUsageSchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pruneUses } from '../src/usage/store.ts'
import { type KeysUnderTest, newKey, newTenant, path, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const dayMs = 86_400_000

interface Given {
  readonly address?: string | null
  readonly route?: string | null
  readonly code?: string
  readonly count?: number
  readonly at?: number
  readonly requestIds?: readonly string[]
}

/** What a gateway reports of refusals with one reason, route and address. */
function refusalsOf(admin: Principal, keyId: string, given: Given = {}) {
  const { address = '192.0.2.1', route = 'findings.create', code = 'insufficient_scope', count = 1 } = given
  const { at = Date.now(), requestIds = [] } = given
  const recent = requestIds.map((requestId) => ({ at, requestId, method: 'POST', route, address, code }))
  const counts = [{ address, route, code, count, firstAt: at - 10, lastAt: at }]
  return { keyId, tenantId: admin.tenantId, counts, recent }
}

const report = async (...refusals: unknown[]) =>
  await service.ask(internalPaths.usage, { uses: [], denials: [], refusals })

async function usageOf(admin: Principal, id: string): Promise<ApiKeyUsage> {
  const answer = await service.call(admin, 'GET', `${path}/${id}/usage`)
  expect(answer.status, answer.text).toBe(200)
  return apiKeyUsageSchema.parse(answer.json)
}

describe('a report of refusals', () => {
  test('is rejected if one line is invalid, and ignores keys under the name of another tenant', async () => {
    const [owner, other] = [await newTenant(service), await newTenant(service)]
    const { id } = await newKey(service, owner)
    expect((await report(refusalsOf(owner, id), refusalsOf(owner, id, { count: 0 }))).status).toBe(422)
    expect((await report(refusalsOf(owner, id), refusalsOf(owner, id, { code: '\u0000' }))).status).toBe(422)
    expect((await report(refusalsOf(other, id, { requestIds: ['request-1'] }))).status).toBe(204)
    expect(await usageOf(owner, id)).toMatchObject({ refused: [], last_refusals: [], addresses: [] })
    expect((await report(refusalsOf(owner, id))).status).toBe(204)
    expect((await usageOf(owner, id)).refused).toHaveLength(1)
  })

  test('is shown by day, by reason and route, and by address', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const now = Date.now()
    const use = { keyId: id, tenantId: admin.tenantId, lastUsedAt: now, address: '192.0.2.1', count: 7 }
    await service.ask(internalPaths.usage, { uses: [{ ...use, routes: { 'findings.list': 5 } }], denials: [] })
    await report(
      refusalsOf(admin, id, { count: 2, at: now }),
      refusalsOf(admin, id, { count: 3, at: now - 3 * dayMs, address: '203.0.113.9', code: 'address_not_allowed' }),
    )
    await report(refusalsOf(admin, id, { count: 1, at: now, address: '203.0.113.9', route: null, code: 'not_found' }))
    const { days, addresses, refused } = await usageOf(admin, id)
    expect(days.map(({ requests, refusals }) => [requests, refusals]).filter(([, refusals]) => refusals !== 0)).toEqual(
      [
        [0, 3],
        [5, 3],
      ],
    )
    expect(refused.map(({ code, route, refusals }) => [code, route, refusals])).toEqual([
      ['address_not_allowed', 'findings.create', 3],
      ['insufficient_scope', 'findings.create', 2],
      ['not_found', null, 1],
    ])
    expect(addresses.map(({ address, requests, refusals }) => [address, requests, refusals])).toEqual([
      ['192.0.2.1', 5, 2],
      ['203.0.113.9', 0, 4],
    ])
    const stranger = addresses.find(({ address }) => address === '203.0.113.9')
    expect(Date.parse(stranger?.first_used_at ?? '')).toBe(now - 3 * dayMs - 10)
    expect(Date.parse(stranger?.last_used_at ?? '')).toBe(now)
  })

  test('about the same key at once loses none', async () => {
    const admin = await newTenant(service)
    const keys = await Promise.all([newKey(service, admin), newKey(service, admin)])
    const lines = keys.map(({ id }) => refusalsOf(admin, id))
    const rounds = Array.from({ length: 8 }, (_none, round) => (round % 2 === 0 ? lines : lines.toReversed()))
    const answers = await Promise.all(rounds.map(async (round) => await report(...round)))
    expect(answers.map(({ status }) => status)).toEqual(rounds.map(() => 204))
    for (const { id } of keys) expect((await usageOf(admin, id)).refused).toMatchObject([{ refusals: 8 }])
  })
})

const idsOf = (first: number) =>
  Array.from({ length: 70 }, (_none, at) => `request-${String(first + at).padStart(4, '0')}`)

describe('the refusals of a key are bounded', () => {
  test('to a hundred named addresses a day; a count without an address never gets the name of one', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    for (const part of [1, 2]) {
      const lines = Array.from({ length: 80 }, (_none, host) =>
        refusalsOf(admin, id, { address: `198.51.${part}.${host}` }),
      )
      await report(...lines)
    }
    // A known address is still counted.
    await report(refusalsOf(admin, id, { address: '198.51.1.0', count: 4 }))
    const { addresses, other_refusals: other, days } = await usageOf(admin, id)
    expect(addresses).toHaveLength(100)
    expect(addresses.find(({ address }) => address === '198.51.1.0')?.refusals).toBe(5)
    expect(addresses.filter(({ refusals }) => refusals === 1)).toHaveLength(99)
    expect([other, days.at(-1)?.refusals]).toEqual([60, 164])
  })

  test('to the last hundred requests', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const start = Date.now() - 10_000
    for (const first of [0, 70]) {
      const line = refusalsOf(admin, id)
      const recent = idsOf(first).map((requestId, place) => ({
        at: start + first + place,
        requestId,
        method: 'GET',
        route: null,
        address: '192.0.2.1',
        code: 'not_found',
      }))
      expect((await report({ ...line, recent })).status).toBe(204)
      // As after a lost answer.
      expect((await report({ ...line, recent })).status).toBe(204)
    }
    const { last_refusals: last } = await usageOf(admin, id)
    expect(last.map(({ request_id: request }) => request)).toEqual(
      [...idsOf(0), ...idsOf(70)].toReversed().slice(0, 100),
    )
    expect(last[0]).toEqual({
      at: new Date(start + 139).toISOString(),
      request_id: 'request-0139',
      method: 'GET',
      route: null,
      address: '192.0.2.1',
      code: 'not_found',
    })
  })

  test('to one month', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const now = Date.now()
    for (const days of [0, 20, 33, 400]) {
      const at = now - days * dayMs
      await report(refusalsOf(admin, id, { at, requestIds: [`request-${days}`] }))
      const use = { keyId: id, tenantId: admin.tenantId, lastUsedAt: at, address: '192.0.2.1', count: 1 }
      await service.ask(internalPaths.usage, { uses: [{ ...use, routes: { 'findings.list': 1 } }], denials: [] })
    }
    await service.asService.system(async (tx) => await pruneUses(tx, 1000))
    for (const table of ['api_key_refusal', 'api_key_refusal_count', 'api_key_address_use']) {
      const rows = await service.asSuperuser.system(
        async (tx) => await tx.query(sql(`select from keys.${table} where key_id = $1`, id)),
      )
      expect([table, rows.length]).toEqual([table, 2])
    }
  })
})

test('accepted requests are counted for at most a hundred addresses a day', async () => {
  const admin = await newTenant(service)
  const { id } = await newKey(service, admin)
  const uses = Array.from({ length: 120 }, (_none, host) => ({
    keyId: id,
    tenantId: admin.tenantId,
    lastUsedAt: Date.now(),
    address: `198.51.100.${host}`,
    count: host + 1,
    routes: { 'findings.list': host + 1 },
  }))
  await service.ask(internalPaths.usage, { uses, denials: [] })
  const rows = await service.asSuperuser.system(
    async (tx) =>
      await tx.query(
        sql(`select address, requests::int4 from keys.api_key_address_use where key_id = $1 order by requests`, id),
      ),
  )
  expect(rows).toHaveLength(101)
  expect(rows).toContainEqual({ address: '', requests: 210 })
  expect(rows[0]).toEqual({ address: '198.51.100.20', requests: 21 })
})
