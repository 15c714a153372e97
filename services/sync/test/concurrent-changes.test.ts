import { type Run, missingRowSchema, runChangeSchema, runSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import type { TenantDb } from '@postern/tenant-db'
import { beforeAll, describe, expect, test } from 'vitest'
import { ImportConflictError } from '../src/import/imports.ts'
import type { Universe } from '../src/push/universe.ts'
import { applying, csvOf, treeOf, useRuns } from './run-support.ts'
import { admin, type makeWorld } from './support.ts'

const { parts, work, create, start, now, runCsv, decide, names, errorsOf } = useRuns()

let world: Awaited<ReturnType<typeof makeWorld>>
let caller: SignedCaller
let workerDb: TenantDb
type Apply = Universe['imports']['apply']

let universe: Universe

beforeAll(() => {
  ;({ world, caller, workerDb, universe } = parts())
})

describe('what somebody pushes', () => {
  test('over a row of a connector is seen by its next run', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    await runCsv(tenant, connector, csvOf(2))
    const body = [{ external_id: 'E1', name: 'Pushed', type: 'process' }]
    expect((await caller.call(tenant, 'POST', '/api/v1/sync/entities', { body })).status).toBe(200)
    expect(await runCsv(tenant, connector, csvOf(2))).toMatchObject({ counts: { updated: 1, unchanged: 1 } })
    expect(await names(tenant)).toEqual(['Entity 0 active', 'Entity 1 active'])
  })

  test('over a whole hierarchy is seen also for units that it does not name', async () => {
    const tenant = admin()
    const hierarchy = { key: 'legal', name: 'Legal', kind: 'legal_entity' }
    const connector = await create(tenant, { dataset: 'org_structure', hierarchy })
    const csv = 'node_key,parent_key,name\nA,,Bank\nB,A,Branch\n'
    await runCsv(tenant, connector, csv)
    const body = { name: 'Legal', kind: 'legal_entity', mode: 'full', nodes: [{ node_key: 'A', name: 'Bank' }] }
    expect((await caller.call(tenant, 'POST', '/api/v1/sync/org-structures/legal', { body })).status).toBe(200)
    expect(await runCsv(tenant, connector, csv)).toMatchObject({ counts: { reactivated: 1, unchanged: 1 } })
  })

  test('while a run of a connector ends is seen by the next one', async () => {
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
})

describe('a write of another connector during a run is seen by the next run:', () => {
  test('of a row that the run has changed', async () => {
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

  test('of a row that neither of them has found', async () => {
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

describe('a decision about a run that waits', () => {
  test('is applied even if it comes before the worker has released the run', async () => {
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

  test('is final: a run that was overtaken meanwhile does not wait again', async () => {
    const tenant = admin()
    const connector = await create(tenant, { safety: { max_change_pct: 0 } })
    await runCsv(tenant, connector, csvOf(2))
    const run = await start(tenant, connector, csvOf(2, 'Renamed'))
    await work(run, { workerDb: deciding(run, async () => await start(tenant, connector, csvOf(3))) })
    expect(await now(tenant, run)).toMatchObject({ status: 'cancelled', finished_at: expect.any(String) })
  })

  test('is impossible once its connector is retired', async () => {
    const tenant = admin()
    const connector = await create(tenant, { safety: { max_change_pct: 0 } })
    await runCsv(tenant, connector, csvOf(2))
    const run = await runCsv(tenant, connector, csvOf(2, 'Renamed'))
    expect(run.status).toBe('needs_approval')
    expect((await caller.call(tenant, 'DELETE', `/api/v1/connectors/${connector.id}`)).status).toBe(204)
    expect(await now(tenant, run)).toMatchObject({ status: 'cancelled' })
    expect(await decide(tenant, run, 'approve', { diff_hash: run.diff_hash })).toBe(409)
  })
})

describe('changes that are applied', () => {
  test('end with the current batch when the run is cancelled', async () => {
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

  test('are none if the run is cancelled while a batch is rejected', async () => {
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

  test('are applied one batch at a time', async () => {
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

  test('are applied once if the universe is busy, before any later batch', async () => {
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

  test('of a hierarchy that are too large for one transaction are not applied in parts', async () => {
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

  test('are undone from the last to the first, so that a tree that was turned round is turned back', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    await runCsv(tenant, connector, treeOf('A,,First,process\nB,A,Second,process\n'))
    const turned = await runCsv(tenant, connector, treeOf('B,,Second,process\nA,B,First,process\n'))
    expect(turned).toMatchObject({ counts: { moved: 2, applied: 2 } })
    const answer = await caller.call(tenant, 'POST', `/api/v1/sync-runs/${turned.id}/rollback`, { body: {} })
    const undone = runSchema.parse(answer.json)
    await work(undone)
    expect(await now(tenant, undone)).toMatchObject({ status: 'succeeded', counts: { applied: 2 } })
    const changes = await caller.call(tenant, 'GET', `/api/v1/sync-runs/${undone.id}/changes`)
    expect(changes.json).toMatchObject([{ source_key: 'A' }, { source_key: 'B' }])
  })

  test('stay with their run', async () => {
    const tenant = admin()
    await runCsv(tenant, await create(tenant), csvOf(1))
    const give = 'update universe.import_row set run_id = gen_random_uuid() where tenant_id = $1'
    await expect(world.rows(give, [tenant.tenantId])).rejects.toThrow(/stays with the run/)
    await expect(world.rows('truncate sync.run cascade')).rejects.toThrow(/never deleted/)
  })
})

const many = (count: number) =>
  treeOf(Array.from({ length: count }, (_, n) => `E${n},${n === 0 ? '' : 'E0'},Entity ${n},process`).join('\n'))
const changesOf = async (tenant: Principal, run: Run, query: string) =>
  (await caller.call(tenant, 'GET', `/api/v1/sync-runs/${run.id}/changes${query}`)).json

describe('a first import', () => {
  test('lists its changes in the order of the source, and is undone', async () => {
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
    const undone = runSchema.parse(
      (await caller.call(tenant, 'POST', `/api/v1/sync-runs/${run.id}/rollback`, { body: {} })).json,
    )
    await work(undone)
    expect(await now(tenant, undone)).toMatchObject({
      status: 'succeeded',
      counts: { deactivated: 1200, applied: 1200 },
    })
  })

  test('that is cancelled keeps what was applied: the next run compares only the rest', async () => {
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

  test('cannot be undone once a later run has changed one of its rows', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const run = await runCsv(tenant, connector, csvOf(2))
    await runCsv(tenant, connector, csvOf(2, 'Renamed'))
    expect((await caller.call(tenant, 'POST', `/api/v1/sync-runs/${run.id}/rollback`, { body: {} })).status).toBe(409)
  })

  test('is compared row by row if some rows exist, or parents come late', async () => {
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

  test('that fails before its plan leaves no rows and no changes', async () => {
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

  test('with a row that the universe rejects applies the others', async () => {
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
    const errors = await caller.call(tenant, 'GET', `/api/v1/sync-runs/${run.id}/errors`)
    expect(errors.json).toMatchObject([{ source_key: 'E1050', field: 'status', code: 'invalid_transition' }])
    expect(await names(tenant)).toHaveLength(1100)
  })

  test('that waits for approval is applied as it was reviewed', async () => {
    const tenant = admin()
    const connector = await create(tenant, { safety: { min_rows: 5 } })
    const run = await runCsv(tenant, connector, csvOf(3))
    expect(run).toMatchObject({ status: 'needs_approval', counts: { created: 3 } })
    expect(await decide(tenant, run, 'approve', { diff_hash: run.diff_hash })).toBe(202)
    await work(run)
    expect(await now(tenant, run)).toMatchObject({ status: 'succeeded', counts: { applied: 3 } })
    expect(await runCsv(tenant, connector, csvOf(3))).toMatchObject({ counts: { unchanged: 3 } })
  })
})

describe('an unchanged line', () => {
  test('is recognized once: a repeated one is rejected, and one under a changed header is parsed', async () => {
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
  ])('is compared if its row was pushed during the run, also if another line %s', async (_what, csv, updated, last) => {
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
  })
})

describe('missing rows', () => {
  test('are counted when the others were compared, even if another connector takes some over', async () => {
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

  test('count against the limits once: approved ones need no second approval', async () => {
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

  test('are listed with the time since when, until they return, and only for their tenant', async () => {
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

  test('do not include unreadable rows, with or without a key', async () => {
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
})
