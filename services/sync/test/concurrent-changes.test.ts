import type { Run } from '@postern/contracts'
import type { SignedCaller } from '@postern/local-stack/testing'
import type { TenantDb } from '@postern/tenant-db'
import { beforeAll, expect, test } from 'vitest'
import { ImportConflictError } from '../src/import/imports.ts'
import type { Universe } from '../src/push/universe.ts'
import { applying, csvOf, treeOf, useRuns } from './run-support.ts'
import { admin, type makeWorld } from './support.ts'

const { parts, work, create, start, now, runCsv, decide, names, undo } = useRuns()

let world: Awaited<ReturnType<typeof makeWorld>>
let caller: SignedCaller
let workerDb: TenantDb
type Apply = Universe['imports']['apply']

let universe: Universe

beforeAll(() => {
  ;({ world, caller, workerDb, universe } = parts())
})

test('a push over a row of a connector is seen by its next run', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  await runCsv(tenant, connector, csvOf(2))
  const body = [{ external_id: 'E1', name: 'Pushed', type: 'process' }]
  expect((await caller.call(tenant, 'POST', '/api/v1/sync/entities', { body })).status).toBe(200)
  expect(await runCsv(tenant, connector, csvOf(2))).toMatchObject({ counts: { updated: 1, unchanged: 1 } })
  expect(await names(tenant)).toEqual(['Entity 0 active', 'Entity 1 active'])
})

test('a push of a whole hierarchy is seen by the next run, also for units that the push omits', async () => {
  const tenant = admin()
  const hierarchy = { key: 'legal', name: 'Legal', kind: 'legal_entity' }
  const connector = await create(tenant, { dataset: 'org_structure', hierarchy })
  const csv = 'node_key,parent_key,name\nA,,Bank\nB,A,Branch\n'
  await runCsv(tenant, connector, csv)
  const body = { name: 'Legal', kind: 'legal_entity', mode: 'full', nodes: [{ node_key: 'A', name: 'Bank' }] }
  expect((await caller.call(tenant, 'POST', '/api/v1/sync/org-structures/legal', { body })).status).toBe(200)
  expect(await runCsv(tenant, connector, csv)).toMatchObject({ counts: { reactivated: 1, unchanged: 1 } })
})

test('a push while a run ends is seen by the next run', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  const body = [{ external_id: 'E9', name: 'Pushed', type: 'process' }]
  await caller.call(tenant, 'POST', '/api/v1/sync/entities', { body })
  // The universe still has not taken it in.
  const begin = `update sync.run set status = 'running', finished_at = null where tenant_id = $1 and source = 'inline'`
  await world.rows(begin, [tenant.tenantId])
  await runCsv(tenant, connector, csvOf(2))
  await world.rows(
    `update universe.entity set name = 'Pushed', version = version + 1 where tenant_id = $1 and external_id = 'E1'`,
    [tenant.tenantId],
  )
  expect(await runCsv(tenant, connector, csvOf(2))).toMatchObject({ counts: { updated: 1, unchanged: 1 } })
})

test('a change of the same row by another connector is seen by the next run', async () => {
  const tenant = admin()
  const [connector, other] = [await create(tenant), await create(tenant)]
  const run = await start(tenant, connector, csvOf(3))
  const apply: Apply = async (...asked) => {
    const outcome = await universe.imports.apply(...asked)
    if (outcome.done) return outcome
    expect(await runCsv(tenant, other, csvOf(2).replace('Entity 1', 'Theirs'))).toMatchObject({
      counts: { updated: 1 },
    })
    return outcome
  }
  await work(run, { universe: applying(universe, apply) })
  expect(await runCsv(tenant, connector, csvOf(3))).toMatchObject({ counts: { updated: 1, unchanged: 2 } })
  expect(await names(tenant)).toEqual(['Entity 0 active', 'Entity 1 active', 'Entity 2 active'])
})

