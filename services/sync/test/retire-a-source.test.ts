import type { RetireSourceBody } from '@postern/contracts/internal'
import { type SignedCaller, startTestProxy } from '@postern/local-stack/testing'
import { beforeAll, expect, test } from 'vitest'
import { useEntitySources } from './entity-source-support.ts'
import { admin } from './support.ts'

const { parts, create, start, work, run, read } = useEntitySources()

let world: ReturnType<typeof parts>['world']
let caller: SignedCaller
let process: ReturnType<typeof parts>['process']

beforeAll(() => {
  ;({ world, caller, process } = parts())
})

test('a connector is not retired while the universe is unavailable or a run is in progress', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  await run(tenant, connector, ['A'])
  const path = `/api/v1/connectors/${connector.id}`
  const alone = await world.startSync('http://127.0.0.1:9', { POSTERN_SYNC_WORKERS: '0' })
  try {
    expect((await world.syncCaller(alone.url).call(tenant, 'DELETE', path)).status).toBe(503)
  } finally {
    await alone.close()
  }
  const begun = await start(tenant, connector, ['A'])
  expect((await caller.call(tenant, 'DELETE', path)).status).toBe(409)
  await work(tenant, begun)
  expect((await read(tenant, 'A')).source).toMatchObject({ connector_id: connector.id })
  // One that has brought nothing is nobody's source.
  const unused = await create(tenant)
  expect((await caller.call(tenant, 'DELETE', `/api/v1/connectors/${unused.id}`)).status).toBe(204)
})

/** Starts a proxy to the universe that calls `after` before it returns a response, which may get another status. */
async function standBetween(after: (body: RetireSourceBody) => Promise<number | undefined>) {
  const proxy = await startTestProxy(process.url, async ({ body }, forward) => {
    const answer = await forward()
    return { ...answer, status: (await after(JSON.parse(body.toString()))) ?? answer.status }
  })
  const between = await world.startSync(proxy.url, { POSTERN_SYNC_WORKERS: '0' })
  return {
    caller: world.syncCaller(between.url),
    close: async () => {
      await between.close()
      await proxy.close()
    },
  }
}

const refuseToRetire = `
  do $$
  begin
    create function sync.refuse_to_retire() returns trigger language plpgsql as 'begin raise exception ''no''; end';
    create constraint trigger refuse_to_retire after update on sync.connector deferrable initially deferred
      for each row when (new.retired_at is not null) execute function sync.refuse_to_retire();
  end
  $$`

test.each([
  ['a run has begun', 409],
  ['a run has begun and ended', 409],
  ['another has retired it', 404],
  ['the answer of the universe was lost', 503],
  ['it cannot be committed', 500],
])('a connector whose retirement fails after the universe was informed is a source again: %s', async (what, status) => {
  const tenant = admin()
  const connector = await create(tenant)
  await run(tenant, connector, ['A'])
  const before = await read(tenant, 'A')
  const path = `/api/v1/connectors/${connector.id}`
  let isFirst = true
  const between = await standBetween(async ({ retired }) => {
    if (!retired || !isFirst) return undefined
    isFirst = false
    expect((await read(tenant, 'A')).source).toBeNull()
    if (what === 'a run has begun') await start(tenant, connector, ['A'])
    if (what === 'a run has begun and ended') await run(tenant, connector, ['A'])
    if (what === 'it cannot be committed') await world.rows(refuseToRetire, [])
    if (what === 'another has retired it') {
      expect((await caller.call(tenant, 'DELETE', path)).status).toBe(204)
    }
    return what === 'the answer of the universe was lost' ? 503 : undefined
  })
  try {
    expect((await between.caller.call(tenant, 'DELETE', path)).status).toBe(status)
  } finally {
    await between.close()
    await world.rows('drop function if exists sync.refuse_to_retire cascade', [])
  }
  const { source } = await read(tenant, 'A')
  if (what === 'another has retired it') expect(source).toBeNull()
  else expect(source).toMatchObject({ ...before.source, last_seen_at: expect.any(String) })
})
