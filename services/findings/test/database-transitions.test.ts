import { randomBytes } from 'node:crypto'
import { actionPlanSchema, recommendationSchema } from '@postern/contracts'
import { type Tx, sqlError } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type FindingsUnderTest, appendToLog, newTenant, openFinding, path, startFindings } from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

const evidence = { evidence_id: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be0e5', sha256: 'a'.repeat(64), size: 10 }

/** Other fields of each status, so that only the move itself can fail. */
const besides = {
  finding: `closed_on = case when $2 = 'closed' then current_date end,
    validated_by = case when $2 = 'closed' then '{"name":"Bo"}'::jsonb end,
    accepted_until = case when $2 = 'risk_accepted' then current_date + 1 end,
    accepted_by = case when $2 = 'risk_accepted' then '{"name":"Bo"}'::jsonb end,
    reopened_count = reopened_count + (status = 'closed' and $2 = 'open')::integer`,
  action_plan: `percent_complete = case when $2 in ('implemented', 'verified') then 100 else 0 end,
    completed_on = case when $2 in ('implemented', 'verified') then current_date end,
    verified_on = case when $2 = 'verified' then current_date end,
    verified_by = case when $2 = 'verified' then '{"name":"Bo"}'::jsonb end`,
  recommendation: `response = case $2 when 'submitted' then 'pending' when 'rejected' then 'rejected' else 'accepted' end,
    response_rationale = 'Too dear.'`,
} as const
type Table = keyof typeof besides

/** Creates a finding with a recommendation and a plan, and functions that bypass the service. */
async function world(severity = 'low') {
  const tenant = newTenant()
  const finding = await openFinding(service, tenant, { severity })
  const post = async (target: string, body: object) =>
    (await service.call(tenant, 'POST', `${path}/${finding.id}/${target}`, { body })).json
  const recommendation = recommendationSchema.parse(await post('recommendations', { text: 'x' }))
  const plan = actionPlanSchema.parse(
    await post('action-plans', {
      title: 'x',
      owner: { name: 'Ada' },
      due_date: '2031-01-01',
      recommendation_ids: [recommendation.id],
    }),
  )
  const ids = { finding: finding.id, action_plan: plan.id, recommendation: recommendation.id }
  const set = async (tx: Tx, table: Table, status: string, more = '') =>
    await tx.execute({
      text: `update findings.${table} set status = $2, ${besides[table]} ${more}, version = version + 1 where id = $1`,
      values: [ids[table], status],
    })
  return {
    tenant,
    ids,
    /** Puts a status in place, whatever the rules say. */
    place: async (table: Table, status: string, more?: string) =>
      await service.asSuperuser.system(async (tx) => {
        await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
        await set(tx, table, status, more)
      }),
    /** Moves a status as the service's role, with an entry of the log where one is given; the constraint that it breaks. */
    move: async (table: Table, [from, to]: readonly [string, string], entry?: object) =>
      await service.asService
        .write(service.assertionOf(tenant.tenantId), async (tx) => {
          expect(await set(tx, table, to)).toBe(1)
          const about = table === 'finding' ? {} : { [`${table}_id`]: ids[table] }
          const changes = [{ field: 'status', from, to }]
          if (entry !== undefined) await appendToLog(tx, tenant.tenantId, finding.id, { ...about, changes, ...entry })
        })
        .then(() => undefined)
        .catch((error: unknown) => sqlError(error).constraint ?? error),
  }
}

describe('past the service, a status does not move', () => {
  test.each([
    ['finding', 'open', 'in_remediation'],
    ['action_plan', 'proposed', 'approved'],
    ['recommendation', 'submitted', 'accepted'],
  ] as const)('without its entry in the log, in the same transaction: %s', async (table, from, to) => {
    const { ids, place, move } = await world()
    if (table === 'action_plan') await place('finding', 'in_remediation')
    expect(await move(table, [from, to])).toBe(`${table}_move_logged`)
    expect(await move(table, [from, to], { changes: [{ field: 'status', from, to: 'cancelled' }] })).toBe(
      `${table}_move_logged`,
    )
    if (table !== 'finding') {
      const other = { [`${table}_id`]: null }
      expect(await move(table, [from, to], other)).toBe(`${table}_move_logged`)
    }
    expect(await move(table, [from, to], {})).toBeUndefined()
    // Evidence from before does not count again.
    await place(table, from)
    expect(await move(table, [from, to]), JSON.stringify(ids)).toBe(`${table}_move_logged`)
  })

  test.each([
    ['finding', 'open', 'cancelled'],
    ['finding', 'open', 'risk_accepted'],
    ['finding', 'in_remediation', 'cancelled'],
    ['finding', 'pending_validation', 'closed'],
    ['finding', 'pending_validation', 'in_remediation'],
    ['finding', 'risk_accepted', 'open'],
    ['finding', 'closed', 'open'],
    ['action_plan', 'proposed', 'rejected'],
    ['action_plan', 'approved', 'cancelled'],
    ['action_plan', 'in_progress', 'implemented'],
    ['action_plan', 'in_progress', 'blocked'],
    ['action_plan', 'blocked', 'in_progress'],
    ['action_plan', 'implemented', 'in_progress'],
  ] as const)('without a reason or a note where it needs one: %s from %s to %s', async (table, from, to) => {
    const { place, move } = await world()
    // So that validation is not held up by it.
    if (table === 'finding') await place('action_plan', 'implemented')
    await place(table, from)
    for (const entry of [{}, { body: null }, { body: '  ' }]) {
      expect(await move(table, [from, to], entry)).toBe(`${table}_move_has_reason`)
    }
    expect(await move(table, [from, to], { body: 'Why.' })).toBeUndefined()
  })

  test('to closed without evidence if the finding is critical or high', async () => {
    for (const severity of ['critical', 'high']) {
      const { place, move } = await world(severity)
      await place('action_plan', 'implemented')
      await place('finding', 'pending_validation')
      const closing = ['pending_validation', 'closed'] as const
      expect(await move('finding', closing, { body: 'Seen.' })).toBe('finding_closed_with_evidence')
      expect(await move('finding', closing, { body: 'Seen.', evidence_refs: [evidence] })).toBeUndefined()
      await place('finding', 'pending_validation')
      expect(await move('finding', closing, { body: 'Seen.' })).toBeUndefined()
      // Evidence of one remedy does not count for another.
      for (const way of [['closed', 'open'] as const, ['pending_validation', 'in_remediation'] as const]) {
        await place('finding', way[0])
        expect(await move('finding', way, { body: 'Not so.', evidence_refs: [evidence] })).toBeUndefined()
        await place('finding', 'pending_validation')
        expect(await move('finding', closing, { body: 'Seen.' })).toBe('finding_closed_with_evidence')
      }
    }
  })

  test('and a closed finding does not become critical or high without evidence', async () => {
    const { tenant, ids, place } = await world('medium')
    await place('finding', 'closed')
    const raise = async (severity: string, proof?: object) =>
      await service.asService
        .write(service.assertionOf(tenant.tenantId), async (tx) => {
          if (proof !== undefined) await appendToLog(tx, tenant.tenantId, ids.finding, proof)
          const text = 'update findings.finding set severity = $2, version = version + 1 where id = $1'
          await tx.execute({ text, values: [ids.finding, severity] })
        })
        .then(() => undefined)
        .catch((error: unknown) => sqlError(error).constraint ?? error)
    for (const severity of ['critical', 'high']) expect(await raise(severity)).toBe('finding_closed_with_evidence')
    expect(await raise('low')).toBeUndefined()
    expect(await raise('high', { kind: 'evidence_linked', body: 'Seen.', evidence_refs: [evidence] })).toBeUndefined()
  })

  test('and the search for evidence does not read other log entries of the finding', async () => {
    const { tenant, ids } = await world('high')
    const { tenantId } = tenant
    const say = async (tx: Tx, given: object) => await appendToLog(tx, tenantId, ids.finding, given)
    const pages = async () =>
      await service.asService.read(service.assertionOf(tenantId), async (tx) => {
        const text = `explain (analyze, buffers, format json) select findings.has_fresh_evidence('${tenantId}', '${ids.finding}')`
        // The first time it reads the catalog too.
        const explain = async () => tx.query<{ 'QUERY PLAN': unknown }>({ text, values: [] })
        const [, [row]] = await Promise.all([explain(), explain()])
        const plan = z.object({ Plan: z.object({ 'Shared Hit Blocks': z.int(), 'Shared Read Blocks': z.int() }) })
        const [{ Plan: used }] = z.tuple([plan]).parse(row?.['QUERY PLAN'])
        return used['Shared Hit Blocks'] + used['Shared Read Blocks']
      })
    await service.asService.write(service.assertionOf(tenantId), async (tx) =>
      say(tx, { kind: 'evidence_linked', evidence_refs: [evidence] }),
    )
    const before = await pages()
    // PostgreSQL stores such texts outside of the table, so reading them costs pages.
    await service.asService.write(service.assertionOf(tenantId), async (tx) => {
      for (let note = 0; note < 50; note += 1)
        await say(tx, { kind: 'note', body: randomBytes(10_000).toString('hex') })
      await say(tx, { action_plan_id: ids.action_plan, body: 'Of a plan.' })
    })
    const after = await pages()
    expect(after - before).toBeLessThan(150)
  })

  test('to open, nor a plan to approved, if the finding would stay open with an approved plan', async () => {
    const { place, move } = await world()
    expect(await move('action_plan', ['proposed', 'approved'], {})).toBe('finding_in_remediation_with_plan')
    for (const under of ['approved', 'in_progress', 'blocked']) {
      await place('action_plan', under)
      await place('finding', 'draft')
      expect(await move('finding', ['draft', 'open'], {})).toBe('finding_in_remediation_with_plan')
    }
    await place('action_plan', 'proposed')
    expect(await move('finding', ['draft', 'open'], {})).toBeUndefined()
  })

  test('of a plan to verified without its own evidence if the finding is critical or high', async () => {
    const { place, move } = await world('critical')
    await place('action_plan', 'implemented')
    const verifying = ['implemented', 'verified'] as const
    expect(await move('action_plan', verifying, {})).toBe('action_plan_verified_with_evidence')
    expect(await move('action_plan', verifying, { evidence_refs: [evidence] })).toBeUndefined()
    await place('action_plan', 'implemented')
    expect(await move('action_plan', verifying, {})).toBe('action_plan_verified_with_evidence')
    const harmless = await world('medium')
    await harmless.place('action_plan', 'implemented')
    expect(await harmless.move('action_plan', verifying, {})).toBeUndefined()
  })

  test.each([
    ['finding', ['pending_validation', 'closed'], 'finding_validator_is_another'],
    ['action_plan', ['implemented', 'verified'], 'action_plan_verifier_is_another'],
  ] as const)('of a %s where nobody sees that who validates is not the owner', async (table, way, constraint) => {
    const { place, move } = await world()
    await place('action_plan', 'implemented')
    const entry = { body: 'Seen.' }
    for (const owner of ['{"email":"ada@x.example"}', '{"person_id":"1"}']) {
      await place(table, way[0], `, owner = '${owner}'`)
      expect(await move(table, way, entry)).toBe(constraint)
    }
    // "Bo" validates.
    await place(table, way[0], `, owner = '{"email":"ada@x.example","name":" bo "}'`)
    expect(await move(table, way, entry)).toBe(constraint)
    await place(table, way[0], `, owner = '{"email":"ada@x.example","name":"Ada"}'`)
    expect(await move(table, way, entry)).toBeUndefined()
  })

  test('to closed while a plan is unfinished', async () => {
    const { place, move } = await world()
    await place('finding', 'pending_validation')
    for (const status of ['proposed', 'approved', 'in_progress', 'blocked']) {
      await place('action_plan', status)
      const closing = ['pending_validation', 'closed'] as const
      expect(await move('finding', closing, { body: 'Seen.' })).toBe('finding_plans_done_before_closing')
    }
    await place('action_plan', 'implemented')
    expect(await move('finding', ['pending_validation', 'closed'], { body: 'Seen.' })).toBeUndefined()
  })

  test('of a recommendation away from the status of its plans', async () => {
    const { place, move } = await world()
    await place('recommendation', 'accepted')
    await place('action_plan', 'in_progress')
    expect(await move('recommendation', ['accepted', 'implemented'], {})).toBe('recommendation_follows_plans')
    await place('action_plan', 'implemented')
    expect(await move('recommendation', ['accepted', 'implemented'], {})).toBeUndefined()
    expect(await move('recommendation', ['implemented', 'accepted'], {})).toBe('recommendation_follows_plans')
    expect(await move('recommendation', ['implemented', 'verified'], {})).toBe('recommendation_follows_plans')
    await place('action_plan', 'verified')
    expect(await move('recommendation', ['implemented', 'verified'], {})).toBeUndefined()
  })

  test('if the finding is cancelled', async () => {
    const { place, move } = await world()
    await place('finding', 'cancelled')
    expect(await move('action_plan', ['proposed', 'approved'], {})).toBe('finding_cancelled_is_final')
    expect(await move('recommendation', ['submitted', 'accepted'], {})).toBe('finding_cancelled_is_final')
    await place('finding', 'in_remediation')
    expect(await move('action_plan', ['proposed', 'approved'], {})).toBeUndefined()
    expect(await move('recommendation', ['submitted', 'accepted'], {})).toBeUndefined()
  })
})

test('the database rejects a blank condition or reason, but a finding that already has one can still change', async () => {
  const { tenant, ids, place, move } = await world()
  const write = async (text: string, values: readonly unknown[]) =>
    await service.asService
      .write(service.assertionOf(tenant.tenantId), async (tx) => tx.execute({ text, values }))
      .catch((error: unknown) => sqlError(error).constraint ?? error)
  const set = 'update findings.finding set condition = $2, version = version + 1 where id = $1'
  const extend = `insert into findings.action_plan_extension (
      tenant_id, action_plan_id, number, from_on, to_on, reason, approved_by, created_by_type, created_by_id, created_by_label)
    values ((select tenancy.tenant_id()), $1, 1, '2031-01-01', '2031-02-01', $2, '{"name":"Cleo"}', 'api_key', 'k', 'l')`
  for (const blank of [' ', '\t\n', '\u00a0']) {
    expect(await write(set, [ids.finding, blank])).toBe('finding_condition_said')
    expect(await write(extend, [ids.action_plan, blank])).toBe('action_plan_extension_reason_said')
  }
  expect(await write(extend, [ids.action_plan, 'Why.'])).toBe(1)
  await place('finding', 'open', `, condition = ' '`)
  expect(await move('finding', ['open', 'cancelled'], { body: 'Raised in error.' })).toBeUndefined()
  await place('finding', 'draft')
  expect(await move('finding', ['draft', 'open'], {})).toBe('finding_condition_said')
})
