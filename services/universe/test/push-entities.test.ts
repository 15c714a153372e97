import { type PushedEntity, problemSchema, pushedEntitySchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { maxDepth } from '../src/push/rules.ts'
import { listMisplaced } from '../src/push/store.ts'
import { type UniverseUnderTest, newTenant, path, pushPath, row, startUniverse, syncOf } from './service.ts'

let universe: UniverseUnderTest
beforeAll(async () => {
  universe = await startUniverse()
})
afterAll(async () => await universe.close())

const body = (...entities: object[]) => ({ run_id: crypto.randomUUID(), entities })

/** A chain of so many rows, the root first. */
function chain(name: string, length: number): object[] {
  return Array.from({ length }, (_, at) =>
    row(`${name}${at}`, at === 0 ? {} : { parent_external_id: `${name}${at - 1}` }),
  )
}

describe('pushing entities', () => {
  test('is only for the sync service, not for unsigned requests, the gateway or a key', async () => {
    const tenant = newTenant(['admin:sync'])
    const unsigned = await fetch(universe.url + pushPath, {
      method: 'POST',
      body: JSON.stringify(body(row('A'))),
      headers: { 'content-type': 'application/json' },
    })
    expect(unsigned.status).toBe(401)
    const options = { body: body(row('A')) }
    expect((await universe.gateway.call(syncOf(tenant), 'POST', pushPath, options)).status).toBe(401)
    expect((await universe.stranger.call(syncOf(tenant), 'POST', pushPath, options)).status).toBe(401)
    expect((await universe.sync.call(tenant, 'POST', pushPath, options)).status).toBe(401)
    expect((await universe.sync.call(syncOf(tenant), 'POST', pushPath, options)).status).toBe(200)
  })

  test('the sync service cannot read with the key that it pushes with', async () => {
    expect((await universe.sync.call(newTenant(), 'GET', path)).status).toBe(401)
  })

  test.each([
    ['no rows', [], '/entities'],
    ['a row without a key', [row('A', { external_id: undefined })], '/entities/0/external_id'],
    ['a row without a name', [row('A'), row('B', { name: ' ' })], '/entities/1/name'],
    ['an unknown type', [row('A', { type: 'planet' })], '/entities/0/type'],
    ['an unknown field', [row('A', { tenant_id: 'x' })], '/entities/0/tenant_id'],
    [
      'a score above 100',
      [row('A', { inherent_risk: { rating: 'high', score: 101 } })],
      '/entities/0/inherent_risk/score',
    ],
    ['a rating without a score', [row('A', { residual_risk: { rating: 'high' } })], '/entities/0/residual_risk/score'],
    ['a frequency of no months', [row('A', { audit_frequency_months: 0 })], '/entities/0/audit_frequency_months'],
    ['a day that does not exist', [row('A', { last_audit_date: '2026-02-30' })], '/entities/0/last_audit_date'],
    ['a day before 1900', [row('A', { regulatory_next_due: '0000-01-01' })], '/entities/0/regulatory_next_due'],
    ['a key twice', [row('A'), row('B'), row('A')], '/entities/2/external_id'],
    ['an unknown parent', [row('A'), row('B', { parent_external_id: 'nowhere' })], '/entities/1/parent_external_id'],
    ['a row above itself', [row('A', { parent_external_id: 'A' })], '/entities/0/parent_external_id'],
  ])('takes nothing in when one row is wrong: %s', async (_what, rows, pointer) => {
    const tenant = newTenant()
    await universe.push(tenant, [row('before')])
    const answer = await universe.push(tenant, rows)
    expect(answer.status).toBe(422)
    const { code, errors = [] } = problemSchema.parse(answer.json)
    expect(code).toBe('invalid_content')
    expect(errors.map((error) => error.pointer)).toContain(pointer)
    expect(Object.keys(await universe.stored(tenant))).toEqual(['before'])
  })

  test("another tenant's entity is no parent: the answer is that of a key that does not exist", async () => {
    const [tenant, other] = [newTenant(), newTenant()]
    await universe.push(other, [row('theirs')])
    const headers = { 'x-request-id': 'the-same-request' }
    const withParent = async (parent_external_id: string, pusher: typeof tenant) =>
      await universe.sync.call(syncOf(pusher), 'POST', pushPath, {
        body: body(row('A', { parent_external_id })),
        headers,
      })
    const missing = await withParent('nowhere', tenant)
    expect(missing.status).toBe(422)
    expect((await withParent('theirs', tenant)).text).toBe(missing.text)
    expect((await withParent('theirs', other)).status).toBe(200)
  })

  test('a circle through what is stored is refused, with the row that would close it', async () => {
    const tenant = newTenant()
    await universe.push(tenant, [
      row('A'),
      row('B', { parent_external_id: 'A' }),
      row('C', { parent_external_id: 'B' }),
    ])
    const answer = await universe.push(tenant, [row('X'), row('A', { parent_external_id: 'C' })])
    expect(answer.status).toBe(422)
    expect(problemSchema.parse(answer.json).errors).toEqual([
      expect.objectContaining({ pointer: '/entities/1/parent_external_id', code: 'cycle' }),
    ])
    const stored = await universe.stored(tenant)
    expect(stored['A']?.parent_id).toBeNull()
    expect(stored['X']).toBeUndefined()
  })

  test('a tree deeper than twelve is refused, with the row that moves its branch too far down', async () => {
    const tenant = newTenant()
    expect((await universe.push(tenant, [...chain('p', 6), ...chain('q', 7)])).status).toBe(200)
    const answer = await universe.push(tenant, [row('other'), row('q0', { parent_external_id: 'p5' })])
    expect(answer.status).toBe(422)
    expect(problemSchema.parse(answer.json).errors).toEqual([
      expect.objectContaining({ pointer: '/entities/1/parent_external_id', code: 'too_deep' }),
    ])
    expect((await universe.push(tenant, [row('q0', { parent_external_id: 'p4' })])).status).toBe(200)
  })

  test('what is wrong with a tree is found by the rows that it concerns, not by reading all entities', async () => {
    const tenant = newTenant()
    const below = Array.from({ length: 3000 }, (_, at) => row(`many${at}`, { parent_external_id: 'root' }))
    await universe.push(tenant, [row('root'), ...below, ...chain('p', 6), ...chain('q', 7)])
    const wrong = [
      row('root'),
      row('q0', { parent_external_id: 'p5' }),
      row('p0', { parent_external_id: 'p4' }),
      row('many7', { parent_external_id: 'p3' }),
      row('new', { parent_external_id: 'many7' }),
    ]
    const rows: PushedEntity[] = wrong.map((one) => pushedEntitySchema.parse(one))
    const find = async (pushed: readonly PushedEntity[]) =>
      await universe.asService.write(universe.assertionOf(tenant.tenantId), async (tx) => {
        const misplaced = await listMisplaced(tx, pushed, maxDepth)
        const [read] = await tx.query<{ rows: number }>({
          text: `select sum(pg_stat_get_xact_tuples_fetched(oid) + pg_stat_get_xact_tuples_returned(oid))::integer as rows
            from pg_class where oid in ('universe.entity'::regclass, 'universe.entity_pk'::regclass,
              'universe.entity_external_id_unique'::regclass, 'universe.entity_by_parent_number'::regclass)`,
          values: [],
        })
        return { misplaced, rows: read?.rows ?? Infinity }
      })
    const circle = await find(rows)
    expect(circle.misplaced).toEqual([1, 2, 3, 4].map((index) => ({ index, fault: 'cycle' })))
    expect(circle.rows).toBeLessThan(300)
    const deep = await find(rows.filter(({ external_id: key }) => key !== 'p0'))
    expect(deep.misplaced).toEqual([{ index: 1, fault: 'too-deep' }])
    expect(deep.rows).toBeLessThan(300)
  })

  test('what moves up from the lowest level takes what is new below it along', async () => {
    const tenant = newTenant()
    await universe.push(tenant, chain('A', 12))
    const [parent, next] = [{ parent_external_id: 'A11' }, { parent_external_id: 'N1' }]
    const rows = [row('A11'), row('N1', parent), row('N2', next)]
    expect((await universe.push(tenant, rows)).json).toMatchObject({ created: 2, updated: 1 })
    const below = await universe.gateway.call(tenant, 'GET', `${path}?subtree_of=ext:A11`)
    expect(below.json).toMatchObject([{ external_id: 'A11' }, { external_id: 'N1' }, { external_id: 'N2' }])
    const deep = [row('A11', { parent_external_id: 'A9' }), row('N3', next)]
    expect((await universe.push(tenant, deep)).json).toMatchObject({ code: 'invalid_content' })
  })

  test('two pushes that would close a circle only together cannot both be taken in', async () => {
    for (let round = 0; round < 5; round += 1) {
      const tenant = newTenant()
      await universe.push(tenant, [row('A'), row('B')])
      const answers = await Promise.all([
        universe.push(tenant, [row('A', { parent_external_id: 'B' })]),
        universe.push(tenant, [row('B', { parent_external_id: 'A' })]),
      ])
      expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 422])
    }
  })

  test('a status cannot move in a way that entities do not', async () => {
    const tenant = newTenant()
    await universe.push(tenant, [row('A', { status: 'draft' }), row('B')])
    const answer = await universe.push(tenant, [row('A', { status: 'archived' }), row('B', { status: 'draft' })])
    expect(answer.status).toBe(422)
    expect(problemSchema.parse(answer.json).errors?.map(({ pointer, code }) => [pointer, code])).toEqual([
      ['/entities/0/status', 'invalid_transition'],
      ['/entities/1/status', 'invalid_transition'],
    ])
    expect((await universe.push(tenant, [row('A'), row('B', { status: 'archived' })])).status).toBe(200)
    expect((await universe.push(tenant, [row('B')])).status).toBe(200)
  })

  test('creates the pushed entities, numbered in the order of the rows, with parents in any order', async () => {
    const tenant = newTenant()
    const full = {
      description: 'All of it',
      status: 'draft',
      owner: { name: 'Ada Lund' },
      audit_lead: { email: 'lead@example.com' },
      executive: { person_id: crypto.randomUUID() },
      inherent_risk: { rating: 'high', score: 66.6 },
      residual_risk: { rating: 'low', score: 0.1 },
      risk_assessed_at: '2026-01-31',
      audit_frequency_months: 18,
      last_audit_date: '2026-01-31',
      last_audit_opinion: 'satisfactory',
      regulatory_next_due: '2028-01-01',
      custom: { plant: 7, sox: true, site: 'Å"\\', none: null },
    }
    const answer = await universe.push(tenant, [
      row('leaf', { name: 'Last by name', parent_external_id: 'middle' }),
      row('middle', { parent_external_id: 'root' }),
      row('root', { ...full, name: 'First by name' }),
    ])
    expect(answer.json).toEqual({ created: 3, updated: 0, unchanged: 0 })
    const { leaf, middle, root } = await universe.stored(tenant)
    expect([leaf?.reference, middle?.reference, root?.reference]).toEqual(['AE-0001', 'AE-0002', 'AE-0003'])
    expect([leaf?.parent_id, middle?.parent_id, root?.parent_id]).toEqual([middle?.id, root?.id, null])
    expect(root).toMatchObject({
      ...full,
      next_audit_due: '2027-07-31',
      version: 1,
      created_by: { type: 'connector', id: 'inline', label: 'Inline push' },
    })
    expect(leaf).toMatchObject({ status: 'active', owner: null, inherent_risk: null, custom: {}, stale: true })
  })

  test('the same push again changes nothing: no version, no time', async () => {
    const tenant = newTenant()
    const rows = [
      row('A', {
        inherent_risk: { rating: 'low', score: 33.3 },
        custom: { b: 1, a: 'x' },
        owner: { name: 'A', email: 'a@example.com' },
      }),
      row('B', { parent_external_id: 'A', last_audit_date: '2026-01-01', description: '' }),
    ]
    await universe.push(tenant, rows)
    const before = await universe.stored(tenant)
    expect((await universe.push(tenant, rows.toReversed())).json).toEqual({ created: 0, updated: 0, unchanged: 2 })
    expect(await universe.stored(tenant)).toEqual(before)
  })

  test('only what differs is changed; what a row leaves out is emptied; rows that are not pushed stay', async () => {
    const tenant = newTenant()
    await universe.push(tenant, [row('A', { description: 'old', custom: { a: 1 } }), row('B'), row('C')])
    const before = await universe.stored(tenant)
    const answer = await universe.push(tenant, [row('D'), row('B'), row('A', { parent_external_id: 'D' })])
    expect(answer.json).toEqual({ created: 1, updated: 1, unchanged: 1 })
    const after = await universe.stored(tenant)
    expect([after['B'], after['C']]).toEqual([before['B'], before['C']])
    expect(after['D']?.reference).toBe('AE-0004')
    expect(after['A']).toEqual({
      ...before['A'],
      description: null,
      custom: {},
      parent_id: after['D']?.id,
      version: 2,
      updated_at: after['A']?.updated_at,
    })
    expect(Date.parse(after['A']?.updated_at ?? '')).toBeGreaterThan(Date.parse(before['A']?.updated_at ?? ''))
  })

  test('two tenants may use the same keys; neither sees the other', async () => {
    const [tenant, other] = [newTenant(), newTenant()]
    await universe.push(tenant, [row('A', { name: 'Mine' })])
    expect((await universe.push(other, [row('A', { name: 'Theirs' })])).json).toMatchObject({ created: 1 })
    expect((await universe.stored(tenant))['A']?.name).toBe('Mine')
    expect((await universe.stored(other))['A']?.name).toBe('Theirs')
  })

  test('pushes at the same moment leave distinct references without gaps', async () => {
    const tenant = newTenant()
    const pushes = Array.from(
      { length: 8 },
      async (_, at) => await universe.push(tenant, [row(`x${at}`), row('shared')]),
    )
    const answers = await Promise.all(pushes)
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200))
    const references = Object.values(await universe.stored(tenant)).map(({ reference }) => reference)
    expect(references).toEqual(Array.from({ length: 9 }, (_, at) => `AE-${String(at + 1).padStart(4, '0')}`))
  })

  test('takes 5000 rows in one push, and the same again without a change', async () => {
    const tenant = newTenant()
    const rows = Array.from({ length: 5000 }, (_, at) =>
      row(`k${at}`, {
        description: 'd'.repeat(500),
        ...(at === 0 ? {} : { parent_external_id: `k${Math.floor((at - 1) / 4)}` }),
      }),
    )
    expect((await universe.push(tenant, rows)).json).toEqual({ created: 5000, updated: 0, unchanged: 0 })
    expect((await universe.push(tenant, rows)).json).toEqual({ created: 0, updated: 0, unchanged: 5000 })
    // Parents come last, so no part can be created before the end.
    const other = newTenant()
    expect((await universe.push(other, rows.toReversed())).json).toEqual({ created: 5000, updated: 0, unchanged: 0 })
  })

  test('with a late row that breaks the tree stores none of the rows before it', async () => {
    const tenant = newTenant()
    expect((await universe.push(tenant, chain('c', 12))).status).toBe(200)
    const rows = [...Array.from({ length: 2000 }, (_, at) => row(`k${at}`)), row('c12', { parent_external_id: 'c11' })]
    expect((await universe.push(tenant, rows)).status).toBe(422)
    expect(Object.keys(await universe.stored(tenant))).toHaveLength(12)
  })
})
