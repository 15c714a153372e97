import { type Run, runChangeSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import type { TenantDb } from '@postern/tenant-db'
import { beforeAll, expect, test } from 'vitest'
import type { Universe } from '../src/push/universe.ts'
import { applying, csvOf, treeOf, useRuns } from './run-support.ts'
import { admin, type makeWorld } from './support.ts'

const { parts, work, create, start, now, runCsv, decide, names, undo, errorsOf } = useRuns()

type Apply = Universe['imports']['apply']

let world: Awaited<ReturnType<typeof makeWorld>>
let caller: SignedCaller
let workerDb: TenantDb
let universe: Universe

beforeAll(() => {
  ;({ world, caller, workerDb, universe } = parts())
})

const many = (count: number) =>
  treeOf(Array.from({ length: count }, (_, n) => `E${n},${n === 0 ? '' : 'E0'},Entity ${n},process`).join('\n'))
const changesOf = async (tenant: Principal, run: Run, query: string) =>
  (await caller.call(tenant, 'GET', `/api/v1/sync-runs/${run.id}/changes${query}`)).json

test('a first import lists its changes in the order of the source and can be undone', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  const run = await runCsv(tenant, connector, many(1200))
  expect(run).toMatchObject({ status: 'succeeded', counts: { created: 1200, applied: 1200, unchanged: 0 } })
  const first = runChangeSchema.array().parse(await changesOf(tenant, run, '?limit=1&op=create'))
  expect(first).toMatchObject([{ op: 'create', source_key: 'E0', before: null, after: { name: 'Entity 0' } }])
  const whole = await caller.call(tenant, 'GET', `/api/v1/sync-runs/${run.id}/changes`, {
    headers: { accept: 'application/x-ndjson' },
  })
  const lines = whole.text.split('\n').slice(0, -1)
  const all = lines.map((line) => runChangeSchema.parse(JSON.parse(line)))
  expect(all.map(({ source_key: key }) => key)).toEqual(Array.from({ length: 1200 }, (_, n) => `E${n}`))
  expect(all.every(({ applied_at: at, error }) => at !== null && error === null)).toBe(true)
  expect(await changesOf(tenant, run, '?op=update')).toEqual([])
  expect(await runCsv(tenant, connector, many(1200))).toMatchObject({ counts: { unchanged: 1200, missing: 0 } })
  const undone = await undo(tenant, run)
  await work(undone)
  expect(await now(tenant, undone)).toMatchObject({
    status: 'succeeded',
    counts: { deactivated: 1200, applied: 1200 },
  })
})

test('a cancelled first import keeps what was applied, and the next run creates only the rest', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  const run = await start(tenant, connector, csvOf(5002))
  const apply: Apply = async (...asked) => {
    const outcome = await universe.imports.apply(...asked)
    if (outcome.applied === 5000) expect(await decide(tenant, run, 'cancel')).toBe(202)
    return outcome
  }
  await work(run, { universe: applying(universe, apply) })
  const { status, counts } = await now(tenant, run)
  const { applied } = counts
  expect([status, applied]).toEqual(['cancelled', (await names(tenant)).length])
  const known = 'select count(*)::int as n from universe.source_row where connector_id = $1 and hash is not null'
  expect(await world.rows(known, [connector.id])).toEqual([{ n: applied }])
  const rest = { created: 5002 - applied, unchanged: applied, missing: 0 }
  expect(await runCsv(tenant, connector, csvOf(5002))).toMatchObject({ status: 'succeeded', counts: rest })
})

test('a first import cannot be undone once a later run has changed one of its rows', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  const run = await runCsv(tenant, connector, csvOf(2))
  await runCsv(tenant, connector, csvOf(2, 'Renamed'))
  expect((await caller.call(tenant, 'POST', `/api/v1/sync-runs/${run.id}/rollback`, { body: {} })).status).toBe(409)
})

test('a first import updates rows that exist and accepts parents after their children', async () => {
  const tenant = admin()
  const body = [{ external_id: 'E1', name: 'Pushed', type: 'process' }]
  await caller.call(tenant, 'POST', '/api/v1/sync/entities', { body })
  const run = await runCsv(
    tenant,
    await create(tenant),
    treeOf('E2,E3,Child,process\nE3,E1,Parent,process\nE1,,Top,process\n'),
  )
  expect(run).toMatchObject({ status: 'succeeded', counts: { created: 2, updated: 1, applied: 3 } })
  expect(await names(tenant)).toEqual(['Top active', 'Child active', 'Parent active'])
})

test('a first import that fails while it is read leaves no rows and no changes', async () => {
  const tenant = admin()
  const run = await start(tenant, await create(tenant), `${csvOf(1500)}\nX,"never closed,process\n`)
  const blocks = 'select from universe.import_row where run_id = $1'
  let seen = 0
  const counting: TenantDb['write'] = async (by, fn) => {
    seen = Math.max(seen, (await world.rows(blocks, [run.id])).length)
    return await workerDb.write(by, fn)
  }
  await work(run, { workerDb: { ...workerDb, write: counting } })
  expect(await now(tenant, run)).toMatchObject({ status: 'failed', failure: { code: 'quote_open' } })
  expect(seen).toBeGreaterThan(0)
  expect([await world.rows(blocks, [run.id]), await changesOf(tenant, run, '')]).toEqual([[], []])
})

test('a first import with a row that the universe rejects applies the others', async () => {
  const tenant = admin()
  const run = await start(tenant, await create(tenant), csvOf(1100))
  let isStored = false
  const apply: Apply = async (...asked) => {
    // Created since the run was planned. What is archived cannot become a draft.
    const body = [{ external_id: 'E1050', name: 'Draft', type: 'process', status: 'archived' }]
    if (!isStored) expect((await caller.call(tenant, 'POST', '/api/v1/sync/entities', { body })).status).toBe(200)
    if (!isStored)
      await world.rows(
        `update universe.import_row set content = content || '{"status": "draft"}'
      where run_id = $1 and source_key = 'E1050'`,
        [run.id],
      )
    isStored = true
    return await universe.imports.apply(...asked)
  }
  await work(run, { universe: applying(universe, apply) })
  expect(await now(tenant, run)).toMatchObject({ status: 'partial', counts: { created: 1100, applied: 1099 } })
  expect(await changesOf(tenant, run, '?limit=1')).toMatchObject([{ source_key: 'E0', error: null }])
  expect(await errorsOf(tenant, run)).toMatchObject([
    { source_key: 'E1050', field: 'status', code: 'invalid_transition' },
  ])
  expect(await names(tenant)).toHaveLength(1100)
})

test('a first import that waits for approval is applied as it was reviewed', async () => {
  const tenant = admin()
  const connector = await create(tenant, { safety: { min_rows: 5 } })
  const run = await runCsv(tenant, connector, csvOf(3))
  expect(run).toMatchObject({ status: 'needs_approval', counts: { created: 3 } })
  expect(await decide(tenant, run, 'approve', { diff_hash: run.diff_hash })).toBe(202)
  await work(run)
  expect(await now(tenant, run)).toMatchObject({ status: 'succeeded', counts: { applied: 3 } })
  expect(await runCsv(tenant, connector, csvOf(3))).toMatchObject({ counts: { unchanged: 3 } })
})
