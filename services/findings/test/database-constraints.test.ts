import { findingSchema, findingStatuses } from '@postern/contracts'
import { mintAssertion, parseKeyRing } from '@postern/signed-context'
import { type Statement, sqlError } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  type FindingsUnderTest,
  appendToLog,
  closedFinding,
  completeFields,
  findingBody,
  newTenant,
  path,
  startFindings,
} from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

async function aFinding(tenant = newTenant()) {
  const body = { ...findingBody({ external_id: 'X' }), ...completeFields, status: 'open' }
  const answer = await service.call(tenant, 'POST', path, { body })
  return { tenant, finding: findingSchema.parse(answer.json) }
}

function insert(tenantId: string, number: number, repeatOf: string | null = null, status = 'draft'): Statement {
  return {
    text: `insert into findings.finding (
        tenant_id, year, number, title, condition, severity, type, status, identified_on, target_on, repeat_of_id,
        criteria, cause, consequence, owner, created_by_type, created_by_id, created_by_label)
      values ($1, 2026, $2, 't', 'c', 'low', 'observation', $4, '2026-01-01', '2026-02-01', $3, 'c', 'c', 'c', '{}',
        'api_key', 'k', 'l')`,
    values: [tenantId, number, repeatOf, status],
  }
}

function insertPlan(tenantId: string, findingId: string, status: string): Statement {
  return {
    text: `insert into findings.action_plan (
        tenant_id, finding_id, year, number, title, owner, due_on, original_due_on, status, percent_complete,
        completed_on, created_by_type, created_by_id, created_by_label)
      values ($1, $2, 2026, 1, 't', '{"name":"Ada"}', '2030-01-01', '2030-01-01', $3,
        case when $3 = 'implemented' then 100 else 0 end, case when $3 = 'implemented' then current_date end,
        'api_key', 'k', 'l')`,
    values: [tenantId, findingId, status],
  }
}

async function failureOf(work: Promise<unknown>) {
  return await work.then(
    () => undefined,
    (error: unknown) => sqlError(error),
  )
}

const asTenant = async (tenantId: string, statement: Statement) =>
  await service.asService.write(service.assertionOf(tenantId), async (tx) => tx.execute(statement))

/** A tenant with a row in every table of the schema. */
async function filled() {
  const { tenant, finding } = await aFinding()
  const post = async (target: string, body: object) => {
    const answer = await service.call(tenant, 'POST', target, { body })
    expect(answer.status, answer.text).toBe(201)
    return z.looseObject({ id: z.string() }).parse(answer.json).id
  }
  const recommended = await post(`${path}/${finding.id}/recommendations`, { text: 'x' })
  const owner = { name: 'Ada' }
  const plan = { title: 'x', owner, due_date: '2030-01-01', recommendation_ids: [recommended] }
  const planId = await post(`${path}/${finding.id}/action-plans`, plan)
  const extension = { to: '2031-01-01', reason: 'x', approved_by: owner }
  await post(`/api/v1/action-plans/${planId}/extensions`, extension)
  // Read once, so that entries have their positions.
  await service.call(tenant, 'GET', '/api/v1/remediation-log')
  await asTenant(tenant.tenantId, {
    text: `insert into findings.log_checkpoint (tenant_id, day, position, root, jws)
      select tenant_id, recorded_at::date, position, root, 'x' from findings.tracker_log where position = 1`,
    values: [],
  })
  return tenant
}

