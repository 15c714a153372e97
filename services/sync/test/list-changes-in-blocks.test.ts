import { type RunChange, connectorSchema, runChangeSchema, runErrorSchema, runSchema } from '@postern/contracts'
import { mintAssertion, parseKeyRing } from '@postern/signed-context'
import { type Tx, openTenantDb } from '@postern/tenant-db'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { countChanges, listChanges } from '../src/diff/list-store.ts'
import { admin, makeWorld } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let sync: Awaited<ReturnType<typeof world.startSync>>

beforeAll(async () => {
  world = await makeWorld()
  sync = await world.startSync('http://127.0.0.1:9', { POSTERN_SYNC_WORKERS: '0' })
})

afterAll(async () => {
  await sync.close()
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

test('pages of changes in blocks are complete, with any query plan', async () => {
  const [run, other] = [await startRun('in-blocks'), await startRun('in-rows')]
  // Every second row, a thousand of them in one block and the others three by three.
  await world.rows(
    `insert into sync.run_creation (tenant_id, run_id, first_row, last_row, rows, keys, parents, hashes, contents)
    select $1, $2, min(one.row), max(one.row), array_agg(one.row order by one.row), array_agg('E' || one.row order by one.row),
      array_agg(null::text), array_agg(null::bytea), string_agg('{"external_id":"E' || one.row || '"}', E'\\n' order by one.row)
    from (select n * 2 as row, case when n > 1000 then n / 3 end as block from generate_series(1, 2500) as n) as one
    group by one.block`,
    [tenant.tenantId, run],
  )
  await world.rows(
    `insert into sync.run_change (tenant_id, run_id, seq, op, source_key, after)
    select $1, $2, n, 'create', 'E' || n, '{}' from generate_series(1, 20000) as n`,
    [tenant.tenantId, other],
  )
  await world.rows('analyze sync.run_change, sync.run_creation')
  const assertions = parseKeyRing(world.database.assertionKeys)
  /** Each read is separate, like requests. */
  const reading = async <T>(
    work: (read: (fn: (tx: Tx) => Promise<T>) => Promise<T>) => Promise<void>,
  ): Promise<void> => {
    const db = openTenantDb({
      connectionString: world.database.url('sync'),
      maxConnections: 1,
      connectTimeoutMs: 60_000,
      queryTimeoutMs: 60_000,
      applicationName: 'sync-test-lists',
    })
    try {
      await work(async (fn) => {
        const assertion = mintAssertion(assertions, tenant.tenantId, Date.now())
        return await db.read({ assertion }, fn)
      })
    } finally {
      await db.close()
    }
  }
  const pagesOf = async (isNested: boolean): Promise<readonly (readonly string[])[]> => {
    const pages: string[][] = []
    const setting = { text: `set local enable_nestloop = ${isNested ? 'on' : 'off'}`, values: [] }
    await reading<readonly RunChange[]>(async (read) => {
      for (let after = 0; ;) {
        const page = await read(async (tx) => {
          const [, changes] = await Promise.all([tx.execute(setting), listChanges(tx, run, undefined, after, 7)])
          return changes
        })
        const last = page.at(-1)
        if (last === undefined) return
        pages.push(page.map(({ source_key: key }) => key))
        after = last.seq
      }
    })
    return pages
  }
  const count = async (ops?: readonly string[]): Promise<number> => {
    let total = 0
    await reading<number>(async (read) => {
      total = await read(async (tx) => await countChanges(tx, run, ops))
    })
    return total
  }
  // Before the run is planned they are no changes.
  expect([await pagesOf(true), await count()]).toEqual([[], 0])
  await world.rows(`update sync.run set diff_hash = 'planned' where id = $1`, [run])
  const keys = Array.from({ length: 2500 }, (_, n) => `E${(n + 1) * 2}`)
  const pages = Array.from({ length: Math.ceil(2500 / 7) }, (_, page) => keys.slice(page * 7, page * 7 + 7))
  expect(await pagesOf(true)).toEqual(pages)
  expect(await pagesOf(false)).toEqual(pages)
  expect([await count(), await count(['create']), await count(['update'])]).toEqual([2500, 2500, 0])
})

test('exports are complete although the assertion will expire soon', async () => {
  const run = await startRun('exported')
  await world.rows(
    `insert into sync.run_creation (tenant_id, run_id, first_row, last_row, rows, keys, parents, hashes, contents)
    select $1, $2, min(n), max(n), array_agg(n order by n), array_agg('E' || n order by n), array_agg(null::text), array_agg(null::bytea),
      string_agg('{"external_id":"E' || n || '"}', E'\\n' order by n)
    from generate_series(1, 3000) as n
    group by n / 1000`,
    [tenant.tenantId, run],
  )
  await world.rows(`update sync.run set diff_hash = 'planned' where id = $1`, [run])
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
  await world.rows(
    `insert into sync.run_change (tenant_id, run_id, seq, op, source_key, before, after)
    select $1, $2, n, 'update', 'E' || n, jsonb_build_object('description', repeat('x', 20000)),
      jsonb_build_object('description', repeat('y', 20000))
    from generate_series(1, 900) as n`,
    [tenant.tenantId, run],
  )
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
