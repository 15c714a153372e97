import { type Run, runSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import { type TenantDb, openServers } from '@postern/tenant-db'
import { beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { openQueue } from '../src/queue/queue.ts'
import { runSchedule } from '../src/schedule/due.ts'
import { defineSourceType } from '../src/source/types.ts'
import type { Universe } from '../src/push/universe.ts'
import { applying, csvOf, useRuns } from './run-support.ts'
import { admin, type makeWorld } from './support.ts'

const { parts, workerParts, work, create, start, now, runCsv, decide, names, undo, errorsOf } = useRuns()

let world: Awaited<ReturnType<typeof makeWorld>>
let caller: SignedCaller
let workerDb: TenantDb
let universe: Universe

beforeAll(() => {
  ;({ world, caller, workerDb, universe } = parts())
})

async function undone(tenant: Principal, run: Run): Promise<Run> {
  const back = await undo(tenant, run)
  await work(back)
  return await now(tenant, back)
}

const drafts = (...statuses: readonly string[]) =>
  ['external_id,name,type,status', ...statuses.map((status, n) => `E${n},Entity ${n},process,${status}`)].join('\n')

const staged = async (run: Run) =>
  await world.rows(`select seq from universe.import_row where run_id = $1 and op = 'keep'`, [run.id])

const waiting = async (tenant: Principal) => {
  await runCsv(tenant, await create(tenant), csvOf(3))
  const connector = await create(tenant, { safety: { min_rows: 5 } })
  const run = await runCsv(tenant, connector, csvOf(3))
  expect([run.status, (await staged(run)).length]).toEqual(['needs_approval', 3])
  return { connector, run }
}

test('rejected rows are sent to the universe once, however many they are', async () => {
  const tenant = admin()
  const connector = await create(tenant, { dataset: 'test_procedures' })
  const lines = Array.from({ length: 120 }, (_, n) => `T${n},Test ${n},examine,E0`)
  const run = await start(tenant, connector, ['external_id,title,method,entities', ...lines].join('\n'))
  let sent = 0
  const counting = applying(universe, async (...asked) => {
    sent += 1
    return await universe.imports.apply(...asked)
  })
  await work(run, { universe: counting })
  // All are rejected at once, and nothing is left then.
  expect(sent).toBe(2)
  expect(await now(tenant, run)).toMatchObject({ status: 'partial', counts: { created: 120, applied: 0 } })
  expect((await errorsOf(tenant, run)).length).toBeGreaterThanOrEqual(100)
})

const longRow = (name: string) => `external_id,name,type,description\n0,${name},process,${'x'.repeat(19_000)}\n`

test('a run reads exactly the bytes of its file, whatever their content and number', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  const many = (name: string) => longRow(name) + longRow(name).split('\n')[1]?.concat('\n').repeat(60)
  const files: readonly [string, Buffer][] = [
    ['Köln', Buffer.from(`\uFEFF${longRow('Köln')}`, 'utf16le')],
    ['Malmö', Buffer.from(longRow('Malmö'), 'latin1')],
    // Where a part ends, a character would.
    ['Łódź', Buffer.from(many('Łódź').replaceAll('xx', '€'))],
    ['Malmö', Buffer.from(many('Malmö'), 'latin1')],
    // Only the second part contains NUL.
    ['Graz', Buffer.from(`${many('Graz')}1,a\0b,process,\n`)],
  ]
  for (const [name, file] of files) {
    const run = await start(tenant, connector, file)
    await work(run)
    expect(await names(tenant)).toEqual([`${name} active`])
    const codes = (await errorsOf(tenant, run)).map(({ row, code }) => [row, code])
    expect(codes.filter(([, code]) => code !== 'duplicate')).toEqual(name === 'Graz' ? [[63, 'control_character']] : [])
  }
})

describe('a draft', () => {
  test('that its source no longer has stays, and the run reports it and applies the rest', async () => {
    const tenant = admin()
    const connector = await create(tenant, { missing_policy: 'deactivate' })
    await runCsv(tenant, connector, drafts('active', 'active', 'draft'))
    for (const deactivated of [1, 0]) {
      const run = await runCsv(tenant, connector, drafts('active'))
      expect(run).toMatchObject({ status: 'succeeded', counts: { missing: 2, deactivated, applied: deactivated } })
      expect(await errorsOf(tenant, run)).toMatchObject([
        { row: null, field: 'status', code: 'draft_stays', message: expect.stringMatching(/^1 rows/) },
      ])
    }
    expect(await names(tenant)).toEqual(['Entity 0 active', 'Entity 1 archived', 'Entity 2 draft'])
  })

  test('that a run has created or activated is left by its rollback, which reports it', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const made = await runCsv(tenant, connector, drafts('active', 'draft', 'draft'))
    const renamed = drafts('active', 'active', 'draft').replace('Entity 1', 'Renamed')
    const run = await runCsv(tenant, connector, renamed)
    expect(run).toMatchObject({ status: 'succeeded', counts: { updated: 1, applied: 1 } })
    const kept = { field: 'status', code: 'not_undone' }
    const second = await undone(tenant, run)
    expect(second).toMatchObject({ status: 'partial', counts: { updated: 1, applied: 1 } })
    expect(await errorsOf(tenant, second)).toMatchObject([{ ...kept, message: expect.stringMatching(/^1 rows/) }])
    expect(await names(tenant)).toEqual(['Entity 0 active', 'Entity 1 active', 'Entity 2 draft'])
    await undone(tenant, second)
    const other = await runCsv(tenant, await create(tenant), drafts('active', 'active', 'draft').replaceAll('E', 'F'))
    const first = await undone(tenant, other)
    expect(first).toMatchObject({ status: 'partial', counts: { deactivated: 2, applied: 2 } })
    expect(await errorsOf(tenant, first)).toMatchObject([{ ...kept, message: expect.stringMatching(/^1 rows/) }])
    expect(made).toMatchObject({ status: 'succeeded' })
  })

  test('and a test procedure have no inactive state, so a rollback reports what it leaves', async () => {
    const tenant = admin()
    await runCsv(tenant, await create(tenant), csvOf(1))
    const connector = await create(tenant, { dataset: 'test_procedures' })
    const run = await runCsv(tenant, connector, 'external_id,title,method,entities\nT1,One,examine,E0\n')
    expect(run).toMatchObject({ status: 'succeeded', counts: { applied: 1 } })
    const back = await undone(tenant, run)
    expect(back).toMatchObject({ status: 'partial', counts: { applied: 0 } })
    expect(await errorsOf(tenant, back)).toMatchObject([{ field: null, code: 'not_undone' }])
  })
})

