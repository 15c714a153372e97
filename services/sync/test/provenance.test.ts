import { randomUUID } from 'node:crypto'
import { runSchema } from '@postern/contracts'
import type { EntitySourcesBody } from '@postern/contracts/internal'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import type { TenantDb } from '@postern/tenant-db'
import { beforeAll, describe, expect, test } from 'vitest'
import { ServiceUnavailableError } from '@postern/service-client'
import type { Universe } from '../src/push/universe.ts'
import { endLostRun } from '../src/worker/carry-out.ts'
import { anything, useEntitySources } from './entity-source-support.ts'
import { admin, push } from './support.ts'

const { parts, workerParts, create, start, work, now, run, read } = useEntitySources()

let world: ReturnType<typeof parts>['world']
let caller: SignedCaller
let workerDb: TenantDb
let universe: Universe
let process: ReturnType<typeof parts>['process']

beforeAll(() => {
  ;({ world, caller, workerDb, universe, process } = parts())
})

test('a run records the source of its entities, and writes only those that it changes', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  expect(await run(tenant, connector, ['A', 'B'])).toMatchObject({ status: 'succeeded' })
  const first = await read(tenant, 'A')
  expect(first).toMatchObject({
    version: 1,
    source: { connector_id: connector.id, source_key: 'A', missing_since: null },
  })
  expect(await run(tenant, connector, ['A', 'B'], { query: '?mode=dry_run' })).toMatchObject({ status: 'succeeded' })
  expect(await read(tenant, 'A')).toEqual(first)
  // Only the time when it was seen has changed.
  expect(await run(tenant, connector, ['A', 'B'])).toMatchObject({ status: 'succeeded', counts: { unchanged: 2 } })
  const second = await read(tenant, 'A')
  expect(second).toEqual({ ...first, source: { ...first.source, last_seen_at: expect.any(String) } })
  expect(second.source?.last_seen_at).not.toBe(first.source?.last_seen_at)
})

test('a row that a source has lost is missing since then, and was last seen in the run before', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  await run(tenant, connector, ['A', 'B'])
  const { source: before } = await read(tenant, 'A')
  await run(tenant, connector, ['B'])
  const missing = await read(tenant, 'A')
  expect(missing).toEqual({
    status: 'active',
    version: 2,
    source: { ...before, missing_since: expect.any(String) },
  })
  const listed = await caller.call(tenant, 'GET', `/api/v1/connectors/${connector.id}/missing`)
  expect(listed.json).toMatchObject([{ source_key: 'A', missing_since: missing.source?.missing_since }])
  await run(tenant, connector, ['B'])
  expect(await read(tenant, 'A')).toEqual(missing)
  await run(tenant, connector, ['A', 'B'])
  const [found, other] = [await read(tenant, 'A'), await read(tenant, 'B')]
  expect(found.source).toEqual({ ...before, last_seen_at: other.source?.last_seen_at })
})

test('a run with unreadable keys marks no other row as missing', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  await run(tenant, connector, ['A', 'B'])
  const before = await read(tenant, 'A')
  expect(await run(tenant, connector, ['B', ':No key'])).toMatchObject({ status: 'partial' })
  expect(await read(tenant, 'A')).toEqual(before)
})

test('a pushed row passes to the connector that delivers it, even if it is unchanged', async () => {
  const tenant = admin()
  const rows = ['A', 'B'].map((key) => ({ external_id: key, name: key, type: 'process' }))
  expect((await push(caller, tenant, rows)).status).toBe(200)
  expect((await read(tenant, 'A')).source).toBeNull()
  const connector = await create(tenant)
  expect(await run(tenant, connector, ['A'])).toMatchObject({ counts: { unchanged: 1, applied: 0 } })
  expect(await read(tenant, 'A')).toMatchObject({ source: { connector_id: connector.id }, version: 2 })
  expect((await read(tenant, 'B')).source).toBeNull()
  await run(tenant, connector, ['A'])
  expect((await read(tenant, 'A')).version).toBe(2)
})

test('a rollback reads no source: created rows become inactive and keep the time when they were seen', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  const made = await run(tenant, connector, ['A'])
  const before = await read(tenant, 'A')
  const answer = await caller.call(tenant, 'POST', `/api/v1/sync-runs/${made.id}/rollback`, { body: {} })
  expect(await work(tenant, runSchema.parse(answer.json))).toMatchObject({ status: 'succeeded', mode: 'rollback' })
  const source = { ...before.source, missing_since: expect.any(String) }
  expect(await read(tenant, 'A')).toEqual({ ...before, source, status: 'archived', version: 3 })
})

