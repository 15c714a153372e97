import { connectorSchema, runChangeSchema, runErrorSchema, runSchema } from '@postern/contracts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { admin, makeWorld } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let universe: Awaited<ReturnType<typeof world.spawnUniverse>>
let sync: Awaited<ReturnType<typeof world.startSync>>

beforeAll(async () => {
  world = await makeWorld()
  universe = await world.spawnUniverse()
  sync = await world.startSync(universe.url, { POSTERN_SYNC_WORKERS: '0' })
})

afterAll(async () => {
  await sync.close()
  await universe.stop()
  await world.close()
})

const tenant = admin()

async function startRun(key: string): Promise<string> {
  const caller = world.syncCaller(sync.url)
  const body = { key, name: 'Table', type: 'csv', dataset: 'auditable_entities' }
  const { id } = runSchema
    .pick({ id: true })
    .parse((await caller.call(tenant, 'POST', '/api/v1/connectors', { body })).json)
  const upload = { body: 'external_id,name,type', headers: { 'content-type': 'text/csv' } }
  return runSchema.parse((await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/runs`, upload)).json).id
}

const text = (letter: string): string => `jsonb_build_object('description', repeat('${letter}', 20000))`

/** As if so many changes were planned; `columns`: SQL of what each is. */
async function planned(run: string, columns: string, count: number): Promise<void> {
  await world.rows(
    `insert into universe.import (tenant_id, run_id, attempt, applied_sequence, diff_hash) values ($1, $2, 1, 0, 'planned')`,
    [tenant.tenantId, run],
  )
  await world.rows(
    `insert into universe.import_row (tenant_id, run_id, seq, op, source_key, before, content)
    select $1, $2, n, ${columns} from generate_series(1, $3::integer) as n`,
    [tenant.tenantId, run, count],
  )
}

test('exports are complete although the assertion will expire soon', async () => {
  const run = await startRun('exported')
  await planned(run, `'create', 'E' || n, null, jsonb_build_object('external_id', 'E' || n)`, 3000)
  await world.rows(
    `insert into sync.run_error (tenant_id, run_id, seq, code, message)
    select $1, $2, n, 'invalid', 'It is wrong' from generate_series(1, 3000) as n`,
    [tenant.tenantId, run],
  )
  const exported = async (target: string): Promise<readonly string[]> => {
    const signed = world.syncCaller(sync.url).sign(tenant, 'GET', target, Date.now() - 40_000)
    const answer = await fetch(`${sync.url}${target}`, { headers: { ...signed, accept: 'application/x-ndjson' } })
    expect(answer.status).toBe(200)
    return (await answer.text()).trimEnd().split('\n')
  }
  const changes = await exported(`/api/v1/sync-runs/${run}/changes`)
  expect(changes.map((line) => runChangeSchema.parse(JSON.parse(line)).source_key)).toEqual(
    Array.from({ length: 3000 }, (_none, at) => `E${at + 1}`),
  )
  const errors = await exported(`/api/v1/sync-runs/${run}/errors`)
  expect(errors.map((line) => runErrorSchema.parse(JSON.parse(line)).seq)).toEqual(
    Array.from({ length: 3000 }, (_none, at) => at + 1),
  )
  expect((await exported('/api/v1/sync-runs')).map((line) => runSchema.parse(JSON.parse(line)).id)).toContain(run)
  const connectors = (await exported('/api/v1/connectors')).map((line) => connectorSchema.parse(JSON.parse(line)).key)
  expect(connectors).toContain('exported')
})

test('changes with long texts come in shorter pages and are complete, page by page and as an export', async () => {
  const run = await startRun('long-texts')
  await planned(run, `'update', 'E' || n, ${text('x')}, ${text('y')}`, 900)
  const all = Array.from({ length: 900 }, (_none, at) => at + 1)
  const caller = world.syncCaller(sync.url)
  const pages: number[][] = []
  for (let next: string | undefined = `/api/v1/sync-runs/${run}/changes?limit=1000`; next !== undefined;) {
    const answer = await caller.call(tenant, 'GET', next)
    expect(answer.status).toBe(200)
    pages.push(
      z
        .array(runChangeSchema)
        .parse(answer.json)
        .map(({ seq }) => seq),
    )
    next = /^<([^>]+)>; rel="next"/.exec(answer.headers['link'] ?? '')?.[1]
  }
  expect(pages.length).toBeGreaterThan(1)
  expect(pages.flat()).toEqual(all)
  const target = `/api/v1/sync-runs/${run}/changes`
  const signed = caller.sign(tenant, 'GET', target)
  const answer = await fetch(`${sync.url}${target}`, { headers: { ...signed, accept: 'application/x-ndjson' } })
  const lines = (await answer.text()).trimEnd().split('\n')
  expect(lines.map((line) => runChangeSchema.parse(JSON.parse(line)).seq)).toEqual(all)
})