describe('what a run that waited had read of its source goes', () => {
  test('when it is cancelled, or its connector is retired', async () => {
    const tenant = admin()
    const [one, two] = [await waiting(tenant), await waiting(tenant)]
    expect(await decide(tenant, one.run, 'cancel')).toBe(202)
    expect((await caller.call(tenant, 'DELETE', `/api/v1/connectors/${two.connector.id}`)).status).toBe(204)
    expect([await staged(one.run), await staged(two.run)]).toEqual([[], []])
  })

  test('by the next run of another connector, if that failed', async () => {
    const tenant = admin()
    const { connector, run } = await waiting(tenant)
    // As what retires a connector would, if it died then.
    await world.rows(`update sync.run set status = 'cancelled', finished_at = now() where id = $1`, [run.id])
    await world.rows(`update sync.connector set retired_at = now() where id = $1`, [connector.id])
    await world.rows(
      `insert into universe.source_connector (tenant_id, connector_id, telling, retired_at) values ($1, $2, 1, now())`,
      [tenant.tenantId, connector.id],
    )
    await runCsv(tenant, await create(tenant), csvOf(1))
    expect(await staged(run)).toEqual([])
  })
})

test('a connector has one run at a time: another one is rejected meanwhile, however it is requested', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  const before = await runCsv(tenant, connector, csvOf(1))
  const run = await start(tenant, connector, csvOf(2))
  const upload = { body: csvOf(3), headers: { 'content-type': 'text/csv' } }
  for (const [path, sent] of [
    [`/api/v1/connectors/${connector.id}/runs`, upload],
    [`/api/v1/sync-runs/${before.id}/rollback`, { body: {} }],
  ] as const) {
    const answer = await caller.call(tenant, 'POST', path, sent)
    expect([answer.status, answer.json]).toMatchObject([409, { code: 'run_in_progress' }])
  }
  await work(run)
  expect(await names(tenant)).toHaveLength(2)
  expect(await now(tenant, await start(tenant, connector, csvOf(1)))).toMatchObject({ status: 'queued' })
})

const night = (day: number) => new Date(`2026-07-0${day}T00:30:00.000Z`)

