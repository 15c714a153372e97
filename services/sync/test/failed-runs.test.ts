import type { Run } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import type { TenantDb } from '@postern/tenant-db'
import { beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { ServiceUnavailableError } from '@postern/service-client'
import { type Imports, ImportConflictError } from '../src/import/imports.ts'
import type { Universe } from '../src/push/universe.ts'
import { SourceReadError } from '../src/source/source-read-error.ts'
import { defineSourceType } from '../src/source/types.ts'
import { endLostRun } from '../src/worker/carry-out.ts'
import { applying, csvOf, treeOf, useRuns } from './run-support.ts'
import { admin, type makeWorld } from './support.ts'

const { parts, workerParts, work, create, start, now, runCsv, decide, names, undo, errorsOf } = useRuns()

let world: Awaited<ReturnType<typeof makeWorld>>
let caller: SignedCaller
let workerDb: TenantDb
let universe: Universe

beforeAll(() => {
  ;({ world, caller, workerDb, universe } = parts())
})

const isAway = async () => await Promise.reject(new ServiceUnavailableError('The universe service', new Error('away')))

const lost = async () =>
  await Promise.reject(new ServiceUnavailableError('The universe service', new Error('no answer')))

/** The universe, whose answer is lost once it has committed a batch. */
function unheard(): Universe {
  return applying(universe, async (...asked) => {
    await universe.imports.apply(...asked)
    return await lost()
  })
}

const withImports = (imports: Partial<Imports>): Universe => ({
  ...universe,
  imports: { ...universe.imports, ...imports },
})

/** A run whose worker has died when the universe had applied its batch. */
async function left(tenant: Principal): Promise<Run> {
  const run = await start(tenant, await create(tenant), csvOf(3))
  await expect(work(run, { universe: unheard() })).rejects.toThrow(/cannot be asked/)
  expect(await now(tenant, run)).toMatchObject({ status: 'applying', counts: { applied: 0 } })
  return run
}

async function undone(tenant: Principal, run: Run): Promise<Run> {
  const back = await undo(tenant, run)
  await work(back)
  return await now(tenant, back)
}

describe('a batch that was applied but not recorded', () => {
  test('is recorded when the run is cancelled, and undone with it', async () => {
    const tenant = admin()
    const run = await left(tenant)
    expect(await decide(tenant, run, 'cancel')).toBe(202)
    await work(run)
    expect(await now(tenant, run)).toMatchObject({ status: 'cancelled', counts: { created: 3, applied: 3 } })
    expect(await undone(tenant, run)).toMatchObject({ status: 'succeeded', counts: { deactivated: 3, applied: 3 } })
    expect(await names(tenant)).toEqual(['Entity 0 archived', 'Entity 1 archived', 'Entity 2 archived'])
  })

  test('is recorded when the tenant is suspended', async () => {
    const tenant = admin()
    const run = await left(tenant)
    await world.rows('insert into tenancy.suspended_tenant (tenant_id) values ($1)', [tenant.tenantId])
    await work(run)
    const ended = { status: 'failed', failure: { code: 'tenant_suspended' }, counts: { applied: 3 } }
    expect(await now(tenant, run)).toMatchObject(ended)
    await world.rows('delete from tenancy.suspended_tenant where tenant_id = $1', [tenant.tenantId])
    expect(await undone(tenant, run)).toMatchObject({ status: 'succeeded', counts: { deactivated: 3 } })
  })

  test('is recorded when the last attempt at the run has failed', async () => {
    const tenant = admin()
    const run = await start(tenant, await create(tenant), csvOf(3))
    await work(run, { universe: unheard() }, { isLast: true })
    const ended = { status: 'failed', failure: { code: 'interrupted' }, counts: { applied: 3 } }
    expect(await now(tenant, run)).toMatchObject(ended)
  })

  test('is recorded with the one before it, and both are undone, the last change first', async () => {
    const tenant = admin()
    const run = await start(tenant, await create(tenant), csvOf(6000))
    const died = applying(universe, async (...asked) => {
      while (!(await universe.imports.apply(...asked)).done);
      throw new Error('this worker has died')
    })
    await expect(work(run, { universe: died })).rejects.toThrow(/died/)
    expect(await names(tenant)).toHaveLength(6000)
    expect(await decide(tenant, run, 'cancel')).toBe(202)
    // Of a tenant that is new PostgreSQL knows nothing before it has looked: it would take all of its entities for one.
    await world.rows('analyze universe.entity')
    await work(run)
    expect(await now(tenant, run)).toMatchObject({ status: 'cancelled', counts: { applied: 6000 } })
    const back = await undo(tenant, run)
    await work(back)
    const counts = { deactivated: 6000, applied: 6000 }
    expect(await now(tenant, back)).toMatchObject({ status: 'succeeded', counts })
    const changes = `select count(*)::int as n, min(seq) as first, max(seq) as last,
        (array_agg(source_key order by seq))[1:2] as keys
      from universe.import_row where run_id = $1`
    expect(await world.rows(changes, [back.id])).toEqual([{ n: 6000, first: 1, last: 6000, keys: ['E5999', 'E5998'] }])
  })

  test('is recorded although one of its rows was changed since', async () => {
    const tenant = admin()
    const run = await left(tenant)
    const body = [{ external_id: 'E1', name: 'Pushed', type: 'process' }]
    expect((await caller.call(tenant, 'POST', '/api/v1/sync/entities', { body })).status).toBe(200)
    expect(await decide(tenant, run, 'cancel')).toBe(202)
    await work(run)
    expect(await now(tenant, run)).toMatchObject({ status: 'cancelled', counts: { applied: 3 } })
    expect(await names(tenant)).toEqual(['Entity 0 active', 'Pushed active', 'Entity 2 active'])
  })

  test('is not applied again when the next attempt sends it, so that what was pushed meanwhile stays', async () => {
    const tenant = admin()
    const run = await left(tenant)
    const body = [{ external_id: 'E1', name: 'Pushed', type: 'process' }]
    expect((await caller.call(tenant, 'POST', '/api/v1/sync/entities', { body })).status).toBe(200)
    await work(run)
    expect(await now(tenant, run)).toMatchObject({ status: 'succeeded', counts: { applied: 3 } })
    expect(await names(tenant)).toEqual(['Entity 0 active', 'Pushed active', 'Entity 2 active'])
  })

  test('keeps its run open until the universe answers, or until the last attempt', async () => {
    const tenant = admin()
    const run = await left(tenant)
    expect(await decide(tenant, run, 'cancel')).toBe(202)
    const away = withImports({ stop: isAway })
    await expect(work(run, { universe: away })).rejects.toThrow('The universe service cannot be asked')
    expect(await now(tenant, run)).toMatchObject({ status: 'applying', finished_at: null })
    await work(run, { universe: away }, { isLast: true })
    expect(await now(tenant, run)).toMatchObject({ status: 'cancelled', counts: { applied: 0 } })
  })

  test('does not keep its run from ending, whatever the universe answers', async () => {
    const tenant = admin()
    const run = await left(tenant)
    const odd = withImports({ stop: async () => await Promise.reject(new TypeError('no answer of ours')) })
    await endLostRun(workerParts({ universe: odd }), run.id)
    const ended = { status: 'failed', failure: { code: 'worker_lost' }, counts: { applied: 0 } }
    expect(await now(tenant, run)).toMatchObject(ended)
  })

  test('is recorded if it was applied only when the last attempt asks again', async () => {
    const tenant = admin()
    let sent: Parameters<Imports['apply']> | undefined
    let asked = 0
    const slow = withImports({
      apply: async (...given) => {
        sent = given
        return await lost()
      },
      stop: async (attempt) => {
        asked += 1
        if (asked === 1) return await isAway()
        if (sent !== undefined) expect((await universe.imports.apply(...sent)).applied).toBe(3)
        return await universe.imports.stop(attempt)
      },
    })
    const run = await start(tenant, await create(tenant), csvOf(3))
    await work(run, { universe: slow, pausesMs: [0] }, { isLast: true })
    const ended = { status: 'failed', failure: { code: 'interrupted' }, counts: { applied: 3 } }
    expect(await now(tenant, run)).toMatchObject(ended)
  })

  test('is rejected if it arrives after its run has ended', async () => {
    const tenant = admin()
    let sent: Parameters<Imports['apply']> | undefined
    const silent = applying(universe, async (...given) => {
      sent = given
      return await lost()
    })
    const run = await start(tenant, await create(tenant), csvOf(3))
    await work(run, { universe: silent }, { isLast: true })
    expect(await now(tenant, run)).toMatchObject({ status: 'failed', counts: { applied: 0 } })
    if (sent === undefined) throw new Error('the run has sent its rows')
    await expect(universe.imports.apply(...sent)).rejects.toThrow(ImportConflictError)
    expect(await names(tenant)).toEqual([])
  })
})

test('a batch is sent again while the universe is busy, and costs the run no attempt', async () => {
  const tenant = admin()
  const run = await start(tenant, await create(tenant), csvOf(3))
  const failures = [new ImportConflictError('busy'), new ServiceUnavailableError('The universe service', 'busy')]
  let sent = 0
  const busy = applying(universe, async (...asked) => {
    const failure = failures[sent]
    sent += 1
    if (failure !== undefined) throw failure
    return await universe.imports.apply(...asked)
  })
  await work(run, { universe: busy, pausesMs: [0, 0, 0] })
  expect(sent).toBe(4)
  expect(await now(tenant, run)).toMatchObject({ status: 'succeeded', attempt: 1, counts: { applied: 3 } })
})

test('a batch that waits to be sent again is dropped once its run is cancelled', async () => {
  const tenant = admin()
  const run = await start(tenant, await create(tenant), csvOf(3))
  let sent = 0
  const cancelling = applying(universe, async () => {
    sent += 1
    expect(await decide(tenant, run, 'cancel')).toBe(202)
    return await isAway()
  })
  await work(run, { universe: cancelling, pausesMs: [0, 0, 0] })
  expect(sent).toBe(1)
  expect(await now(tenant, run)).toMatchObject({ status: 'cancelled', counts: { applied: 0 } })
})

describe('a fault of a whole source is an error of its run, with its position:', () => {
  test.each([
    ['a quote that is never closed', `${csvOf(5)}\nX,"never closed,process\n`, [7, 'column 2', 'quote_open']],
    ['a web page', '<!doctype html><html><body>Sign in</body></html>', ['', '', 'not_a_table']],
    ['a million columns', `${'c,'.repeat(1_000_000)}c\n`, [1, '', 'too_many_columns']],
    ['a column of another name', csvOf(2).replace('external_id', 'id'), [1, 'external_id', 'column_missing']],
    ['columns of another table, without a row', 'ID,Title,Kind\n', [1, 'external_id', 'column_missing']],
    ['such columns in quotes', '"ID","Title","Kind"\n', [1, 'external_id', 'column_missing']],
    ['a web page that begins with a comment', '<!-- c --><html></html>\n', ['', '', 'not_a_table']],
    ['two columns of one name', csvOf(2).replace('type', 'name'), [1, 'name', 'column_repeated']],
  ] as const)('%s', async (_what, csv, [row, field, code]) => {
    const tenant = admin()
    const run = await runCsv(tenant, await create(tenant), csv)
    const message = expect.stringMatching(row === '' ? /^(?!row)/ : new RegExp(`^row ${row}: `))
    expect(run).toMatchObject({ status: 'failed', failure: { code, message } })
    const headers = { accept: 'text/csv' }
    const answer = await caller.call(tenant, 'GET', `/api/v1/sync-runs/${run.id}/errors`, { headers })
    const lines = answer.text.split('\r\n').filter((line) => line !== '')
    expect(lines).toHaveLength(2)
    expect(lines[1]).toMatch(new RegExp(`^1,${row},,${field},${code},`))
  })

  test.each([
    ['a quote that is never closed', `${csvOf(2)}\nX,"never closed,process\n`, 'row 4: a quote is opened'],
    ['a column of another name', csvOf(2).replace('external_id', 'id'), 'row 1: the table has no column external_id'],
    ['such a column, without a row', 'id,name,type\n', 'row 1: the table has no column external_id'],
  ])('a test of the connector reports it with its position too: %s', async (_what, body, told) => {
    const tenant = admin()
    const { id } = await create(tenant)
    const upload = { body, headers: { 'content-type': 'text/csv' } }
    const answer = await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/test`, upload)
    expect([answer.status, answer.text]).toEqual([422, expect.stringContaining(told)])
  })
})

test('a missing column is found even if the mapping reads a member of it (RFC 6901), so nothing is emptied', async () => {
  const tenant = admin()
  const mapping = [
    { target: 'external_id', source: 'external_id' },
    { target: 'name', source: '/name' },
    { target: 'type', source: 'type' },
    { target: 'description', source: '/about~1it' },
  ]
  const connector = await create(tenant, { mapping })
  const table = 'external_id,name,type,about/it\nA,Treasury,process,Pays\n'
  expect(await runCsv(tenant, connector, table)).toMatchObject({ status: 'succeeded' })
  const failure = { code: 'column_missing', message: expect.stringContaining('no column about/it') }
  const drifted = table.replace('about/it', 'about')
  expect(await runCsv(tenant, connector, drifted)).toMatchObject({ status: 'failed', failure })
  const upload = { body: drifted, headers: { 'content-type': 'text/csv' } }
  const tried = await caller.call(tenant, 'POST', `/api/v1/connectors/${connector.id}/test`, upload)
  expect([tried.status, tried.json]).toMatchObject([422, { errors: [{ code: 'column_missing' }] }])
  const described = await world.rows('select description from universe.entity where tenant_id = $1', [tenant.tenantId])
  expect(described).toEqual([{ description: 'Pays' }])
})

test('the hash of a plan is the same for a dry run, a run that waits, and one that is applied', async () => {
  const hashes = new Set<string | null>()
  for (const [query, safety, status] of [
    ['?mode=dry_run', {}, 'succeeded'],
    ['', { min_rows: 5 }, 'needs_approval'],
    ['', {}, 'succeeded'],
  ] as const) {
    const tenant = admin()
    const run = await runCsv(tenant, await create(tenant, { safety }), csvOf(3), query)
    expect(run).toMatchObject({ status, diff_hash: expect.any(String), counts: { created: 3 } })
    hashes.add(run.diff_hash)
  }
  expect(hashes.size).toBe(1)
})

test('a connector is in error after five failures until a run succeeds; cancelled and undone runs do not count', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  const state = async () => (await caller.call(tenant, 'GET', `/api/v1/connectors/${connector.id}`)).json
  const failing = { state: 'error', consecutive_failures: 5 }
  const made = await runCsv(tenant, connector, csvOf(2))
  for (let run = 1; run <= 5; run += 1) await runCsv(tenant, connector, '<!doctype html>')
  expect(await state()).toMatchObject(failing)
  const cancelled = await start(tenant, connector, csvOf(2))
  const cancelling = defineSourceType({
    type: 'csv',
    configSchema: z.unknown(),
    secretNames: [],
    async *read() {
      expect(await decide(tenant, cancelled, 'cancel')).toBe(202)
      yield { kind: 'row' as const, row: 2, values: { external_id: 'A', name: 'A', type: 'process' } }
    },
  })
  await work(cancelled, { sources: new Map([['csv', cancelling]]) })
  expect([await now(tenant, cancelled), await state()]).toMatchObject([{ status: 'cancelled' }, failing])
  await world.rows('insert into tenancy.suspended_tenant (tenant_id) values ($1)', [tenant.tenantId])
  const suspended = await runCsv(tenant, connector, csvOf(2))
  await world.rows('delete from tenancy.suspended_tenant where tenant_id = $1', [tenant.tenantId])
  expect([suspended, await state()]).toMatchObject([{ failure: { code: 'tenant_suspended' } }, failing])
  expect([await undone(tenant, made), await state()]).toMatchObject([{ status: 'succeeded' }, failing])
  await runCsv(tenant, connector, csvOf(2))
  expect(await state()).toMatchObject({ state: 'active', consecutive_failures: 0 })
})

/** A source that is away for now, and during whose first read `meanwhile` is done. */
function awaySource(meanwhile: () => Promise<unknown> = async () => undefined) {
  const source = defineSourceType({
    type: 'csv',
    configSchema: z.unknown(),
    secretNames: [],
    async *read() {
      yield { kind: 'row' as const, row: 2, values: { external_id: 'A', name: 'A', type: 'process' } }
      await meanwhile()
      throw new SourceReadError('source_unreachable', 'is away', { retryable: true })
    },
  })
  return { sources: new Map([['csv', source]]) }
}

describe('a run that waits to retry an unavailable source', () => {
  test('is cancelled at once, and another one can begin', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const run = await start(tenant, connector, csvOf(2))
    await expect(work(run, awaySource(), { isLast: false })).rejects.toThrow(/is away/)
    expect(await now(tenant, run)).toMatchObject({ status: 'fetching', finished_at: null })
    expect(await errorsOf(tenant, run)).toMatchObject([
      { severity: 'warning', code: 'source_unreachable', message: 'is away. The run will be retried' },
    ])
    expect(await decide(tenant, run, 'cancel')).toBe(202)
    expect(await now(tenant, run)).toMatchObject({ status: 'cancelled', finished_at: expect.any(String) })
    expect(await runCsv(tenant, connector, csvOf(2))).toMatchObject({ status: 'succeeded', counts: { applied: 2 } })
    // The attempt that the queue still makes finds nothing to do.
    await work(run, awaySource(), { isLast: false })
    expect(await now(tenant, run)).toMatchObject({ status: 'cancelled', counts: { applied: 0 } })
  })

  test('that is cancelled during an attempt ends as cancelled with it', async () => {
    const tenant = admin()
    const run = await start(tenant, await create(tenant), csvOf(2))
    const cancel = async () => expect(await decide(tenant, run, 'cancel')).toBe(202)
    await work(run, awaySource(cancel), { isLast: false })
    expect(await now(tenant, run)).toMatchObject({ status: 'cancelled', failure: null })
  })

  test('is retried unless it is cancelled', async () => {
    const tenant = admin()
    const run = await start(tenant, await create(tenant), csvOf(2))
    await expect(work(run, awaySource(), { isLast: false })).rejects.toThrow(/is away/)
    await work(run)
    expect(await now(tenant, run)).toMatchObject({ status: 'succeeded', counts: { applied: 2 } })
    expect(await errorsOf(tenant, run)).toEqual([])
  })
})

test('a run that waited for approval says that another one superseded it', async () => {
  const tenant = admin()
  const connector = await create(tenant, { safety: { min_rows: 5 } })
  const waiting = await runCsv(tenant, connector, csvOf(3))
  expect(await errorsOf(tenant, waiting)).toEqual([])
  await runCsv(tenant, connector, csvOf(4))
  expect(await now(tenant, waiting)).toMatchObject({ status: 'cancelled', failure: null })
  const message = expect.stringContaining('another run of the connector has begun')
  expect(await errorsOf(tenant, waiting)).toMatchObject([
    { row: null, severity: 'warning', code: 'superseded', message },
  ])
})

test('a run that waited for approval says that its connector was retired, but not that it was changed', async () => {
  const tenant = admin()
  const connector = await create(tenant, { safety: { min_rows: 5 } })
  const waiting = await runCsv(tenant, connector, csvOf(3))
  const change = { body: { name: 'Other' }, headers: { 'if-match': '*' } }
  const path = `/api/v1/connectors/${connector.id}`
  expect((await parts().caller.call(tenant, 'PATCH', path, change)).status).toBe(200)
  expect([(await now(tenant, waiting)).status, await errorsOf(tenant, waiting)]).toEqual(['needs_approval', []])
  expect((await parts().caller.call(tenant, 'DELETE', path)).status).toBe(204)
  const message = expect.stringContaining('the connector was retired')
  expect(await errorsOf(tenant, waiting)).toMatchObject([{ code: 'superseded', message }])
})

describe('a rejection of the universe', () => {
  test('is reported with the row of the source, its field and its value', async () => {
    const tenant = admin()
    const connector = await create(tenant, { dataset: 'test_procedures' })
    await runCsv(tenant, await create(tenant), csvOf(1))
    const table = 'external_id,title,method,entities\nT1,One,examine,E0\nT2,Two,examine,E0;E9\n'
    const run = await runCsv(tenant, connector, table)
    expect(run).toMatchObject({ status: 'partial', counts: { applied: 1 } })
    const refused = { row: 3, source_key: 'T2', field: 'entities.1', value_excerpt: 'E9' }
    expect(await errorsOf(tenant, run)).toMatchObject([refused])
  })

  test('counts against the limit of errors, like faults between rows', async () => {
    const tenant = admin()
    const full = `insert into sync.run_error (tenant_id, run_id, seq, code, message)
      select $1, $2, n, 'invalid', 'x' from generate_series(1, 99999) as n`
    const rows = 'A,,A,process\nA,,B,process\nA,,C,process\nX,nowhere,X,process\n'
    const run = await start(tenant, await create(tenant), treeOf(rows))
    let isFull = false
    const filling: TenantDb['write'] = async (by, fn) => {
      const [state] = await world.rows('select status from sync.run where id = $1', [run.id])
      if (state?.['status'] === 'validating' && !isFull) {
        isFull = true
        await world.rows(full, [tenant.tenantId, run.id])
      }
      return await workerDb.write(by, fn)
    }
    await work(run, { workerDb: { ...workerDb, write: filling } })
    expect(await now(tenant, run)).toMatchObject({ status: 'partial', counts: { valid: 1, invalid: 3, applied: 1 } })
    const kept = await world.rows('select row, code from sync.run_error where run_id = $1 and seq > 99999', [run.id])
    expect(kept).toEqual([{ row: 3, code: 'duplicate' }])
  })
})

test('of a chain that is too deep is reported for each row below the last level, and not as a cycle', async () => {
  const tenant = admin()
  const chain = Array.from({ length: 15 }, (_, n) => `E${n},${n === 0 ? '' : `E${n - 1}`},Level ${n + 1},process`)
  const run = await runCsv(tenant, await create(tenant), treeOf(chain.join('\n')))
  expect(run).toMatchObject({ status: 'partial', counts: { valid: 12, invalid: 3, applied: 12 } })
  expect(await errorsOf(tenant, run)).toMatchObject(
    [14, 15, 16].map((row) => ({ row, field: 'parent_external_id', code: 'too_deep' })),
  )
})

test('a worker that dies between batches loses nothing of them', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  for (const csv of [csvOf(6000), csvOf(6000, 'Renamed')]) {
    // As autovacuum would have done by then: without statistics of 6,000 rows an update of them takes ten times as long.
    await world.rows('analyze')
    const run = await start(tenant, connector, csv)
    const dying = applying(universe, async (...asked) => {
      await universe.imports.apply(...asked)
      throw new Error('this worker has died')
    })
    await expect(work(run, { universe: dying })).rejects.toThrow(/died/)
    await work(run)
    expect(await now(tenant, run)).toMatchObject({ status: 'succeeded', counts: { applied: 6000 } })
    expect(await runCsv(tenant, connector, csv)).toMatchObject({ counts: { unchanged: 6000, missing: 0 } })
  }
})
