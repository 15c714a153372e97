import { missingRowSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import type { TenantDb } from '@postern/tenant-db'
import { beforeAll, expect, test } from 'vitest'
import { csvOf, useRuns } from './run-support.ts'
import { admin, type makeWorld } from './support.ts'

const { parts, work, create, start, now, runCsv, decide, names, errorsOf } = useRuns()

let world: Awaited<ReturnType<typeof makeWorld>>
let caller: SignedCaller
let workerDb: TenantDb

beforeAll(() => {
  ;({ world, caller, workerDb } = parts())
})

test('an unchanged line is recognized once: a repeated one is rejected, and one under a changed header is parsed', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  await runCsv(tenant, connector, csvOf(2))
  const twice = await runCsv(tenant, connector, `${csvOf(2)}\nE1,Entity 1,process\n`)
  expect(twice).toMatchObject({ status: 'partial', counts: { fetched: 3, valid: 2, invalid: 1, unchanged: 2 } })
  const turned = await runCsv(tenant, connector, csvOf(2).replace('external_id,name', 'name,external_id'))
  expect(turned).toMatchObject({ counts: { fetched: 2, created: 2, missing: 2 } })
  expect(await names(tenant)).toEqual(['Entity 0 active', 'Entity 1 active', 'E0 active', 'E1 active'])
})

test.each([
  ['has changed', csvOf(3).replace('Entity 2', 'Changed'), 2, 'Changed active'],
  ['is gone', csvOf(2), 1, 'Entity 2 active'],
])(
  'an unchanged line is compared if its row was pushed during the run, also if another line %s',
  async (_what, csv, updated, last) => {
    const tenant = admin()
    const connector = await create(tenant)
    await runCsv(tenant, connector, csvOf(3))
    const run = await start(tenant, connector, csv)
    const body = [{ external_id: 'E1', name: 'Pushed', type: 'process' }]
    let isPushed = false
    const pushing: TenantDb['write'] = async (by, fn) => {
      const [state] = await world.rows('select status from sync.run where id = $1', [run.id])
      if (state?.['status'] === 'fetching' && !isPushed) {
        isPushed = true
        expect((await caller.call(tenant, 'POST', '/api/v1/sync/entities', { body })).status).toBe(200)
      }
      return await workerDb.write(by, fn)
    }
    await work(run, { workerDb: { ...workerDb, write: pushing } })
    expect(isPushed).toBe(true)
    expect(await now(tenant, run)).toMatchObject({ status: 'succeeded', counts: { updated, unchanged: 1 } })
    expect(await names(tenant)).toEqual(['Entity 0 active', 'Entity 1 active', last])
  },
)

test('missing rows are counted after the comparison, even if another connector takes some over', async () => {
  const tenant = admin()
  const [connector, other] = [await create(tenant), await create(tenant)]
  await runCsv(tenant, connector, csvOf(3))
  const run = await start(tenant, connector, csvOf(3))
  const take = `insert into universe.source_row (tenant_id, scope, source_key, connector_id)
    values ($2, 'auditable_entities', 'E1', $1)`
  let isTaken = false
  const taking: TenantDb['write'] = async (by, fn) => {
    const [state] = await world.rows('select status from sync.run where id = $1', [run.id])
    if (state?.['status'] === 'validating' && !isTaken) {
      isTaken = true
      await world.rows(take, [other.id, tenant.tenantId])
    }
    return await workerDb.write(by, fn)
  }
  await work(run, { workerDb: { ...workerDb, write: taking } })
  expect(isTaken).toBe(true)
  expect(await now(tenant, run)).toMatchObject({ status: 'succeeded', counts: { unchanged: 3, missing: 0 } })
})

test('missing rows count against the limits once: approved ones need no second approval', async () => {
  const tenant = admin()
  const safety = { max_deactivate_pct: 10, max_change_pct: 100 }
  const connector = await create(tenant, { missing_policy: 'deactivate', safety })
  await runCsv(tenant, connector, csvOf(6))
  const lost = await runCsv(tenant, connector, csvOf(2))
  expect(lost).toMatchObject({ status: 'needs_approval', breaches: [{ limit: 'max_deactivate_pct' }] })
  expect(await decide(tenant, lost, 'approve', { diff_hash: lost.diff_hash })).toBe(202)
  await work(lost)
  const again = await runCsv(tenant, connector, csvOf(2))
  expect(again).toMatchObject({ status: 'succeeded', counts: { missing: 4, deactivated: 0, unchanged: 2 } })
  const more = await runCsv(tenant, connector, csvOf(1))
  expect(more).toMatchObject({ status: 'needs_approval', breaches: [{ actual: 50 }] })
})

test('missing rows are listed until they return, and only for their tenant', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  const missing = async (by: Principal, query = '') =>
    await caller.call(by, 'GET', `/api/v1/connectors/${connector.id}/missing${query}`)
  const keysOf = async (query = '') =>
    missingRowSchema
      .array()
      .parse((await missing(tenant, query)).json)
      .map(({ source_key: key }) => key)
  await runCsv(tenant, connector, csvOf(4))
  expect(await keysOf()).toEqual([])
  await runCsv(tenant, connector, csvOf(2))
  expect(await keysOf()).toEqual(['E2', 'E3'])
  const page = await missing(tenant, '?limit=1&count=true')
  expect([page.headers['x-total-count'], page.json]).toMatchObject(['2', [{ source_key: 'E2' }]])
  const target = `/api/v1/connectors/${connector.id}/missing`
  const whole = await caller.call(tenant, 'GET', target, { headers: { accept: 'application/x-ndjson' } })
  const lines = whole.text.split('\n').slice(0, -1)
  expect(lines.map((line) => missingRowSchema.parse(JSON.parse(line)).source_key)).toEqual(['E2', 'E3'])
  await runCsv(tenant, connector, csvOf(3))
  expect(await keysOf()).toEqual(['E3'])
  expect((await missing(admin())).status).toBe(404)
})

test('unreadable rows, with or without a key, are not missing', async () => {
  const tenant = admin()
  const connector = await create(tenant, { missing_policy: 'deactivate' })
  await runCsv(tenant, connector, csvOf(3))
  const formula = await runCsv(tenant, connector, csvOf(3).replace('Entity 1', '#REF!'))
  expect(formula).toMatchObject({ status: 'partial', counts: { invalid: 1, missing: 0, deactivated: 0 } })
  const cut = await runCsv(tenant, connector, csvOf(3).replace('E1,Entity 1', 'E1'))
  expect(cut).toMatchObject({ status: 'partial', counts: { invalid: 1, missing: 1, deactivated: 0 } })
  expect(await names(tenant)).toEqual(['Entity 0 active', 'Entity 1 active', 'Entity 2 active'])
  expect(await errorsOf(tenant, formula)).toMatchObject([
    { row: 3, source_key: 'E1', field: 'name', code: 'formula_failed' },
  ])
  expect(await errorsOf(tenant, cut)).toMatchObject([{ row: 3, code: 'cell_count' }, { code: 'missing_undecided' }])
  expect(await runCsv(tenant, connector, csvOf(2))).toMatchObject({ counts: { missing: 1, deactivated: 1 } })
})