describe('a schedule that is due', () => {
  const schedule = { cron: '30 2 * * *', time_zone: 'Europe/Berlin' }

  /** A connector with a schedule that the test triggers. */
  async function scheduled(tenant: Principal, fields: Record<string, unknown> = {}) {
    const config = { url: 'https://hr.example/people' }
    const connector = await create(tenant, { type: 'http_json', config, schedule, ...fields })
    const sent: Date[] = []
    const logger = workerParts().logger
    const queue = {
      ...openQueue({ servers: openServers(world.database.url('sync')), pollMs: 500, logger }),
      sendSchedule: async (_tx: unknown, _id: string, due: Date) => void sent.push(due),
      sendRun: async () => undefined,
    }
    const begin = async () =>
      runSchema.parse((await caller.call(tenant, 'POST', `/api/v1/connectors/${connector.id}/runs`)).json)
    const runs = async () =>
      runSchema.array().parse((await caller.call(tenant, 'GET', `/api/v1/sync-runs?connector=${connector.key}`)).json)
    const comes = async (due: Date): Promise<void> => {
      await world.rows('update sync.connector set next_run_at = $2 where id = $1', [connector.id, due.toISOString()])
      await runSchedule({ workerDb, queue, logger, now: () => due }, connector.id, due)
    }
    return { sent, begin, runs, comes, close: async () => await queue.close() }
  }

  test('during a run skips this time and waits for the next one', async () => {
    const tenant = admin()
    const { sent, begin, runs, comes, close } = await scheduled(tenant)
    try {
      const run = await begin()
      await comes(night(1))
      expect((await runs()).map(({ id }) => id)).toEqual([run.id])
      expect(sent).toEqual([night(2)])
      expect(await decide(tenant, run, 'cancel')).toBe(202)
      await comes(night(2))
      expect(await runs()).toMatchObject([{ trigger: 'schedule', status: 'queued' }, { id: run.id }])
      expect(sent).toEqual([night(2), night(3)])
    } finally {
      await close()
    }
  })

  test('creates a run although the last five have failed, but none while the connector is paused', async () => {
    const tenant = admin()
    const { sent, runs, comes, close } = await scheduled(tenant)
    const connectorIs = async (state: string) =>
      await world.rows('update sync.connector set state = $2 where tenant_id = $1', [tenant.tenantId, state])
    try {
      await connectorIs('paused')
      await comes(night(1))
      expect([await runs(), sent]).toEqual([[], []])
      await connectorIs('error')
      await comes(night(2))
      expect(await runs()).toMatchObject([{ trigger: 'schedule', status: 'queued' }])
      expect(sent).toEqual([night(3)])
    } finally {
      await close()
    }
  })

  test('while a run waits for approval skips this time, so that the run can still be approved', async () => {
    const tenant = admin()
    const { sent, begin, runs, comes, close } = await scheduled(tenant, { safety: { min_rows: 5 } })
    const source = defineSourceType({
      type: 'http_json',
      configSchema: z.unknown(),
      secretNames: [],
      async *read() {
        yield { kind: 'row' as const, row: 1, values: { external_id: 'A', name: 'A', type: 'process' } }
      },
    })
    const sources = new Map([['http_json', source]])
    try {
      const run = await begin()
      await work(run, { sources })
      const reviewed = await now(tenant, run)
      await comes(night(1))
      expect(await runs()).toEqual([reviewed])
      expect([reviewed.status, sent]).toEqual(['needs_approval', [night(2)]])
      expect(await decide(tenant, run, 'approve', { diff_hash: reviewed.diff_hash })).toBe(202)
      await work(run, { sources })
      await comes(night(2))
      expect(await runs()).toMatchObject([
        { trigger: 'schedule', status: 'queued' },
        { id: run.id, status: 'succeeded', counts: { applied: 1 } },
      ])
    } finally {
      await close()
    }
  })
})

describe('a run in progress', () => {
  test('shows the counts of what was read so far', async () => {
    const tenant = admin()
    const run = await start(tenant, await create(tenant), csvOf(2500))
    const seen = new Set<number>()
    const watched: TenantDb['write'] = async (by, fn) => {
      const done = await workerDb.write(by, fn)
      const { status, counts } = await now(tenant, run)
      if (status === 'fetching') seen.add(counts.fetched)
      return done
    }
    await work(run, { workerDb: { ...workerDb, write: watched } })
    expect([...seen]).toEqual(expect.arrayContaining([0, 1000, 2500]))
    expect(await now(tenant, run)).toMatchObject({ status: 'succeeded', counts: { fetched: 2500, applied: 2500 } })
  })

  test('is reported as events until it ends or waits, only to its tenant', async () => {
    const tenant = admin()
    const limited = await create(tenant, { safety: { min_rows: 5 } })
    for (const [connector, status] of [
      [await create(tenant), 'succeeded'],
      [limited, 'needs_approval'],
    ] as const) {
      const run = await start(tenant, connector, csvOf(2))
      const target = `/api/v1/sync-runs/${run.id}/events`
      const [answer] = await Promise.all([caller.call(tenant, 'GET', target), work(run)])
      expect([answer.status, answer.headers['content-type']]).toEqual([200, 'text/event-stream; charset=utf-8'])
      const frames = answer.text.split('\n\n').filter((frame) => frame.includes('event: run'))
      const told = frames.map((frame) => runSchema.parse(JSON.parse(/^data: (.*)$/m.exec(frame)?.[1] ?? '')))
      expect(told.at(-1)).toEqual(await now(tenant, run))
      expect(told.at(-1)?.status).toBe(status)
      expect(answer.text.endsWith(`event: end\ndata: {"status":"${status}"}\n\n`)).toBe(true)
      expect((await caller.call(admin(), 'GET', target)).status).toBe(404)
    }
  })
})