/** A database whose worker, once it has done a statement, and before that is committed, waits until something else has happened. */
function holdingAt(name: string, meanwhile: () => Promise<unknown>): TenantDb {
  let isDone = false
  return {
    ...workerDb,
    write: async (tenant, fn) =>
      await workerDb.write(tenant, async (tx) =>
        fn({
          ...tx,
          query: async (statement) => await tx.query(statement),
          execute: async (statement) => {
            const count = await tx.execute(statement)
            if (statement.name === name && !isDone) {
              isDone = true
              await meanwhile()
            }
            return count
          },
        }),
      ),
  }
}

const renamed = async (tenant: Principal) =>
  expect((await push(caller, tenant, [{ external_id: 'A', name: 'Pushed', type: 'process' }])).status).toBe(200)
const away: Universe['tellSources'] = async () =>
  await Promise.reject(new ServiceUnavailableError('The universe service', new Error('away')))
const telling = (tellSources: Universe['tellSources']): Universe => ({ ...universe, tellSources })
const keysOf = ({ rows }: EntitySourcesBody) => rows.map(({ external_id: key }) => key)

/** As after an upgrade: no source is recorded. */
async function forget({ tenantId }: Principal): Promise<void> {
  await world.rows('update sync.known_row set told_connector_id = null where tenant_id = $1', [tenantId])
}

describe('a push over a row', () => {
  test('while its source is being recorded is seen by the next run', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    await run(tenant, connector, ['A', 'B'])
    await forget(tenant)
    const held = holdingAt('sync_mark_told', async () => await renamed(tenant))
    expect(await run(tenant, connector, ['A', 'B'], { workerDb: held })).toMatchObject({ counts: { unchanged: 2 } })
    expect(await run(tenant, connector, ['A', 'B'])).toMatchObject({ counts: { updated: 1, unchanged: 1 } })
  })

  test('while the baseline is being updated is seen by the next run, however this one ends', async () => {
    for (const isLast of [true, false]) {
      const tenant = admin()
      const connector = await create(tenant)
      const begun = await start(tenant, connector, ['A', 'B'])
      const held = holdingAt('sync_learn_creations', async () => await renamed(tenant))
      const ended = work(tenant, begun, { workerDb: held, universe: telling(away), isLast })
      if (isLast) expect(await ended).toMatchObject({ status: 'succeeded' })
      else {
        await expect(ended).rejects.toThrow('The universe service cannot be asked')
        await endLostRun(workerParts(), begun.id)
        expect(await now(tenant, begun)).toMatchObject({ status: 'failed', failure: { code: 'worker_lost' } })
      }
      expect(await run(tenant, connector, ['A', 'B'])).toMatchObject({ counts: { updated: 1, unchanged: 1 } })
    }
  })

  test('before a run creates it is not a creation of the run, and passes to the connector', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const applyRows: Universe['applyRows'] = async (application) => {
      await renamed(tenant)
      return await universe.applyRows(application)
    }
    expect(await run(tenant, connector, ['A'], { universe: { ...universe, applyRows } })).toMatchObject({
      counts: { created: 1 },
    })
    expect((await read(tenant, 'A')).source).toMatchObject({ connector_id: connector.id })
  })
})

test('a row that passes to another connector is compared by its next run', async () => {
  const tenant = admin()
  const [first, second] = [await create(tenant), await create(tenant)]
  await run(tenant, first, ['A', 'B'])
  await run(tenant, second, ['A'])
  await run(tenant, first, ['B'])
  const known = `select connector_id, hash from sync.known_row where tenant_id = $1 and source_key = 'A'`
  expect(await world.rows(known, [tenant.tenantId])).toEqual([{ connector_id: second.id, hash: null }])
  expect(await run(tenant, second, ['A'])).toMatchObject({ counts: { unchanged: 1 } })
})

describe('while the universe is unavailable', () => {
  test('a run without other work succeeds, and the next one records the sources', async () => {
    const tenant = admin()
    const rows = [{ external_id: 'A', name: 'A', type: 'process' }]
    expect((await push(caller, tenant, rows)).status).toBe(200)
    const connector = await create(tenant)
    const begun = await start(tenant, connector, ['A'])
    await expect(work(tenant, begun, { universe: telling(away) })).rejects.toThrow(
      'The universe service cannot be asked',
    )
    const ended = await work(tenant, begun, { universe: telling(away), isLast: true })
    expect(ended).toMatchObject({ status: 'succeeded', failure: null })
    const path = `/api/v1/connectors/${connector.id}`
    expect((await caller.call(tenant, 'GET', path)).json).toMatchObject({ state: 'active', consecutive_failures: 0 })
    expect((await read(tenant, 'A')).source).toBeNull()
    await run(tenant, connector, ['A'])
    expect((await read(tenant, 'A')).source).toMatchObject({ connector_id: connector.id })
  })
})

