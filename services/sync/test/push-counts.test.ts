import { enterpriseUrn, problemDocument, problemSchema, runSchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { CallAnswer, Principal, SignedCaller } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Answers, startSourceServer } from './source-server.ts'
import { admin, makeWorld, push, row } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let universe: Awaited<ReturnType<typeof world.spawnUniverse>>
let sync: Awaited<ReturnType<typeof world.startSync>>
let caller: SignedCaller
beforeAll(async () => {
  world = await makeWorld()
  universe = await world.spawnUniverse()
  sync = await world.startSync(universe.url, { POSTERN_SYNC_WORKERS: '0' })
  caller = world.syncCaller(sync.url)
})
afterAll(async () => {
  await sync.close()
  await universe.stop()
  await world.close()
})

const say =
  (status: number, body: object): Answers[string] =>
  (request, response) => {
    request.resume()
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }

const lastRun = async (tenant: Principal, by = caller) => {
  const [run] = runSchema.array().parse((await by.call(tenant, 'GET', '/api/v1/sync-runs?limit=1')).json)
  if (run === undefined) throw new Error('there is no run')
  return run
}
const countsOf = async (tenant: Principal, by = caller) => (await lastRun(tenant, by)).counts

describe('the counts of a push', () => {
  test('that was rejected distinguish valid rows from invalid ones', async () => {
    const tenant = admin()
    const risk = { inherent_risk: { rating: 'low', score: 1 } }
    const bad = row({ parent_external_id: 'nobody', status: 'archived', ...risk })
    expect((await push(caller, tenant, [row(), bad, row(), row({ parent_external_id: 'nobody' })])).status).toBe(422)
    expect(await lastRun(tenant)).toMatchObject({
      status: 'failed',
      counts: { fetched: 4, valid: 2, invalid: 2, created: 0, updated: 0, applied: 0 },
    })
  })

  test('of a hierarchy too', async () => {
    const tenant = admin()
    const put = async (mode: string, ...nodes: object[]): Promise<CallAnswer> =>
      await caller.call(tenant, 'POST', '/api/v1/sync/org-structures/legal', {
        body: { name: 'Legal', kind: 'legal_entity', mode, nodes },
      })
    const [a, b] = [
      { node_key: 'a', name: 'A' },
      { node_key: 'b', name: 'B', parent_key: 'nobody' },
    ]
    expect((await put('full', a, b)).status).toBe(422)
    expect(await countsOf(tenant)).toMatchObject({ fetched: 2, valid: 1, invalid: 1, applied: 0 })
    expect((await put('full', a, { ...b, parent_key: 'a' })).status).toBe(200)
    expect(await countsOf(tenant)).toMatchObject({ fetched: 2, valid: 2, invalid: 0, created: 2, applied: 2 })
    expect((await put('full', { ...a, name: 'Other' })).status).toBe(200)
    expect(await countsOf(tenant)).toMatchObject({ fetched: 1, valid: 1, updated: 1, deactivated: 1, applied: 2 })
  })

  test('without an answer of the universe do not count rows', async () => {
    const tenant = admin()
    const alone = await world.startSync('http://127.0.0.1:1', { POSTERN_SYNC_WORKERS: '0' })
    try {
      expect((await push(world.syncCaller(alone.url), tenant, [row()])).status).toBe(503)
      expect(await countsOf(tenant)).toMatchObject({ fetched: 1, valid: 0, invalid: 0, applied: 0 })
    } finally {
      await alone.close()
    }
  })

  test('that was applied are those of its answer, and it can neither be undone nor cancelled', async () => {
    const tenant = admin()
    const rows = [row(), row(), row()]
    await push(caller, tenant, rows)
    expect(await countsOf(tenant)).toMatchObject({ fetched: 3, valid: 3, invalid: 0, created: 3, applied: 3 })
    await push(caller, tenant, [{ ...rows[0], name: 'Other' }, rows[1], row()])
    const run = await lastRun(tenant)
    expect(run.counts).toMatchObject({ valid: 3, created: 1, updated: 1, unchanged: 1, applied: 2 })
    for (const decision of ['rollback', 'cancel']) {
      const answer = await caller.call(tenant, 'POST', `/api/v1/sync-runs/${run.id}/${decision}`)
      const problem = problemSchema.parse(answer.json)
      expect([answer.status, problem]).toMatchObject([409, { code: 'invalid_transition', allowed: [] }])
      expect(problem.detail).toContain('A push cannot be')
    }
  })
})

describe('the counts of what an identity provider sends', () => {
  const user = { userName: 'ada@x.example', [enterpriseUrn]: { department: 'Treasury' } }
  const send = async (tenant: Principal, by: SignedCaller) =>
    await by.call(tenant, 'POST', '/scim/v2/Users', {
      body: Buffer.from(JSON.stringify(user)),
      headers: { 'content-type': 'application/scim+json' },
    })

  test('include the person and the nodes', async () => {
    const tenant = admin()
    expect((await send(tenant, caller)).status).toBe(201)
    expect(await countsOf(tenant)).toMatchObject({ fetched: 2, valid: 2, invalid: 0, created: 2, applied: 2 })
  })

  test.each([
    [422, { status: 'failed', counts: { fetched: 2, valid: 1, invalid: 1, created: 0, applied: 0 } }],
    [503, { status: 'failed', counts: { fetched: 2, valid: 0, invalid: 0, created: 0, applied: 0 } }],
  ])('show that neither person nor node was applied if the universe answers %i', async (status, expected) => {
    const tenant = admin()
    const errors = [{ pointer: '/nodes/0/name', code: 'invalid', detail: 'is not taken' }]
    const refusal = problemDocument(status === 422 ? 'invalid_content' : 'service_unavailable', 'r', { errors })
    const stub = await startSourceServer({
      [internalPaths.currentRows]: say(200, { rows: [] }),
      [internalPaths.pushOrgStructures]: say(status, refusal),
    })
    const own = await world.startSync(stub.url, { POSTERN_SYNC_WORKERS: '0' })
    try {
      const by = world.syncCaller(own.url)
      expect((await send(tenant, by)).status).toBeGreaterThanOrEqual(400)
      expect(await lastRun(tenant, by)).toMatchObject(expected)
    } finally {
      await own.close()
      await stub.close()
    }
  })
})

test('a push that was applied never claims the opposite, when the database is too full to record its end', async () => {
  const tenant = admin()
  await world.rows(`create function sync.has_no_room() returns trigger language plpgsql
    as $$ begin raise exception 'no room' using errcode = '53100'; end $$`)
  await world.rows(`create trigger has_no_room before update on sync.run
    for each row when (new.tenant_id = '${tenant.tenantId}') execute function sync.has_no_room()`)
  const rows = [row()]
  try {
    const refused = await push(caller, tenant, [row({ parent_external_id: 'nobody' })])
    expect(problemSchema.parse(refused.json).detail).toMatch('The request changed no data')
    const answer = await push(caller, tenant, rows)
    expect([answer.status, answer.headers['retry-after']]).toEqual([503, '5'])
    expect(problemSchema.parse(answer.json).detail).toMatch(/^The rows may be applied, .* Push the same rows again/)
  } finally {
    await world.rows('drop function sync.has_no_room cascade')
  }
  expect((await push(caller, tenant, rows)).json).toMatchObject({ counts: { created: 0, unchanged: 1 } })
})
