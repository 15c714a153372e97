/** @promise Keys and secrets: The approaching expiry of a key is an event 30, 14, 7 and 1 days before, each once. */

import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { recordExpiring } from '../src/health/store.ts'
import { type KeysUnderTest, newKey, newTenant, revoke, sql, startKeys } from './service.ts'

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

async function note(): Promise<void> {
  await service.asService.system(recordExpiring)
}

async function eventsOf({ tenantId }: Principal): Promise<string[]> {
  const text = `select c.event || ' ' || c.resource_id as event from tenancy.change as c
    where c.tenant_id = $1 and c.event ~ 'expir' order by 1`
  const rows = await service.asSuperuser.system(async (tx) => await tx.query<{ event: string }>(sql(text, tenantId)))
  return rows.map(({ event }) => event)
}

/** Moves the expiry of a key, as time does. */
async function expireIn(id: string, interval: string): Promise<void> {
  await execute(
    `update keys.api_key set expires_at = now() + $2::interval, created_at = now() - interval '100 days' where id = $1`,
    id,
    interval,
  )
}

/** The tenant has had an endpoint for a year, and was looked at an hour ago. */
async function follow({ tenantId }: Principal): Promise<void> {
  await execute(`insert into tenancy.event_reader (tenant_id, since) values ($1, now() - interval '1 year')`, tenantId)
  await execute(
    `insert into keys.expiry_scan (tenant_id, scanned_until) values ($1, now() - interval '1 hour')
     on conflict (tenant_id) do update set scanned_until = excluded.scanned_until`,
    tenantId,
  )
}

const minutesBefore = (days: number) => `${days} days -5 minutes`

test('a key that comes within a limit gets one event, and others get none', async () => {
  const admin = await newTenant(service)
  const made = await Promise.all(Array.from({ length: 8 }, async () => await newKey(service, admin)))
  const ids = made.map(({ id }) => id)
  const [in30 = '', in14 = '', in7 = '', in1 = '', expired = '', in29 = '', in31 = '', revoked = ''] = ids
  await revoke(service, admin, revoked)
  await expireIn(in30, minutesBefore(30))
  await expireIn(in14, minutesBefore(14))
  await expireIn(in7, minutesBefore(7))
  await expireIn(in1, minutesBefore(1))
  await expireIn(expired, minutesBefore(0))
  await expireIn(in29, '29 days')
  await expireIn(in31, '31 days')
  await expireIn(revoked, minutesBefore(7))
  await follow(admin)
  const expected = [...[in30, in14, in7, in1].map((id) => `key.expiring ${id}`), `key.expired ${expired}`].toSorted()
  // Housekeeping may note them first.
  const noted = async () => {
    await note()
    return await eventsOf(admin)
  }
  await expect.poll(noted, { timeout: 60_000 }).toEqual(expected)

  await execute(
    `update keys.expiry_scan set scanned_until = now() - interval '1 hour' where tenant_id = $1`,
    admin.tenantId,
  )
  await note()
  expect(await eventsOf(admin)).toEqual(expected)
})

test('a tenant without an endpoint gets no event, and a new endpoint gets only later ones', async () => {
  const [without, late] = [await newTenant(service), await newTenant(service)]
  for (const admin of [without, late]) {
    const { id } = await newKey(service, admin)
    await expireIn(id, '7 days -5 minutes')
  }
  await execute(
    `insert into tenancy.event_reader (tenant_id, since) values ($1, now() - interval '2 minutes')`,
    late.tenantId,
  )
  await note()
  expect(await eventsOf(without)).toEqual([])
  expect(await eventsOf(late)).toEqual([])
})