test('sources of rows that an earlier release wrote are recorded by the next run', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  await run(tenant, connector, ['A', 'B'])
  const [known] = await world.rows(`select hash from sync.known_row where tenant_id = $1 and source_key = 'A'`, [
    tenant.tenantId,
  ])
  await run(tenant, connector, ['B'])
  expect((await read(tenant, 'A')).source?.missing_since).not.toBeNull()
  // It finds the row again, and learns.
  const learn = `update sync.known_row set connector_id = $2, hash = $3, run_id = $4, missing_since = null
    where tenant_id = $1 and source_key = 'A'`
  await world.rows(learn, [tenant.tenantId, connector.id, known?.['hash'], randomUUID()])
  expect(await run(tenant, connector, ['A', 'B'])).toMatchObject({ counts: { unchanged: 2 } })
  expect((await read(tenant, 'A')).source).toMatchObject({ connector_id: connector.id, missing_since: null })
})

test('an approved run records when it read, and not when it was approved', async () => {
  const tenant = admin()
  const connector = await create(tenant, { safety: { ...anything, max_change_pct: 0 } })
  await run(tenant, connector, ['A', 'B', 'C'])
  const waiting = await run(tenant, connector, ['A:Other', 'B'])
  expect(waiting.status).toBe('needs_approval')
  const body = { diff_hash: waiting.diff_hash }
  expect((await caller.call(tenant, 'POST', `/api/v1/sync-runs/${waiting.id}/approve`, { body })).status).toBe(202)
  expect(await work(tenant, waiting)).toMatchObject({ status: 'succeeded', started_at: waiting.started_at })
  expect((await read(tenant, 'B')).source).toMatchObject({ last_seen_at: waiting.started_at, missing_since: null })
  expect((await read(tenant, 'C')).source?.missing_since).toBe(waiting.started_at)
})

async function both(tenant: Principal) {
  const [one, other] = [await create(tenant), await create(tenant)]
  await run(tenant, one, ['A', 'B'])
  return { one, other }
}

describe('entities that two connectors bring', () => {
  test('belong to the first until its source no longer has them, and are not written by runs without changes', async () => {
    const tenant = admin()
    const { one, other } = await both(tenant)
    for (const connector of [other, one, other]) {
      expect(await run(tenant, connector, ['A', 'B'])).toMatchObject({ counts: { unchanged: 2 } })
    }
    expect(await read(tenant, 'A')).toMatchObject({ version: 1, source: { connector_id: one.id, missing_since: null } })
    // The first has lost one, that the other has brought last.
    await run(tenant, one, ['B'])
    await run(tenant, other, ['A', 'B'])
    expect(await read(tenant, 'A')).toMatchObject({
      version: 2,
      source: { connector_id: other.id, missing_since: null },
    })
    expect(await read(tenant, 'B')).toMatchObject({ version: 1, source: { connector_id: one.id } })
    // And one that it has brought last itself, which is not missing: the other has it.
    await run(tenant, one, ['B'])
    await run(tenant, one, [])
    expect((await read(tenant, 'B')).source).toMatchObject({ connector_id: one.id, missing_since: null })
    await run(tenant, other, ['A', 'B'])
    expect((await read(tenant, 'B')).source).toMatchObject({ connector_id: other.id, missing_since: null })
  })

  test('stay active although one connector misses them while the other finds them', async () => {
    const tenant = admin()
    const { one, other } = await both(tenant)
    const late: Universe['tellSources'] = async (asker, body) => {
      if (keysOf(body).includes('A')) await run(tenant, other, ['A', 'B'])
      await universe.tellSources(asker, body)
    }
    await run(tenant, one, ['B'], { universe: telling(late) })
    expect((await read(tenant, 'A')).source?.missing_since).not.toBeNull()
    expect(await run(tenant, other, ['A', 'B'])).toMatchObject({ counts: { applied: 0 } })
    expect((await read(tenant, 'A')).source).toMatchObject({ connector_id: other.id, missing_since: null })
  })

  test('pass to the other one when one is retired; the rest has no source and is not missing', async () => {
    const tenant = admin()
    const { one, other } = await both(tenant)
    await run(tenant, other, ['A'])
    await run(tenant, one, ['A'])
    await run(tenant, other, ['A'])
    const reader = { tenantId: tenant.tenantId, scopes: ['read:universe'] }
    const missing = async () =>
      (await world.universeCaller(process.url).call(reader, 'GET', '/api/v1/entities?missing=true')).json
    expect(await missing()).toMatchObject([{ external_id: 'B', source: { connector_id: one.id } }])
    expect((await caller.call(tenant, 'DELETE', `/api/v1/connectors/${one.id}`)).status).toBe(204)
    expect(await missing()).toEqual([])
    expect([(await read(tenant, 'A')).source, (await read(tenant, 'B')).source]).toEqual([null, null])
    await run(tenant, other, ['A'])
    expect((await read(tenant, 'A')).source).toMatchObject({ connector_id: other.id, missing_since: null })
    expect((await caller.call(tenant, 'DELETE', `/api/v1/connectors/${one.id}`)).status).toBe(404)
  })
})
