/** @promise Operation: A finding or action plan that becomes overdue is an event of webhooks, once for each date. */

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { noteOverdue } from '../src/overdue/store.ts'
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

/** The tenant has had an endpoint for a year, and was looked at yesterday. */
async function follow({ tenantId }: Principal): Promise<void> {
  await execute(`insert into tenancy.event_reader (tenant_id, since) values ($1, now() - interval '1 year')`, tenantId)
  await execute('insert into findings.overdue_scan (tenant_id, scanned_on) values ($1, $2)', tenantId, day(-1))
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
const note = async () => await service.asService.system(noteOverdue)

test('what became overdue yesterday is noted once, and what was closed or is due today is not', async () => {
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
  await execute('update findings.overdue_scan set scanned_on = $2 where tenant_id = $1', tenant.tenantId, day(-2))
  await note()
  expect(await eventsOf(tenant)).toEqual(expected)
})

test('a tenant without an endpoint notes nothing', async () => {
  const tenant = newTenant()
  const { finding } = await proposed(tenant)
  await execute('update findings.finding set target_on = $2 where id = $1', finding.id, day(-1))
  await note()
  expect(await eventsOf(tenant)).toEqual([])
})
