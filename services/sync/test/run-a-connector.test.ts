import { randomUUID } from 'node:crypto'
import { type Connector, type Run, connectorSchema, runSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { admin, makeWorld } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let universe: Awaited<ReturnType<typeof world.spawnUniverse>>
let sync: Awaited<ReturnType<typeof world.startSync>>
let caller: SignedCaller

beforeAll(async () => {
  world = await makeWorld()
  universe = await world.spawnUniverse()
  sync = await world.startSync(universe.url)
  caller = world.syncCaller(sync.url)
})

afterAll(async () => {
  await sync.close()
  await universe.stop()
  await world.close()
})

async function create(principal: Principal, fields: Record<string, unknown> = {}): Promise<Connector> {
  const body = { key: `c-${randomUUID()}`, name: 'Spreadsheet', type: 'csv', dataset: 'auditable_entities', ...fields }
  const answer = await caller.call(principal, 'POST', '/api/v1/connectors', { body })
  expect(answer.text).toContain('"id"')
  expect(answer.status).toBe(201)
  return connectorSchema.parse(answer.json)
}

async function startRun(principal: Principal, connector: Connector, csv: string, query = ''): Promise<Run> {
  const answer = await caller.call(principal, 'POST', `/api/v1/connectors/${connector.id}/runs${query}`, {
    body: csv,
    headers: { 'content-type': 'text/csv' },
  })
  expect([answer.status, answer.text]).toEqual([202, expect.any(String)])
  return runSchema.parse(answer.json)
}

async function ended(principal: Principal, run: Run): Promise<Run> {
  return await vi.waitFor(
    async () => {
      const now = runSchema.parse((await caller.call(principal, 'GET', `/api/v1/sync-runs/${run.id}`)).json)
      if (now.finished_at === null && now.status !== 'needs_approval') throw new Error(`still ${now.status}`)
      return now
    },
    { timeout: 60_000, interval: 100 },
  )
}

async function runCsv(principal: Principal, connector: Connector, csv: string, query = ''): Promise<Run> {
  return await ended(principal, await startRun(principal, connector, csv, query))
}

async function names(principal: Principal): Promise<Record<string, string>> {
  const rows = await world.rows(
    `select external_id, name || ' ' || status as name from universe.entity where tenant_id = $1 order by external_id`,
    [principal.tenantId],
  )
  return Object.fromEntries(rows.map((row) => [row['external_id'], row['name']]))
}

const csvOf = (count: number, name = (n: number) => `Entity ${n}`) =>
  ['external_id,name,type', ...Array.from({ length: count }, (_, n) => `E${n},${name(n)},process`)].join('\n')

const treeOf = (rows: readonly string[]) =>
  ['external_id,parent_external_id,name,type', ...rows.map((row) => `${row},process`)].join('\n')

/** 20 rows, the first of them archived. */
const statusTable = (archived: number) =>
  csvOf(20)
    .split('\n')
    .map((line, n) => `${line},${n === 0 ? 'status' : n <= archived ? 'archived' : 'active'}`)
    .join('\n')

describe('a connector that reads an uploaded table', () => {
  test('creates new rows, leaves equal ones and changes different ones', async () => {
    const tenant = admin()
    const connector = await create(tenant, { safety: { max_change_pct: 100 } })
    const csv = 'external_id,parent_external_id,name,type\nB,A,Second,process\nA,,First,department\n'
    const first = await runCsv(tenant, connector, csv)
    expect(first).toMatchObject({ status: 'succeeded', counts: { fetched: 2, valid: 2, created: 2, applied: 2 } })
    expect(await names(tenant)).toEqual({ A: 'First active', B: 'Second active' })
    const again = await runCsv(tenant, connector, csv)
    expect(again).toMatchObject({ status: 'succeeded', counts: { unchanged: 2, created: 0, updated: 0, applied: 0 } })
    const changed = await runCsv(tenant, connector, csv.replace('Second', 'Renamed'))
    expect(changed).toMatchObject({ status: 'succeeded', counts: { unchanged: 1, updated: 1, applied: 1 } })
    expect(await names(tenant)).toEqual({ A: 'First active', B: 'Renamed active' })
  })

  test.each([
    [
      'of which only the beginning is that of a known one',
      String.raw`overlay(hash placing '\x0000000000000000'::bytea from 9)`,
    ],
    ['that was forgotten', 'null'],
  ])('looks again at a row %s', async (_what, hash) => {
    const tenant = admin()
    const connector = await create(tenant)
    const known = 'select source_key, hash from universe.source_row where tenant_id = $1 order by source_key'
    await runCsv(tenant, connector, csvOf(3))
    const learned = await world.rows(known, [tenant.tenantId])
    await world.rows(`update universe.source_row set hash = ${hash} where tenant_id = $1 and source_key = 'E1'`, [
      tenant.tenantId,
    ])
    const again = await runCsv(tenant, connector, csvOf(3))
    expect(again).toMatchObject({ status: 'succeeded', counts: { valid: 3, unchanged: 3, missing: 0, applied: 0 } })
    expect(await world.rows(known, [tenant.tenantId])).toEqual(learned)
  })

  test('does not fail for one bad row, and says for each what to fix', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const csv = [
      'external_id,parent_external_id,name,type',
      'A,,Good,process',
      'B,,,process',
      'A,,Twice,process',
      'C,D,In a circle,process',
      'D,C,In a circle,process',
      'E,nowhere,Orphan,process',
      'F,,Odd,spaceship',
    ].join('\n')
    const run = await runCsv(tenant, connector, csv)
    expect(run).toMatchObject({
      status: 'partial',
      counts: { fetched: 7, valid: 1, invalid: 6, created: 1, applied: 1 },
    })
    const errors = await caller.call(tenant, 'GET', `/api/v1/sync-runs/${run.id}/errors`, {
      headers: { accept: 'text/csv' },
    })
    const lines = errors.text.split('\r\n').filter((line) => line !== '')
    expect(lines[0]).toBe('seq,row,source_key,field,code,message,value_excerpt,severity')
    const found = lines.slice(1).map((line) => line.split(',').slice(1, 5).join(' '))
    expect(found.toSorted()).toEqual([
      '3 B name missing',
      '4 A external_id duplicate',
      '5 C parent_external_id cycle',
      '6 D parent_external_id cycle',
      '7 E parent_external_id unknown_parent',
      '8 F type invalid',
    ])
    expect(await names(tenant)).toEqual({ A: 'Good active' })
  })

  test('finds repeated rows, rows that someone else has changed and cycles among known rows', async () => {
    const tenant = admin()
    const connector = await create(tenant, { safety: { max_change_pct: 100 } })
    const lines = ['A,,First', 'B,A,Second', 'C,B,Third']
    await runCsv(tenant, connector, treeOf(lines))
    const twice = await runCsv(tenant, connector, treeOf([...lines.toReversed(), 'B,A,Second']))
    expect(twice).toMatchObject({ status: 'partial', counts: { fetched: 4, valid: 3, invalid: 1, unchanged: 3 } })
    const before = await runCsv(tenant, connector, treeOf(['B,A,Other', ...lines]))
    expect(before).toMatchObject({ status: 'partial', counts: { fetched: 4, valid: 3, updated: 1, unchanged: 2 } })
    expect(await names(tenant)).toMatchObject({ B: 'Other active' })
    expect(await runCsv(tenant, connector, treeOf(lines))).toMatchObject({ counts: { updated: 1, unchanged: 2 } })
    const circle = await runCsv(tenant, connector, treeOf(['A,C,First', 'B,A,Second', 'C,B,Third']))
    expect(circle).toMatchObject({ status: 'partial', counts: { applied: 0 } })
    const errors = await caller.call(tenant, 'GET', `/api/v1/sync-runs/${circle.id}/errors`)
    expect(errors.json).toMatchObject([{ row: 2, source_key: 'A', code: 'cycle' }])
    // Another connector delivers the same row, so its baseline is invalid.
    const other = await create(tenant, { safety: { max_change_pct: 100 } })
    await runCsv(tenant, other, treeOf(['C,B,Changed']))
    expect(await runCsv(tenant, connector, treeOf(lines))).toMatchObject({
      status: 'succeeded',
      counts: { updated: 1 },
    })
    expect(await names(tenant)).toEqual({ A: 'First active', B: 'Second active', C: 'Third active' })
  })

  test('stops before most of it disappears, and applies exactly what was reviewed once it is approved', async () => {
    const tenant = admin()
    const connector = await create(tenant, { missing_policy: 'deactivate' })
    await runCsv(tenant, connector, csvOf(20))
    const run = await runCsv(tenant, connector, csvOf(5))
    expect(run).toMatchObject({ status: 'needs_approval', counts: { missing: 15, deactivated: 15, applied: 0 } })
    expect(run.breaches.map(({ limit }) => limit)).toEqual(['max_deactivate_pct', 'max_change_pct'])
    expect(Object.values(await names(tenant)).filter((name) => name.endsWith('archived'))).toHaveLength(0)
    const approve = async (hash: string) =>
      await caller.call(tenant, 'POST', `/api/v1/sync-runs/${run.id}/approve`, { body: { diff_hash: hash } })
    expect((await approve('0'.repeat(64))).status).toBe(409)
    expect((await approve(run.diff_hash ?? '')).status).toBe(202)
    expect(await ended(tenant, run)).toMatchObject({ status: 'succeeded', counts: { applied: 15 } })
    expect(Object.values(await names(tenant)).filter((name) => name.endsWith('archived'))).toHaveLength(15)
    expect((await approve(run.diff_hash ?? '')).json).toMatchObject({
      code: 'invalid_transition',
      allowed: ['rollback'],
    })
    // And back again.
    const undo = await caller.call(tenant, 'POST', `/api/v1/sync-runs/${run.id}/rollback`, { body: {} })
    expect(undo.status).toBe(202)
    const undone = await ended(tenant, runSchema.parse(undo.json))
    expect(undone).toMatchObject({ status: 'succeeded', mode: 'rollback', counts: { reactivated: 15, applied: 15 } })
    expect(Object.values(await names(tenant)).filter((name) => name.endsWith('archived'))).toHaveLength(0)
  })

  test.each(['ignore', 'flag'])(
    'stops before the source’s own status field makes much inactive (%s)',
    async (policy) => {
      const tenant = admin()
      const connector = await create(tenant, { missing_policy: policy })
      await runCsv(tenant, connector, statusTable(0))
      const run = await runCsv(tenant, connector, statusTable(3))
      expect(run).toMatchObject({ status: 'needs_approval', counts: { deactivated: 3, missing: 0, applied: 0 } })
      expect(run.breaches).toEqual([{ limit: 'max_deactivate_pct', actual: 15, allowed: 10 }])
      expect(Object.values(await names(tenant)).filter((name) => name.endsWith('archived'))).toHaveLength(0)
      // A change on the limit is applied.
      const kept = await runCsv(tenant, connector, statusTable(2))
      expect(kept).toMatchObject({ status: 'succeeded', counts: { deactivated: 2, applied: 2 } })
    },
  )

  test('asks for approval before its first run changes most rows of others', async () => {
    const tenant = admin()
    const pushed = Array.from({ length: 5 }, (_, n) => ({
      external_id: `E${n}`,
      name: `Entity ${n}`,
      type: 'process',
    }))
    expect((await caller.call(tenant, 'POST', '/api/v1/sync/entities', { body: pushed })).status).toBe(200)
    const run = await runCsv(
      tenant,
      await create(tenant),
      csvOf(5, (n) => `Renamed ${n}`),
    )
    expect(run).toMatchObject({ status: 'needs_approval', counts: { updated: 5, applied: 0 } })
    expect(run.breaches).toEqual([{ limit: 'max_change_pct', actual: 100, allowed: 40 }])
    expect(Object.values(await names(tenant))).not.toContain('Renamed 0 active')
    // Rows that are partly equal and partly changed are accepted.
    const some = await runCsv(
      tenant,
      await create(tenant),
      csvOf(5, (n) => (n < 2 ? `Renamed ${n}` : `Entity ${n}`)),
    )
    expect(some).toMatchObject({ status: 'succeeded', counts: { updated: 2, applied: 2 } })
  })

  test('applies no reviewed changes if the universe has changed since', async () => {
    const tenant = admin()
    const connector = await create(tenant, { safety: { max_change_pct: 0 } })
    await runCsv(tenant, connector, csvOf(3))
    const run = await runCsv(
      tenant,
      connector,
      csvOf(3, (n) => `Renamed ${n}`),
    )
    expect(run.status).toBe('needs_approval')
    const pushed = await caller.call(tenant, 'POST', '/api/v1/sync/entities', {
      body: [{ external_id: 'E1', name: 'Somebody else was here', type: 'process' }],
    })
    expect(pushed.status).toBe(200)
    const body = { diff_hash: run.diff_hash }
    const answer = await caller.call(tenant, 'POST', `/api/v1/sync-runs/${run.id}/approve`, { body })
    expect([answer.status, answer.json]).toEqual([409, expect.objectContaining({ code: 'diff_stale' })])
    expect(await ended(tenant, run)).toMatchObject({ status: 'needs_approval', counts: { applied: 0 } })
    expect(await names(tenant)).toMatchObject({ E0: 'Entity 0 active', E1: 'Somebody else was here active' })
  })

  test('warns about a residual risk above the inherent one, and applies it', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const table =
      'external_id,name,type,inherent_risk.rating,inherent_risk.score,residual_risk.rating,residual_risk.score\nE1,One,process,low,20,high,70\nE2,Two,process,high,70,low,20\n'
    const run = await runCsv(tenant, connector, table)
    expect(run).toMatchObject({ status: 'succeeded', counts: { created: 2, invalid: 0 } })
    const warned = {
      row: 2,
      source_key: 'E1',
      field: 'residual_risk.score',
      severity: 'warning',
      code: 'residual_above_inherent',
      value_excerpt: '70',
    }
    const errors = await caller.call(tenant, 'GET', `/api/v1/sync-runs/${run.id}/errors`)
    expect(errors.json).toMatchObject([warned])
    expect(errors.text).not.toContain('E2')
    expect(Object.keys(await names(tenant))).toEqual(['E1', 'E2'])
  })

  test('lists a rejected row although every row before it has a warning', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const columns =
      'external_id,name,type,inherent_risk.rating,inherent_risk.score,residual_risk.rating,residual_risk.score'
    const doubtful = Array.from({ length: 1005 }, (_, n) => `E${n},One,process,low,20,high,70`)
    const run = await runCsv(tenant, connector, [columns, ...doubtful, 'X,Odd,spaceship,,,,'].join('\n'))
    expect(run).toMatchObject({ status: 'partial', counts: { created: 1005, invalid: 1 } })
    const errors = await caller.call(tenant, 'GET', `/api/v1/sync-runs/${run.id}/errors`, {
      headers: { accept: 'application/x-ndjson' },
    })
    const kept = errors.text.split('\n').filter((line) => line !== '')
    expect(kept).toHaveLength(1001)
    expect(kept.filter((line) => line.includes('"error"'))).toEqual([expect.stringContaining('"X"')])
  })

  test('a dry run shows the changes and applies none', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const run = await runCsv(tenant, connector, csvOf(2), '?mode=dry_run')
    expect(run).toMatchObject({ status: 'succeeded', mode: 'dry_run', counts: { created: 2, applied: 0 } })
    const changes = await caller.call(tenant, 'GET', `/api/v1/sync-runs/${run.id}/changes`)
    expect(changes.json).toMatchObject([
      { op: 'create', source_key: 'E0', before: null, after: { name: 'Entity 0' }, applied_at: null },
      { op: 'create', source_key: 'E1' },
    ])
    expect(await names(tenant)).toEqual({})
  })

  test('of a tenant that is suspended does nothing, and its approved changes wait for a new run', async () => {
    const tenant = admin()
    const connector = await create(tenant, { safety: { max_change_pct: 0 } })
    await runCsv(tenant, connector, csvOf(3))
    const waiting = await runCsv(tenant, connector, csvOf(3).replaceAll('Entity', 'Renamed'))
    expect(waiting.status).toBe('needs_approval')
    const suspend = 'insert into tenancy.suspended_tenant (tenant_id) values ($1)'
    await world.rows(suspend, [tenant.tenantId])
    // Whoever got past the gateway in the last moment.
    const body = { diff_hash: waiting.diff_hash }
    expect((await caller.call(tenant, 'POST', `/api/v1/sync-runs/${waiting.id}/approve`, { body })).status).toBe(202)
    const refused = { status: 'failed', failure: { code: 'tenant_suspended' }, counts: { applied: 0 } }
    expect(await ended(tenant, waiting)).toMatchObject(refused)
    const later = await runCsv(tenant, connector, csvOf(4))
    expect([later, later.counts.fetched]).toMatchObject([refused, 0])
    expect(Object.values(await names(tenant))).toEqual(['Entity 0 active', 'Entity 1 active', 'Entity 2 active'])
    await world.rows('delete from tenancy.suspended_tenant where tenant_id = $1', [tenant.tenantId])
    expect(await runCsv(tenant, connector, csvOf(4))).toMatchObject({ status: 'succeeded', counts: { created: 1 } })
    const read = await caller.call(tenant, 'GET', `/api/v1/connectors/${connector.id}`)
    expect(read.json).toMatchObject({ state: 'active', consecutive_failures: 0 })
  })

  test('applies people, test procedures and hierarchies too, and makes missing ones inactive', async () => {
    const tenant = admin()
    const everything = { max_deactivate_pct: 100, max_change_pct: 100 }
    const of = async (dataset: string, fields: object = {}) =>
      await create(tenant, { dataset, missing_policy: 'deactivate', safety: everything, ...fields })
    const people = await of('people')
    const table =
      'external_id,name,email,title,active\n1,Ada Lund,ada@x.example,Treasurer,yes\n2,Bo Moe,bo@x.example,,no\n'
    expect(await runCsv(tenant, people, table)).toMatchObject({ status: 'succeeded', counts: { created: 2 } })
    const left = await runCsv(tenant, people, table.replace(/1,Ada.*\n/, ''))
    expect(left).toMatchObject({ status: 'succeeded', counts: { deactivated: 1, applied: 1 } })
    await runCsv(tenant, await of('auditable_entities'), csvOf(2))
    const procedures = await of('test_procedures')
    const tests =
      'external_id,title,method,population_size,sample_size,entities\nT1,Access,examine,120,25,E0;E1\nT2,Wrong,look,1,1,\n'
    expect(await runCsv(tenant, procedures, tests)).toMatchObject({
      status: 'partial',
      counts: { created: 1, invalid: 1 },
    })
    const legal = await of('org_structure', { hierarchy: { key: 'legal', name: 'Legal', kind: 'legal_entity' } })
    const nodes = 'node_key,parent_key,name,entities\nB,A,Branch,E1\nA,,Bank,E0;E1\n'
    expect(await runCsv(tenant, legal, nodes)).toMatchObject({ status: 'succeeded', counts: { created: 2 } })
    const moved = await runCsv(tenant, legal, 'node_key,parent_key,name,entities\nA,,Bank,E0;E1\nC,A,Other,\n')
    expect(moved).toMatchObject({ status: 'succeeded', counts: { created: 1, deactivated: 1 } })
    const stored = async (text: string) => await world.rows(text, [tenant.tenantId])
    expect(
      await stored(
        'select external_id, name, email, title, active from universe.person where tenant_id = $1 order by 1',
      ),
    ).toEqual([
      { external_id: '1', name: 'Ada Lund', email: 'ada@x.example', title: 'Treasurer', active: false },
      { external_id: '2', name: 'Bo Moe', email: 'bo@x.example', title: null, active: false },
    ])
    expect(
      await stored(
        'select external_id, sample_size, cardinality(entity_ids) as entities from universe.test_procedure where tenant_id = $1',
      ),
    ).toEqual([{ external_id: 'T1', sample_size: 25, entities: 2 }])
    expect(await stored('select node_key, status from universe.node where tenant_id = $1 order by 1')).toEqual([
      { node_key: 'A', status: 'active' },
      { node_key: 'B', status: 'inactive' },
      { node_key: 'C', status: 'active' },
    ])
  })
})