test('two connectors that create the same rows at once are seen by the next run', async () => {
  const tenant = admin()
  const [connector, other] = [await create(tenant), await create(tenant)]
  const run = await start(tenant, connector, csvOf(3))
  const theirs = await start(tenant, other, csvOf(2, 'Theirs'))
  const [planned, mayGo] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const last: Apply = async (...asked) => {
    planned.resolve()
    await mayGo.promise
    return await universe.imports.apply(...asked)
  }
  const beside = work(theirs, { universe: applying(universe, last) })
  await planned.promise
  const apply: Apply = async (...asked) => {
    const outcome = await universe.imports.apply(...asked)
    mayGo.resolve()
    await beside
    return outcome
  }
  await work(run, { universe: applying(universe, apply) })
  expect(await names(tenant)).toEqual(['Theirs 0 active', 'Theirs 1 active', 'Entity 2 active'])
  expect(await runCsv(tenant, connector, csvOf(3))).toMatchObject({ counts: { updated: 2, unchanged: 1 } })
  expect(await names(tenant)).toEqual(['Entity 0 active', 'Entity 1 active', 'Entity 2 active'])
})

/** A database whose worker is held up, once it has committed that the run waits, until the decision is made. */
function deciding({ id }: Run, decision: () => Promise<unknown>): TenantDb {
  let isMade = false
  return {
    ...workerDb,
    write: async (tenant, fn) => {
      const done = await workerDb.write(tenant, fn)
      const [run] = await world.rows('select status from sync.run where id = $1', [id])
      if (run?.['status'] === 'needs_approval' && !isMade) {
        isMade = true
        await decision()
      }
      return done
    },
  }
}

test('an approval is applied even if it comes before the worker has released the run', async () => {
  const tenant = admin()
  const connector = await create(tenant, { safety: { max_change_pct: 0 } })
  await runCsv(tenant, connector, csvOf(2))
  const run = await start(tenant, connector, csvOf(2, 'Renamed'))
  const approve = async () => await decide(tenant, run, 'approve', { diff_hash: (await now(tenant, run)).diff_hash })
  await work(run, { workerDb: deciding(run, approve) })
  expect(await now(tenant, run)).toMatchObject({ status: 'applying' })
  await work(run)
  expect(await now(tenant, run)).toMatchObject({ status: 'succeeded', counts: { applied: 2 } })
  expect(await names(tenant)).toEqual(['Renamed 0 active', 'Renamed 1 active'])
})

test('a run that a newer one replaced while it waited for approval stays cancelled', async () => {
  const tenant = admin()
  const connector = await create(tenant, { safety: { max_change_pct: 0 } })
  await runCsv(tenant, connector, csvOf(2))
  const run = await start(tenant, connector, csvOf(2, 'Renamed'))
  await work(run, { workerDb: deciding(run, async () => await start(tenant, connector, csvOf(3))) })
  expect(await now(tenant, run)).toMatchObject({ status: 'cancelled', finished_at: expect.any(String) })
})

test('a run cannot be approved once its connector is retired', async () => {
  const tenant = admin()
  const connector = await create(tenant, { safety: { max_change_pct: 0 } })
  await runCsv(tenant, connector, csvOf(2))
  const run = await runCsv(tenant, connector, csvOf(2, 'Renamed'))
  expect(run.status).toBe('needs_approval')
  expect((await caller.call(tenant, 'DELETE', `/api/v1/connectors/${connector.id}`)).status).toBe(204)
  expect(await now(tenant, run)).toMatchObject({ status: 'cancelled' })
  expect(await decide(tenant, run, 'approve', { diff_hash: run.diff_hash })).toBe(409)
})

test('a cancelled run ends after the current batch', async () => {
  const tenant = admin()
  const run = await start(tenant, await create(tenant), csvOf(6000))
  let batches = 0
  const apply: Apply = async (...asked) => {
    batches += 1
    expect(await decide(tenant, run, 'cancel')).toBe(202)
    return await universe.imports.apply(...asked)
  }
  await work(run, { universe: applying(universe, apply) })
  expect(batches).toBe(1)
  expect(await now(tenant, run)).toMatchObject({ status: 'cancelled', counts: { applied: 5000 } })
  expect(await names(tenant)).toHaveLength(5000)
})

