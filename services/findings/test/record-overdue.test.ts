/** @promise Operation: A finding or action plan that becomes overdue is a change and an event of webhooks, once for each date. */

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { recordOverdue } from '../src/overdue/store.ts'
import { day, planCalls } from './plans.ts'
import { type FindingsUnderTest, type Principal, startFindings } from './service.ts'

let service: FindingsUnderTest
const { proposed } = planCalls(() => service)
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

async function execute(text: string, ...values: unknown[]): Promise<void> {
  await service.asSuperuser.system(async (tx) => {
    await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
    await tx.execute({ text, values })
  })
}

/** The tenant has had an endpoint for a year. */
async function follow({ tenantId }: Principal): Promise<void> {
  await execute(`insert into tenancy.event_reader (tenant_id, since) values ($1, now() - interval '1 year')`, tenantId)
}

async function eventsOf({ tenantId }: Principal): Promise<string[]> {
  const text = `select c.event || ' ' || c.resource_id as event from tenancy.change as c
    where c.tenant_id = $1 and c.kind = 'event' order by 1`
  const rows = await service.asSuperuser.system(
    async (tx) => await tx.query<{ event: string }>({ text, values: [tenantId] }),
  )
  return rows.map(({ event }) => event)
}

const newTenant = (): Principal => ({ tenantId: randomUUID(), scopes: ['read:findings', 'write:findings'] })
const note = async () => await service.asService.system(recordOverdue)

test('a finding or plan that became overdue yesterday is recorded once, and one that was closed or is due today is not', async () => {
  const tenant = newTenant()
  const [late, today, closed] = [await proposed(tenant), await proposed(tenant), await proposed(tenant)]
  const due = async ({ finding, plan }: typeof late, on: string) => {
    await execute('update findings.finding set target_on = $2 where id = $1', finding.id, on)
    await execute('update findings.action_plan set due_on = $2 where id = $1', plan.id, on)
  }
  await due(late, day(-1))
  await due(today, day(0))
  await due(closed, day(-1))
  await execute(`update findings.finding set status = 'cancelled' where id = $1`, closed.finding.id)
  await execute(`update findings.action_plan set status = 'rejected' where id = $1`, closed.plan.id)
  await follow(tenant)
  await note()
  const expected = [`action_plan.became_overdue ${late.plan.id}`, `finding.became_overdue ${late.finding.id}`]
  expect(await eventsOf(tenant)).toEqual(expected)
  await note()
  expect(await eventsOf(tenant)).toEqual(expected)
})

const changeSchema = z.object({ kind: z.string(), id: z.string(), version: z.int().nullable() })
const stateSchema = z.object({ version: z.int(), updated_at: z.string(), is_overdue: z.boolean() })

/** What the feed has after a position. */
async function feedOf(tenant: Principal, since: string) {
  const { json, headers } = await service.call(tenant, 'GET', `/api/v1/changes?since=${since}`)
  return { changes: z.array(changeSchema).parse(json), next: String(headers['postern-next-since']) }
}

const read = async (tenant: Principal, path: string) => {
  const { json, headers } = await service.call(tenant, 'GET', path)
  return { ...stateSchema.parse(json), etag: String(headers['etag']) }
}

test('a tenant without an endpoint gets each overdue finding and plan in its feed once, and no event', async () => {
  const tenant = newTenant()
  const [late, today] = [await proposed(tenant), await proposed(tenant)]
  await execute(
    `update findings.finding set target_on = $2, updated_at = now() - interval '1 hour' where id = $1`,
    late.finding.id,
    day(-1),
  )
  await execute('update findings.action_plan set due_on = $2 where id = $1', late.plan.id, day(-400))
  await execute('update findings.finding set target_on = $2 where id = $1', today.finding.id, day(0))
  const { next } = await feedOf(tenant, 'now')
  const path = `/api/v1/findings/${late.finding.id}`
  const before = await read(tenant, path)
  await note()
  const { changes, next: end } = await feedOf(tenant, next)
  expect(changes).toEqual([
    { kind: 'finding', id: late.finding.id, version: before.version + 1 },
    expect.objectContaining({ kind: 'action_plan', id: late.plan.id }),
  ])
  const after = await read(tenant, path)
  expect(after).toMatchObject({ version: before.version + 1, is_overdue: true })
  expect([after.updated_at > before.updated_at, after.etag === before.etag]).toEqual([true, false])
  expect(await eventsOf(tenant)).toEqual([])
  await note()
  expect((await feedOf(tenant, end)).changes).toEqual([])
})

test('a finding or plan that is changed while it is overdue is not recorded again', async () => {
  const tenant = newTenant()
  const { finding } = await proposed(tenant)
  const path = `/api/v1/findings/${finding.id}`
  const { etag } = await read(tenant, path)
  const headers = { 'if-match': etag, 'content-type': 'application/merge-patch+json' }
  const changed = await service.call(tenant, 'PATCH', path, { body: { target_date: day(-3) }, headers })
  expect(changed.status).toBe(200)
  const before = await read(tenant, path)
  expect(before.is_overdue).toBe(true)
  await note()
  expect(await read(tenant, path)).toEqual(before)
})

/** Makes more findings like one. */
async function copy(id: string, times: number, targetOn: string): Promise<void> {
  const text = `select string_agg(quote_ident(attname), ', ' order by attnum) as names from pg_attribute
    where attrelid = 'findings.finding'::regclass and attnum > 0 and not attisdropped and attgenerated = ''`
  const [row] = await service.asSuperuser.system(async (tx) => await tx.query<{ names: string }>({ text, values: [] }))
  const own = new Map([
    ['id', 'gen_random_uuid()'],
    ['number', '900000 + n'],
    ['target_on', '$2::date'],
  ])
  const names = (row?.names ?? '').split(', ')
  const values = names.map((name) => own.get(name) ?? `f.${name}`)
  const from = `from findings.finding as f, generate_series(1, ${times}) as n where f.id = $1`
  await execute(`insert into findings.finding (${names.join(', ')}) select ${values.join(', ')} ${from}`, id, targetOn)
}

test('one call records at most a thousand, and the next call the rest', async () => {
  const tenant = newTenant()
  const { finding } = await proposed(tenant)
  await copy(finding.id, 1005, day(-2))
  const waiting = async () => {
    const text = `select count(*)::integer as waiting from findings.finding where tenant_id = $1 and overdue_on is null and target_on = $2`
    const rows = await service.asSuperuser.system(
      async (tx) => await tx.query<{ waiting: number }>({ text, values: [tenant.tenantId, day(-2)] }),
    )
    return rows[0]?.waiting
  }
  expect(await waiting()).toBe(1005)
  await note()
  expect(await waiting()).toBe(5)
  await note()
  expect(await waiting()).toBe(0)
})
