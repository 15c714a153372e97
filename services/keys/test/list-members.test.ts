import { type Member, memberSchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type KeysUnderTest, newTenant, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const seen = (admin: Principal, given: object = {}) => ({
  tenantId: admin.tenantId,
  id: 'bo',
  name: 'Bo Ek',
  roles: ['auditor'],
  lastSeenAt: Date.now(),
  ...given,
})

const report = async (...people: object[]) => await service.ask(internalPaths.usage, { uses: [], denials: [], people })

async function membersOf(admin: Principal): Promise<Member[]> {
  return z.array(memberSchema).parse((await service.call(admin, 'GET', '/api/v1/members')).json)
}

describe('the people who have signed in', () => {
  test('are listed only for administrators of their tenant', async () => {
    const [admin, other] = [await newTenant(service), await newTenant(service)]
    expect((await report(seen(admin))).status).toBe(204)
    expect((await service.call({ ...admin, roles: ['auditor'] }, 'GET', '/api/v1/members')).status).toBe(403)
    expect(await membersOf(other)).toEqual([])
    expect(await membersOf(admin)).toMatchObject([{ id: 'bo', name: 'Bo Ek', roles: ['auditor'] }])
  })

  test('are listed once, with their latest name and roles, even if an older report arrives later', async () => {
    const admin = await newTenant(service)
    const [first, last] = [Date.now() - 60_000, Date.now() - 30_000]
    await report(seen(admin, { lastSeenAt: first }))
    await report(
      seen(admin, { lastSeenAt: last - 1, name: 'Bo Berg' }),
      seen(admin, { lastSeenAt: last, name: 'Bo Berg', roles: ['viewer', 'admin'] }),
    )
    await report(seen(admin, { lastSeenAt: first + 1, roles: [] }))
    expect(await membersOf(admin)).toEqual([
      {
        id: 'bo',
        name: 'Bo Berg',
        roles: ['viewer', 'admin'],
        first_seen_at: new Date(first).toISOString(),
        last_seen_at: new Date(last).toISOString(),
        left_at: null,
      },
    ])
  })

  test('are listed in pages, and not for a missing tenant', async () => {
    const admin = await newTenant(service)
    const nowhere = { ...admin, tenantId: crypto.randomUUID() }
    await report(seen(nowhere), ...['a', 'b', 'c'].map((id) => seen(admin, { id })))
    const first = await service.call(admin, 'GET', '/api/v1/members?limit=2&count=true')
    expect([first.headers['x-total-count'], z.array(memberSchema).parse(first.json).length]).toEqual(['3', 2])
    const next = /<([^>]+)>; rel="next"/.exec(first.headers['link'] ?? '')?.[1] ?? ''
    expect((await service.call(admin, 'GET', next)).json).toMatchObject([{ id: 'c' }])
  })

  test('a forged cursor with an invalid text is rejected', async () => {
    const admin = await newTenant(service)
    await report(...['a', 'b'].map((id) => seen(admin, { id })))
    const first = await service.call(admin, 'GET', '/api/v1/members?limit=1')
    const next = /cursor=([^&>]+)/.exec(first.headers['link'] ?? '')?.[1] ?? ''
    const [binding] = z.array(z.unknown()).parse(JSON.parse(Buffer.from(next, 'base64url').toString()))
    const from = async (place: string) => {
      const forged = Buffer.from(`[${JSON.stringify(binding)},"${place}"]`).toString('base64url')
      return (await service.call(admin, 'GET', `/api/v1/members?limit=1&cursor=${forged}`)).status
    }
    expect(await from(String.raw`\u0000`)).toBe(400)
    expect(await from(String.raw`\ud800`)).toBe(400)
    expect(await from('a')).toBe(200)
  })
})