test('a run that is cancelled while a batch is rejected changes nothing', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  await runCsv(tenant, connector, csvOf(1))
  const run = await start(
    tenant,
    connector,
    csvOf(2).replace('type', 'type,status').replaceAll('process', 'process,draft'),
  )
  const apply: Apply = async (...asked) => {
    expect(await decide(tenant, run, 'cancel')).toBe(202)
    return await universe.imports.apply(...asked)
  }
  await work(run, { universe: applying(universe, apply) })
  expect(await now(tenant, run)).toMatchObject({ status: 'cancelled', counts: { applied: 0 } })
  expect(await names(tenant)).toEqual(['Entity 0 active'])
})

test('changes are applied one batch at a time', async () => {
  const tenant = admin()
  const run = await start(tenant, await create(tenant), csvOf(5002))
  const seen: string[] = []
  const apply: Apply = async (...asked) => {
    const before = (await names(tenant)).length
    const outcome = await universe.imports.apply(...asked)
    seen.push(`${outcome.applied} applied after ${before}`)
    return outcome
  }
  await work(run, { universe: applying(universe, apply) })
  expect(seen).toEqual(['5000 applied after 0', '5002 applied after 5000', '5002 applied after 5002'])
  expect(await now(tenant, run)).toMatchObject({ status: 'succeeded', counts: { applied: 5002 } })
})

test('a batch that finds the universe busy is applied once, before any later batch', async () => {
  const tenant = admin()
  const run = await start(tenant, await create(tenant), csvOf(5002))
  const applied: (number | string)[] = []
  const apply: Apply = async (...asked) => {
    if (applied.length === 0) {
      applied.push('busy')
      throw new ImportConflictError('busy')
    }
    const outcome = await universe.imports.apply(...asked)
    applied.push(outcome.applied)
    return outcome
  }
  await work(run, { universe: applying(universe, apply), pausesMs: [0] })
  expect(applied).toEqual(['busy', 5000, 5002, 5002])
})

test('changes of a hierarchy that are too large for one transaction are not applied in parts', async () => {
  const tenant = admin()
  const hierarchy = { key: 'legal', name: 'Legal', kind: 'legal_entity' }
  const connector = await create(tenant, { dataset: 'org_structure', hierarchy })
  const run = await start(tenant, connector, 'node_key,name\nA,Bank\nB,Branch\n')
  const apply: Apply = async (...asked) => {
    const grow = `update universe.import_row set content = content || jsonb_build_object('name', repeat('x', 12000000))
      where run_id = $1`
    await world.rows(grow, [run.id])
    return await universe.imports.apply(...asked)
  }
  await work(run, { universe: applying(universe, apply) })
  expect(await now(tenant, run)).toMatchObject({ status: 'failed', failure: { code: 'too_large' } })
  expect(await world.rows('select from universe.node where tenant_id = $1', [tenant.tenantId])).toEqual([])
})

test('a rollback undoes changes from the last to the first, so that a reversed tree is restored', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  await runCsv(tenant, connector, treeOf('A,,First,process\nB,A,Second,process\n'))
  const turned = await runCsv(tenant, connector, treeOf('B,,Second,process\nA,B,First,process\n'))
  expect(turned).toMatchObject({ counts: { moved: 2, applied: 2 } })
  const undone = await undo(tenant, turned)
  await work(undone)
  expect(await now(tenant, undone)).toMatchObject({ status: 'succeeded', counts: { applied: 2 } })
  const changes = await caller.call(tenant, 'GET', `/api/v1/sync-runs/${undone.id}/changes`)
  expect(changes.json).toMatchObject([{ source_key: 'A' }, { source_key: 'B' }])
})

test('staged changes cannot be moved to another run, and runs cannot be deleted', async () => {
  const tenant = admin()
  await runCsv(tenant, await create(tenant), csvOf(1))
  const give = 'update universe.import_row set run_id = gen_random_uuid() where tenant_id = $1'
  await expect(world.rows(give, [tenant.tenantId])).rejects.toThrow(/stays with the run/)
  await expect(world.rows('truncate sync.run cascade')).rejects.toThrow(/never deleted/)
})
