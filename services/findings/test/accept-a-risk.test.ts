import { actionPlanSchema, changeSchema, findingSchema, logEntrySchema } from '@postern/contracts'
import { sqlError } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  type FindingsUnderTest,
  type Principal,
  closedFinding,
  newTenant,
  openFinding,
  path,
  startFindings,
} from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

const day = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)

async function accepted(tenant: Principal, until: string) {
  const { id } = await openFinding(service, tenant)
  const body = { to: 'risk_accepted', reason: 'Replaced in May.', approver: { name: 'Cleo' }, accepted_until: until }
  const answer = await service.call(tenant, 'POST', `${path}/${id}/status`, { body })
  return findingSchema.parse(answer.json)
}

const read = async (tenant: Principal, target: string) => (await service.call(tenant, 'GET', target)).json
const logOf = async (tenant: Principal, id: string) =>
  z.array(logEntrySchema).parse(await read(tenant, `${path}/${id}/log`))

/** Runs work with another day as today. */
async function on<T>(today: string, work: () => Promise<T>): Promise<T> {
  service.setToday(today)
  try {
    return await work()
  } finally {
    service.setToday(undefined)
  }
}

describe('a risk accepted until a day', () => {
  test('stays accepted on that day, and the first request of the next day reopens it and logs why', async () => {
    const tenant = newTenant()
    const finding = await accepted(tenant, day(0))
    expect(await read(tenant, `${path}?status=risk_accepted`)).toMatchObject([{ id: finding.id }])
    await on(day(2), async () => {
      const reader = { ...tenant, scopes: ['read:findings'] }
      const [opened] = z.array(findingSchema).parse(await read(reader, `${path}?status=open`))
      expect(opened).toMatchObject({ id: finding.id, accepted_until: null, accepted_by: null, version: 3 })
      const log = await logOf(tenant, finding.id)
      expect(log.at(-1)).toMatchObject({
        kind: 'system',
        body: `The risk was accepted until ${day(0)}.`,
        actor: { type: 'system', id: 'postern' },
        changes: [
          { field: 'status', from: 'risk_accepted', to: 'open' },
          { field: 'accepted_until', from: day(0), to: null },
          { field: 'accepted_by', from: { name: 'Cleo' }, to: null },
        ],
      })
      expect(await read(tenant, `${path}/${finding.id}/log/verify`)).toMatchObject({ is_intact: true })
      const changes = z.array(changeSchema).parse(await read(tenant, '/api/v1/changes'))
      expect(changes.flatMap(({ kind, version }) => (kind === 'finding' ? [version] : []))).toContain(3)
    })
  })

  test('is reopened once under concurrent requests, and before any write', async () => {
    const tenant = newTenant()
    const finding = await accepted(tenant, day(1))
    await on(day(3), async () => {
      const body = { to: 'cancelled', reason: 'Raised in error.' }
      const answers = await Promise.all([
        service.call(tenant, 'POST', `${path}/${finding.id}/status`, { body }),
        ...Array.from({ length: 8 }, () => service.call(tenant, 'GET', `${path}/${finding.id}`)),
      ])
      expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 9 }, () => 200))
      expect((await logOf(tenant, finding.id)).map(({ kind }) => kind)).toEqual([
        'created',
        'status_change',
        'system',
        'status_change',
      ])
    })
  })

  test('is reopened even if another one fails, and the failure is logged', async () => {
    const tenant = newTenant()
    const [stuck, finding] = [await accepted(tenant, day(0)), await accepted(tenant, day(0))]
    await service.asSuperuser.system(async (tx) => {
      const text = `alter table findings.finding add constraint stuck check (id <> '${stuck.id}' or status <> 'open') not valid`
      await tx.execute({ text, values: [] })
    })
    await on(day(2), async () => {
      for (const expected of ['open', 'open']) {
        const found = z.array(findingSchema).parse(await read(tenant, path))
        const statuses = new Map(found.map(({ id, status }) => [id, status]))
        expect([statuses.get(finding.id), statuses.get(stuck.id)]).toEqual([expected, 'risk_accepted'])
      }
      const told = service.logs.filter((line) => line.includes('acceptance_not_reopened'))
      expect(told.filter((line) => line.includes(stuck.id))).not.toEqual([])
    })
    await service.asSuperuser.system(async (tx) => {
      await tx.execute({ text: 'alter table findings.finding drop constraint stuck', values: [] })
    })
  })

  test('does not change on a request of another tenant', async () => {
    const [tenant, other] = [newTenant(), newTenant()]
    const finding = await accepted(tenant, day(1))
    const states = async () =>
      await service.asSuperuser.system(async (tx) =>
        tx.query({ text: 'select status from findings.finding where id = $1', values: [finding.id] }),
      )
    await on(day(3), async () => {
      expect(await read(other, path)).toEqual([])
      expect(await states()).toEqual([{ status: 'risk_accepted' }])
      expect(await read(tenant, path)).toMatchObject([{ status: 'open' }])
      expect(await states()).toEqual([{ status: 'open' }])
    })
  })

  test('is in remediation when it ends if a plan was approved meanwhile; the same applies to a draft that is opened', async () => {
    const tenant = newTenant()
    const approved = async (id: string) => {
      const body = { title: 'Replace it', owner: { name: 'Ada' }, due_date: day(30) }
      const made = await service.call(tenant, 'POST', `${path}/${id}/action-plans`, { body })
      const plan = actionPlanSchema.parse(made.json)
      await service.call(tenant, 'POST', `/api/v1/action-plans/${plan.id}/status`, { body: { to: 'approved' } })
    }
    const move = async (id: string, body: object) =>
      (await service.call(tenant, 'POST', `${path}/${id}/status`, { body })).json
    const draft = await openFinding(service, tenant, { status: 'draft' })
    await approved(draft.id)
    const opened = findingSchema.parse(await move(draft.id, { to: 'open' }))
    expect(opened).toMatchObject({ status: 'in_remediation', version: 3 })
    expect((await logOf(tenant, draft.id)).slice(-2).map(({ changes }) => changes)).toEqual([
      [{ field: 'status', from: 'draft', to: 'open' }],
      [{ field: 'status', from: 'open', to: 'in_remediation' }],
    ])
    const [revoked, expired, closed] = [
      await accepted(tenant, day(1)),
      await accepted(tenant, day(1)),
      await closedFinding(service, tenant),
    ]
    for (const { id } of [revoked, expired, closed]) await approved(id)
    for (const { id } of [revoked, closed]) {
      expect(await move(id, { to: 'open', reason: 'After all.' })).toMatchObject({ status: 'in_remediation' })
    }
    await on(day(3), async () => {
      expect(await read(tenant, `${path}/${expired.id}`)).toMatchObject({ status: 'in_remediation' })
      expect((await logOf(tenant, expired.id)).at(-1)?.actor.type).toBe('system')
    })
  })

  test('only the service can write log entries as the system', async () => {
    const tenant = newTenant()
    const finding = await accepted(tenant, day(1))
    const [, entry] = await logOf(tenant, finding.id)
    expect(entry?.actor.type).toBe('api_key')
    const forged = service.asService.write(service.assertionOf(tenant.tenantId), async (tx) =>
      tx.execute({
        text: `insert into findings.tracker_log (tenant_id, finding_id, entry) values ($1, $2, $3)`,
        values: [tenant.tenantId, finding.id, JSON.stringify({ ...entry, actor: { type: 'nobody' } })],
      }),
    )
    expect(sqlError(await forged.catch((error: unknown) => error)).kind).toBe('check')
  })
})