describe('PostgreSQL isolates tenants from each other', () => {
  const tables = [
    'finding',
    'finding_entity',
    'reference_counter',
    'free_number',
    'recommendation',
    'action_plan',
    'action_plan_counter',
    'action_plan_recommendation',
    'action_plan_extension',
    'tracker_log',
    'log_checkpoint',
    'log_end',
  ]

  test('this file covers every table of the schema', async () => {
    const there = await service.asSuperuser.system(async (tx) =>
      tx.query<{ name: string }>({
        text: "select relname as name from pg_class where relnamespace = 'findings'::regnamespace and relkind in ('r', 'p')",
        values: [],
      }),
    )
    // Only a definer reaches the tables of the schedule; test/security/database-roles.test.ts tries them.
    const elsewhere = new Set(['idempotency_record', 'overdue_notice'])
    expect(
      there
        .map(({ name }) => name)
        .filter((name) => !elsewhere.has(name))
        .toSorted(),
    ).toEqual(tables.toSorted())
  })

  test.each(tables)(
    'findings.%s: without an assertion every statement fails; with one, another tenant’s rows are not there',
    async (table) => {
      const { tenantId } = await filled()
      const rows = { text: `select from findings.${table}`, values: [] }
      expect(await failureOf(service.asService.system(async (tx) => tx.query(rows)))).toMatchObject({
        kind: 'assertion',
      })
      const { assertion } = service.assertionOf(tenantId)
      const forged = { assertion: assertion.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')) }
      const expired = { assertion: mintAssertion(parseKeyRing(service.assertionKeys), tenantId, Date.now() - 600_000) }
      for (const refused of [forged, expired, { assertion: '' }]) {
        expect(await failureOf(service.asService.read(refused, async (tx) => tx.query(rows)))).toMatchObject({
          kind: 'assertion',
        })
      }
      const read = async (id: string) =>
        await service.asService.read(service.assertionOf(id), async (tx) => tx.query(rows))
      expect(await read(newTenant().tenantId)).toEqual([])
      expect(await read(tenantId)).not.toEqual([])
    },
  )

  test.each([
    "update findings.finding set title = 'x', version = version + 1",
    "update findings.recommendation set text = 'x', version = version + 1",
    "update findings.action_plan set title = 'x', version = version + 1",
    'update findings.reference_counter set last_number = 7',
    'update findings.action_plan_counter set last_number = 7',
    'delete from findings.action_plan_recommendation',
  ])('changes rows of the tenant but not of another one: %s', async (text) => {
    const tenant = await filled()
    expect(await asTenant(newTenant().tenantId, { text, values: [] })).toBe(0)
    expect(await asTenant(tenant.tenantId, { text, values: [] })).toBe(1)
  })

  test('a finding cannot be written into another tenant', async () => {
    const [mine, theirs] = [newTenant().tenantId, newTenant().tenantId]
    expect(await failureOf(asTenant(mine, insert(theirs, 1)))).toMatchObject({ kind: 'rls' })
    expect(await asTenant(mine, insert(mine, 1))).toBe(1)
  })

  test("another tenant's finding cannot be repeated, with the same error as for a missing one", async () => {
    const tenant = newTenant()
    const finding = await closedFinding(service, tenant)
    const mine = newTenant().tenantId
    const unknown = await failureOf(asTenant(mine, insert(mine, 1, crypto.randomUUID())))
    expect(unknown).toMatchObject({ kind: 'foreign-key', constraint: 'finding_repeat_of_fk' })
    expect(await failureOf(asTenant(mine, insert(mine, 1, finding.id)))).toEqual(unknown)
    expect(await asTenant(tenant.tenantId, insert(tenant.tenantId, 100, finding.id))).toBe(1)
  })

  test.each([
    'delete from findings.finding',
    'delete from findings.recommendation',
    'delete from findings.action_plan',
    'update findings.finding_entity set position = 2',
    'update findings.action_plan_extension set reason = $$x$$',
    'delete from findings.action_plan_extension',
    'update findings.tracker_log set entry = $${}$$',
    'delete from findings.tracker_log',
    'truncate findings.tracker_log',
    'update findings.log_checkpoint set jws = $$x$$',
    'delete from findings.log_checkpoint',
    'delete from findings.log_end',
    'truncate findings.log_end',
    'truncate findings.finding cascade',
    'alter table findings.finding disable row level security',
    'alter table findings.tracker_log disable trigger all',
  ])('the service cannot: %s', async (text) => {
    const { tenant } = await aFinding()
    expect(await failureOf(asTenant(tenant.tenantId, { text, values: [] }))).toMatchObject({ kind: 'rls' })
  })
})

describe('PostgreSQL enforces the rules of findings', () => {
  test('an open finding without an entity cannot be committed', async () => {
    const { tenantId } = newTenant()
    expect(await failureOf(asTenant(tenantId, insert(tenantId, 1, null, 'open')))).toMatchObject({
      kind: 'check',
      constraint: 'finding_entity_before_open',
    })
    expect(await asTenant(tenantId, insert(tenantId, 1, null, 'draft'))).toBe(1)
  })

  test.each(['in_remediation', 'closed', 'risk_accepted', 'cancelled'])(
    'a finding cannot begin as %s',
    async (status) => {
      const { tenantId } = newTenant()
      expect(await failureOf(asTenant(tenantId, insert(tenantId, 1, null, status)))).toMatchObject({
        constraint: 'finding_status_at_creation',
      })
    },
  )

  test('the status changes only along the state machine', async () => {
    const { finding, tenant } = await aFinding()
    await service.asSuperuser.system(async (tx) => {
      await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
      await tx.execute(insertPlan(tenant.tenantId, finding.id, 'implemented'))
    })
    const set = async (from: string, to: string) =>
      await failureOf(
        service.asSuperuser.system(async (tx) => {
          const place = `update findings.finding set status = $2, version = version + 1,
            closed_on = case when $2 = 'closed' then current_date end,
            validated_by = case when $2 = 'closed' then '{"name":"Bo"}'::jsonb end,
            accepted_until = case when $2 = 'risk_accepted' then current_date + 1 end,
            accepted_by = case when $2 = 'risk_accepted' then '{"name":"Bo"}'::jsonb end,
            reopened_count = reopened_count + (status = 'closed' and $2 = 'open')::integer where id = $1`
          await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
          await tx.execute({ text: place, values: [finding.id, from] })
          await tx.execute({ text: 'set local session_replication_role = origin', values: [] })
          await tx.execute({ text: place, values: [finding.id, to] })
          const changes = [{ field: 'status', from, to }]
          await appendToLog(tx, tenant.tenantId, finding.id, { changes, body: 'Why.', evidence_refs: [{}] })
        }),
      )
    const moves: string[] = []
    for (const from of findingStatuses) {
      for (const to of findingStatuses.filter((status) => status !== from)) {
        const failure = await set(from, to)
        if (failure === undefined) moves.push(`${from} to ${to}`)
        else expect(failure).toMatchObject({ constraint: 'finding_status_transition' })
      }
    }
    expect(moves.toSorted()).toEqual(
      [
        'draft to open',
        'draft to cancelled',
        'open to in_remediation',
        'open to risk_accepted',
        'open to cancelled',
        'in_remediation to risk_accepted',
        'in_remediation to pending_validation',
        'in_remediation to cancelled',
        'pending_validation to closed',
        'pending_validation to in_remediation',
        'risk_accepted to open',
        'closed to open',
      ].toSorted(),
    )
  })

  test.each([
    ['number = number + 1, version = version + 1', 'finding_identity_fixed'],
    ["created_by_label = 'x', version = version + 1", 'finding_identity_fixed'],
    ["created_at = created_at - interval '1 day', version = version + 1", 'finding_identity_fixed'],
    ["title = 'x'", 'finding_version_counts'],
    ["title = '', version = version + 1", 'finding_title_length'],
    ['owner = null, version = version + 1', 'finding_owner_before_open'],
    ["cause = ' ', version = version + 1", 'finding_cause_before_open'],
    ['identified_on = identified_on - 1, version = version + 1', 'finding_fixed_after_draft'],
    ['repeat_of_id = id, version = version + 1', 'finding_fixed_after_draft'],
    ['reopened_count = 1, version = version + 1', 'finding_reopened_count_counts'],
    ["status = 'in_remediation', version = version + 1", 'finding_remediation_has_plan'],
    ["status = 'risk_accepted', version = version + 1", 'finding_acceptance_when_accepted'],
    [`validated_by = '{"name":"Bo"}', version = version + 1`, 'finding_validation_when_closed'],
    [
      `status = 'risk_accepted', accepted_until = current_date + 800, accepted_by = '{"name":"Bo"}', version = version + 1`,
      'finding_accepted_until_range',
    ],
    ['closed_on = current_date, version = version + 1', 'finding_closed_on_when_closed'],
    [`management_response = '{"agreement":"disagree"}', version = version + 1`, 'finding_disagreement_has_reasons'],
  ])('no one can set %s', async (change, constraint) => {
    const { finding } = await aFinding()
    const statement = { text: `update findings.finding set ${change} where id = $1`, values: [finding.id] }
    expect(await failureOf(service.asSuperuser.system(async (tx) => tx.execute(statement)))).toMatchObject({
      constraint,
    })
  })
})

describe('PostgreSQL protects the tracker log', () => {
  test.each([
    "update findings.tracker_log set entry = '{}' where finding_id = $1",
    'delete from findings.tracker_log where finding_id = $1',
  ])('not even a superuser can: %s', async (text) => {
    const { finding } = await aFinding()
    const failure = await failureOf(
      service.asSuperuser.system(async (tx) => tx.execute({ text, values: [finding.id] })),
    )
    expect(failure).toMatchObject({ sqlState: '55000' })
  })

  test.each([
    ['a gap', { seq: 3 }],
    ['a place that is taken', { seq: 1 }],
    ['another position', { position: 7 }],
    ['another hash before it', { prev_hash: 'f'.repeat(64) }],
    ['another time', { recorded_at: '2020-01-01T00:00:00.000Z' }],
    ['a time to come', { occurred_at: '2999-01-01T00:00:00.000Z' }],
    ['a correction of what is not there', { corrects_seq: 2 }],
    ['a hash of its own', { hash: 'f'.repeat(64) }],
  ])('an entry with %s is rejected', async (_what, wrong) => {
    const { tenant, finding } = await aFinding()
    // Read once, so that the first entry has its position.
    await service.call(tenant, 'GET', '/api/v1/remediation-log')
    const append = async (with_: object) =>
      await service.asService.write(service.assertionOf(tenant.tenantId), async (tx) => {
        const [last] = await tx.query<{ hash: string; now: Date }>({
          text: 'select hash, now()::timestamptz(3) as now from findings.tracker_log',
          values: [],
        })
        const now = last?.now.toISOString()
        const entry = {
          seq: 2,
          finding_id: finding.id,
          kind: 'note',
          evidence_refs: [],
          occurred_at: now,
          recorded_at: now,
          actor: { type: 'api_key', id: 'k', label: 'l' },
          prev_hash: last?.hash,
          ...with_,
        }
        return await tx.execute({
          text: 'insert into findings.tracker_log (tenant_id, finding_id, entry) values (tenancy.tenant_id(), $1, $2)',
          values: [finding.id, JSON.stringify(entry)],
        })
      })
    expect(await failureOf(append(wrong))).toMatchObject({ constraint: 'tracker_log_chain' })
    expect(await append({})).toBe(1)
  })

  test("an entry cannot be about another tenant's finding, with the same error as for a missing one", async () => {
    const { finding } = await aFinding()
    const mine = newTenant().tenantId
    const append = async (findingId: string) =>
      await failureOf(
        service.asService.write(service.assertionOf(mine), async (tx) => {
          const [clock] = await tx.query<{ now: Date }>({ text: 'select now()::timestamptz(3) as now', values: [] })
          const now = clock?.now.toISOString()
          const actor = { type: 'api_key', id: 'k', label: 'l' }
          const about = { seq: 1, finding_id: findingId, kind: 'note', evidence_refs: [], actor }
          return await tx.execute({
            text: 'insert into findings.tracker_log (tenant_id, finding_id, entry) values (tenancy.tenant_id(), $1, $2)',
            values: [findingId, JSON.stringify({ ...about, occurred_at: now, recorded_at: now, prev_hash: null })],
          })
        }),
      )
    const unknown = await append(crypto.randomUUID())
    expect(unknown).toMatchObject({ kind: 'foreign-key', constraint: 'tracker_log_finding_fk' })
    expect(await append(finding.id)).toEqual(unknown)
  })
})

describe('the indexes', () => {
  test.each([
    ['created_at desc, id desc', 'finding_by_created_at'],
    ['created_at, id', 'finding_by_created_at'],
    ['updated_at desc, id desc', 'finding_by_updated_at'],
    ['target_on, id', 'finding_by_target_on'],
    ['severity_rank desc, id desc', 'finding_by_severity'],
  ])('a page in the order %s is read from %s without sorting, under row security', async (order, index) => {
    const { tenant } = await aFinding()
    const [first = ''] = order.split(/[ ,]/)
    const sign = order.includes('desc') ? '<' : '>'
    const plan = await service.asService.write(service.assertionOf(tenant.tenantId), async (tx) => {
      // A table of one row is always scanned, unless that is forbidden: what is asked is whether the index can serve.
      await tx.execute({ text: 'set local enable_seqscan = off', values: [] })
      await tx.execute({ text: 'set local enable_bitmapscan = off', values: [] })
      return await tx.query<{ 'QUERY PLAN': string }>({
        text: `explain (costs off) select id from findings.finding
          where (${first}, id) ${sign} ((select ${first} from findings.finding limit 1), '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'::uuid)
          order by ${order} limit 10`,
        values: [],
      })
    })
    const text = plan.map((row) => row['QUERY PLAN']).join('\n')
    expect(text).toContain(index)
    expect(text).not.toContain('Sort')
    expect(text).toMatch(new RegExp(`Index Cond: .*ROW\\(${first}, id\\)`))
  })
})