const table = (column: string, ...cells: readonly string[]) =>
  [`external_id,name,type,${column}`, ...cells.map((cell, n) => `E${n},Entity ${n},process,${cell}`)].join('\n')

test('a value that a database cannot store is an error of only its row, also in a transformation', async () => {
  const tenant = admin()
  const run = await start(tenant, await create(tenant, { dataset: 'people' }), 'any')
  const source = defineSourceType({
    type: 'csv',
    configSchema: z.unknown(),
    secretNames: [],
    async *read() {
      yield { kind: 'row' as const, row: 2, values: { external_id: 'A', name: 'A', active: 'yes' } }
      yield { kind: 'row' as const, row: 3, values: { external_id: 'B', name: 'B', active: 'no\0' } }
    },
  })
  await work(run, { sources: new Map([['csv', source]]) })
  expect(await now(tenant, run)).toMatchObject({ status: 'partial', counts: { valid: 1, invalid: 1, applied: 1 } })
  expect(await errorsOf(tenant, run)).toMatchObject([
    { row: 3, source_key: 'B', field: 'active', code: 'invalid', value_excerpt: 'no' },
  ])
})

test('a renamed column causes a warning, and an empty value does not', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  await runCsv(tenant, connector, table('description', 'One', 'Two', 'Three'))
  const cleared = await runCsv(tenant, connector, table('description', '', 'Two', 'Three'))
  expect([cleared.counts.updated, await errorsOf(tenant, cleared)]).toEqual([1, []])
  const other = await runCsv(tenant, connector, table('Beschreibung', '', 'Two', 'Three'), '?mode=dry_run')
  const gone = { row: null, field: 'description', code: 'field_gone', severity: 'warning' }
  expect(await errorsOf(tenant, other)).toMatchObject([
    { ...gone, message: expect.stringContaining('2 had it before') },
  ])
  expect(other).toMatchObject({ status: 'succeeded', counts: { updated: 2 } })
  expect(await errorsOf(tenant, await runCsv(tenant, connector, table('description', 'A', 'B', 'C')))).toEqual([])
})

test('a first run warns about a source of a rule that no item has, unless the rule has a default', async () => {
  const tenant = admin()
  const mapping = [
    { target: 'external_id', source: '/ids/0' },
    { target: 'name', source: 'name' },
    { target: 'title', source: 'tilte' },
    { target: 'email', source: '/emails/0/value' },
    { target: 'active', source: 'enabled', default: true },
  ]
  const config = { url: 'https://people.example' }
  const connector = await create(tenant, { type: 'http_json', dataset: 'people', config, mapping })
  const source = defineSourceType({
    type: 'http_json',
    configSchema: z.unknown(),
    secretNames: [],
    async *read() {
      yield { kind: 'row' as const, row: 1, values: { ids: ['A'], name: 'A', title: 'T' } }
      yield { kind: 'row' as const, row: 2, values: { ids: ['B'], name: 'B', emails: [{ value: 'b@x.example' }] } }
    },
  })
  const run = async (query = '') => {
    const answer = await caller.call(tenant, 'POST', `/api/v1/connectors/${connector.id}/runs${query}`)
    const begun = runSchema.parse(answer.json)
    await work(begun, { sources: new Map([['http_json', source]]) })
    expect(await now(tenant, begun)).toMatchObject({ status: 'succeeded', counts: { valid: 2 } })
    return await errorsOf(tenant, begun)
  }
  const absent = { row: null, field: 'title', code: 'field_absent', severity: 'warning' }
  const warned = [{ ...absent, message: expect.stringContaining('`tilte`') }]
  expect(await run('?mode=dry_run')).toMatchObject(warned)
  expect(await run()).toMatchObject(warned)
  expect(await run()).toEqual([])
})
