import { findingSchema, findingStatuses } from '@postern/contracts'
import { type Statement, sqlError } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FindingsUnderTest, completeFields, findingBody, newTenant, path, startFindings } from './service.ts'

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

async function failureOf(work: Promise<unknown>) {
  return await work.then(
    () => undefined,
    (error: unknown) => sqlError(error),
  )
}

const asTenant = async (tenantId: string, statement: Statement) =>
  await service.asService.write(service.assertionOf(tenantId), async (tx) => tx.execute(statement))

describe('PostgreSQL keeps tenants apart, whatever the service asks', () => {
  test.each(['finding', 'finding_entity', 'reference_counter'])(
    'findings.%s: without an assertion every statement fails; with one, another tenant’s rows are not there',
    async (table) => {
      const { tenant } = await aFinding()
      const count = { text: `select from findings.${table}`, values: [] }
      expect(await failureOf(service.asService.system(async (tx) => tx.query(count)))).toMatchObject({
        kind: 'assertion',
      })
      const forged = {
        assertion: service.assertionOf(tenant.tenantId).assertion.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')),
      }
      expect(await failureOf(service.asService.read(forged, async (tx) => tx.query(count)))).toMatchObject({
        kind: 'assertion',
      })
      expect(
        await service.asService.read(service.assertionOf(newTenant().tenantId), async (tx) => tx.query(count)),
      ).toEqual([])
      expect(
        await service.asService.read(service.assertionOf(tenant.tenantId), async (tx) => tx.query(count)),
      ).toHaveLength(1)
    },
  )

  test('a finding cannot be written into another tenant', async () => {
    const [mine, theirs] = [newTenant().tenantId, newTenant().tenantId]
    expect(await failureOf(asTenant(mine, insert(theirs, 1)))).toMatchObject({ kind: 'rls' })
    expect(await asTenant(mine, insert(mine, 1))).toBe(1)
  })

  test("another tenant's finding cannot be repeated: it fails just as one that does not exist", async () => {
    const { tenant, finding } = await aFinding()
    const mine = newTenant().tenantId
    const unknown = await failureOf(asTenant(mine, insert(mine, 1, crypto.randomUUID())))
    expect(unknown).toMatchObject({ kind: 'foreign-key', constraint: 'finding_repeat_of_fk' })
    expect(await failureOf(asTenant(mine, insert(mine, 1, finding.id)))).toEqual(unknown)
    expect(await asTenant(tenant.tenantId, insert(tenant.tenantId, 100, finding.id))).toBe(1)
  })

  test('the service can neither change nor delete a finding', async () => {
    const { tenant } = await aFinding()
    for (const text of [
      "update findings.finding set title = 'x', version = version + 1",
      'delete from findings.finding',
      'delete from findings.finding_entity',
      'truncate findings.finding cascade',
      'alter table findings.finding disable row level security',
    ]) {
      expect(await failureOf(asTenant(tenant.tenantId, { text, values: [] }))).toMatchObject({ kind: 'rls' })
    }
  })
})

describe('PostgreSQL has the last word on what a finding is', () => {
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

  test('the status moves along the state machine alone', async () => {
    const { finding } = await aFinding()
    const set = async (from: string, to: string) =>
      await failureOf(
        service.asSuperuser.system(async (tx) => {
          const place = `update findings.finding set status = $2, version = version + 1,
            closed_on = case when $2 = 'closed' then current_date end where id = $1`
          await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
          await tx.execute({ text: place, values: [finding.id, from] })
          await tx.execute({ text: 'set local session_replication_role = origin', values: [] })
          await tx.execute({ text: place, values: [finding.id, to] })
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
    ['identified_on = updated_at::date + 1, version = version + 1', 'finding_identified_not_in_future'],
    ['closed_on = current_date, version = version + 1', 'finding_closed_on_when_closed'],
    ['repeat_of_id = id, version = version + 1', 'finding_repeats_another'],
    [`management_response = '{"agreement":"disagree"}', version = version + 1`, 'finding_disagreement_has_reasons'],
  ])('no one can set %s', async (change, constraint) => {
    const { finding } = await aFinding()
    const statement = { text: `update findings.finding set ${change} where id = $1`, values: [finding.id] }
    expect(await failureOf(service.asSuperuser.system(async (tx) => tx.execute(statement)))).toMatchObject({
      constraint,
    })
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
