import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { entitySchema, problemSchema, pushResultSchema } from '@postern/contracts'
import { type CallAnswer, type Principal, createTestCaller, randomRing } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { admin, makeWorld, push, row } from './support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let universe: Awaited<ReturnType<typeof world.spawnUniverse>>
let sync: Awaited<ReturnType<typeof world.startSync>>
let caller: ReturnType<typeof world.syncCaller>
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

const problemOf = (answer: { json: unknown }) => problemSchema.parse(answer.json)
const runsOf = async (tenantId: string) =>
  await world.rows('select id, status, failure from sync.run where tenant_id = $1 order by id', [tenantId])

async function entitiesOf(tenantId: string) {
  const reader = { tenantId, scopes: ['read:universe'] }
  const answer = await world.universeCaller(universe.url).call(reader, 'GET', '/api/v1/entities')
  expect(answer).toMatchObject({ status: 200 })
  return z.array(entitySchema).parse(answer.json)
}

async function pushLines(principal: Principal, body: string): Promise<CallAnswer> {
  const headers = { 'content-type': 'application/x-ndjson' }
  return await caller.call(principal, 'POST', '/api/v1/sync/entities', { body, headers })
}

describe('a push is refused and changes nothing', () => {
  test('without the signature of the gateway', async () => {
    const answer = await fetch(`${sync.url}/api/v1/sync/entities`, {
      method: 'POST',
      body: JSON.stringify([row()]),
      headers: { 'content-type': 'application/json' },
    })
    expect(answer.status).toBe(401)
  })

  test('with a signature made with another secret', async () => {
    const { assertionKeys } = world.database
    const stranger = createTestCaller({ baseUrl: sync.url, keyName: 'sync', ring: randomRing(), assertionKeys })
    expect((await push(stranger, admin(), [row()])).status).toBe(401)
  })

  test.each(['read:universe', 'read:findings', 'write:findings', 'write:evidence'])(
    'with the scope %s',
    async (scope) => {
      const principal = { ...admin(), scopes: [scope] }
      const answer = await push(caller, principal, [row()])
      expect(answer.status).toBe(403)
      expect(problemOf(answer)).toMatchObject({ code: 'insufficient_scope', required_scope: 'admin:sync' })
      expect(await runsOf(principal.tenantId)).toEqual([])
    },
  )

  test.each([
    [
      'a line that is not JSON',
      '{"external_id":"A"}\n\n{"external_id"\n',
      400,
      '/1/external_id',
      'look at line 3, column 15',
    ],
    ['two rows in a line', '{"external_id":"A"}{"external_id":"B"}', 400, '/0', 'line 1'],
    [
      'a member twice',
      '\n{"external_id":"A","external_id":"B"}',
      400,
      '/0/external_id',
      '`/0/external_id` occurs more than once',
    ],
    [
      'half a character',
      `${JSON.stringify(row())}\n{"name":"\\ud800"}`,
      422,
      '/1/name',
      '`/1/name` must not contain NUL',
    ],
    ['no row', '\r\n \n', 422, '', 'The body must have at least 1 item.'],
    ['a line that only looks empty', '\u00a0\n', 400, '/0', 'line 1'],
    ['lines without end', '\n'.repeat(20_001), 422, '', 'The body must have at least 1 item.'],
    [
      'a row that is not valid',
      `${JSON.stringify(row())}\r\n{"external_id":"B"}`,
      422,
      '/1/name',
      '`/1/name` is missing.',
    ],
  ])('as lines: %s, with its place', async (_what, body, status, pointer, words) => {
    const principal = admin()
    const answer = await pushLines(principal, body)
    expect(answer.status).toBe(status)
    const { detail, errors } = problemOf(answer)
    expect([detail, errors?.map((error) => error.pointer)]).toEqual([
      expect.stringContaining(words),
      expect.arrayContaining([pointer]),
    ])
    expect(await runsOf(principal.tenantId)).toEqual([])
  })

  test('as another media type than JSON', async () => {
    const answer = await caller.call(admin(), 'POST', '/api/v1/sync/entities', {
      body: 'external_id,name\n',
      headers: { 'content-type': 'text/csv' },
    })
    expect(answer.status).toBe(415)
  })

  test.each(['/api/v1/connectors', '/api/v1/sync/org-structures/management'])(
    'as lines by %s, which does not accept them',
    async (path) => {
      const headers = { 'content-type': 'application/x-ndjson' }
      for (const body of ['{"broken\n', '1\n'.repeat(20_001)])
        expect((await caller.call(admin(), 'POST', path, { body, headers })).status).toBe(415)
    },
  )

  test.each([
    ['no array', {}, ''],
    ['an empty array', [], ''],
    ['too many rows', Array.from({ length: 5001 }, () => row()), ''],
    ['a row without its key', [{ name: 'Treasury', type: 'department' }], '/0/external_id'],
    ['an unknown field', [row(), row({ tenant_id: randomUUID() })], '/1/tenant_id'],
    ['an unknown type', [row({ type: 'galaxy' })], '/0/type'],
  ])('with %s', async (_what, body, pointer) => {
    const principal = admin()
    const answer = await push(caller, principal, body)
    expect(answer.status).toBe(422)
    expect(problemOf(answer).errors?.[0]?.pointer).toBe(pointer)
    expect(await runsOf(principal.tenantId)).toEqual([])
  })

  test('when one row among good ones is not valid in the universe, with its position', async () => {
    const principal = admin()
    const [good, bad] = [row(), row({ parent_external_id: 'nobody' })]
    const answer = await push(caller, principal, [good, bad])
    expect(answer).toMatchObject({ status: 422 })
    const { code, errors } = problemOf(answer)
    expect(code).toBe('invalid_content')
    expect(errors?.map(({ pointer }) => pointer)).toEqual(['/1/parent_external_id'])
    expect(await entitiesOf(principal.tenantId)).toEqual([])
    expect(await runsOf(principal.tenantId)).toMatchObject([{ status: 'failed', failure: 'refused' }])
    expect((await push(caller, principal, [good])).status).toBe(200)
  })

  test('when very many rows are not valid, with the first fifty of them', async () => {
    const rows = Array.from({ length: 60 }, () => row({ parent_external_id: 'nobody' }))
    expect(problemOf(await push(caller, admin(), rows)).errors).toHaveLength(50)
  })
})

const risks = (inherent: number, residual: number) => ({
  inherent_risk: { rating: 'low', score: inherent },
  residual_risk: { rating: 'low', score: residual },
})

describe('a push', () => {
  test('is applied to the universe, even with children before their parents', async () => {
    const principal = admin()
    const answer = await push(caller, principal, [
      row({ external_id: 'child', name: 'Payments', parent_external_id: 'parent' }),
      row({ external_id: 'parent', name: 'Operations', type: 'business_unit' }),
    ])
    expect(answer).toMatchObject({ status: 200 })
    const result = pushResultSchema.parse(answer.json)
    expect(result).toMatchObject({
      status: 'succeeded',
      counts: { fetched: 2, created: 2, updated: 0, unchanged: 0 },
    })
    const entities = await entitiesOf(principal.tenantId)
    const parent = entities.find(({ external_id }) => external_id === 'parent')
    const child = entities.find(({ external_id }) => external_id === 'child')
    const [connector] = await world.rows('select id from sync.connector where tenant_id = $1', [principal.tenantId])
    expect(parent).toMatchObject({ name: 'Operations', created_by: { type: 'connector', id: connector?.['id'] } })
    expect(child).toMatchObject({ name: 'Payments', parent_id: parent?.id })
    expect(await runsOf(principal.tenantId)).toEqual([{ id: result.run_id, status: 'succeeded', failure: null }])
  })

  test('of lines is applied like a list', async () => {
    const principal = admin()
    const rows = [row(), row(), row()]
    const answer = await pushLines(principal, `${rows.map((one) => JSON.stringify(one)).join('\r\n')}\n\n`)
    expect([answer.status, answer.json]).toMatchObject([200, { counts: { fetched: 3, created: 3 } }])
    expect((await push(caller, principal, rows)).json).toMatchObject({ counts: { fetched: 3, unchanged: 3 } })
  })

  test('of a residual risk above the inherent one is applied with a warning', async () => {
    const principal = admin()
    const answer = await push(caller, principal, [row(risks(50, 50)), row(risks(40, 40.5)), row()])
    const { warnings, counts } = pushResultSchema.parse(answer.json)
    expect(counts.created).toBe(3)
    expect(warnings).toEqual([
      { pointer: '/1/residual_risk/score', code: 'residual_above_inherent', detail: expect.stringContaining('40') },
    ])
    expect(pushResultSchema.parse((await push(caller, principal, [row(risks(50, 50))])).json).warnings).toBeUndefined()
  })

  test('that is repeated changes nothing, and only a changed row is updated', async () => {
    const principal = admin()
    const rows = [row({ name: 'Payments' }), row({ name: 'Treasury' })]
    const countsOf = async (body: unknown) => pushResultSchema.parse((await push(caller, principal, body)).json).counts
    expect(await countsOf(rows)).toEqual({ fetched: 2, created: 2, updated: 0, unchanged: 0 })
    expect(await countsOf(rows)).toEqual({ fetched: 2, created: 0, updated: 0, unchanged: 2 })
    const changed = [{ ...rows[0], name: 'Payments and cards' }, rows[1]]
    expect(await countsOf(changed)).toEqual({ fetched: 2, created: 0, updated: 1, unchanged: 1 })
  })

  test('records who made it: the key, its label and the request', async () => {
    const principal = admin()
    await caller.call(principal, 'POST', '/api/v1/sync/entities', {
      body: [row()],
      headers: { 'x-request-id': 'request-of-the-test' },
    })
    const [run] = await world.rows('select * from sync.run where tenant_id = $1', [principal.tenantId])
    expect(run).toMatchObject({
      source: 'inline',
      created_by_type: 'api_key',
      created_by_id: 'key-1',
      created_by_label: 'Nightly push',
      request_id: 'request-of-the-test',
    })
  })

  test('of one tenant is not seen by another, though both use the same keys', async () => {
    const [one, other] = [admin(), admin()]
    await push(caller, one, [row({ external_id: 'SAP-1', name: 'One' })])
    const answer = await push(caller, other, [row({ external_id: 'SAP-1', name: 'Other' })])
    expect(pushResultSchema.parse(answer.json).counts.created).toBe(1)
    expect((await entitiesOf(one.tenantId)).map(({ name }) => name)).toEqual(['One'])
    expect((await entitiesOf(other.tenantId)).map(({ name }) => name)).toEqual(['Other'])
  })

  test('ends only the runs of its tenant that a crash has left running', async () => {
    const [principal, other] = [admin(), admin()]
    await leaveRunning(principal.tenantId, 6)
    await leaveRunning(principal.tenantId, 4)
    await leaveRunning(other.tenantId, 6)
    await push(caller, principal, [row()])
    expect(await runsOf(principal.tenantId)).toMatchObject([
      { status: 'failed', failure: 'interrupted' },
      { status: 'running', failure: null },
      { status: 'succeeded', failure: null },
    ])
    expect(await runsOf(other.tenantId)).toMatchObject([{ status: 'running' }])
  })
})

describe('when the universe', () => {
  test('cannot be reached, the push is 503 and its run has failed', async () => {
    expect(await pushTo('http://127.0.0.1:1')).toMatchObject({
      status: 503,
      code: 'service_unavailable',
      run: { status: 'failed', failure: 'unreachable' },
    })
  })

  test('does not answer in time, the push is 504 and its outcome is on record as unknown', async () => {
    const outcome = await withServer(
      () => undefined,
      async (url) => await pushTo(url, { POSTERN_UNIVERSE_TIMEOUT_MS: '200' }),
    )
    expect(outcome).toMatchObject({
      status: 504,
      code: 'gateway_timeout',
      run: { status: 'failed', failure: 'outcome_unknown' },
    })
  })

  test('breaks off, the push is 502 and its outcome is on record as unknown', async () => {
    const outcome = await withServer((request) => request.socket.destroy(), pushTo)
    expect(outcome).toMatchObject({
      status: 502,
      code: 'bad_gateway',
      run: { status: 'failed', failure: 'outcome_unknown' },
    })
  })

  test('does not know the signature, the push is 502 and nothing is applied', async () => {
    const strange = await world.spawnUniverse(randomRing())
    try {
      expect(await pushTo(strange.url)).toMatchObject({
        status: 502,
        code: 'bad_gateway',
        run: { status: 'failed', failure: 'internal' },
      })
    } finally {
      await strange.stop()
    }
  })
})

/** A run as a process leaves it that dies amid a push. */
async function leaveRunning(tenantId: string, minutes: number): Promise<void> {
  await world.rows(
    `insert into sync.run
       (tenant_id, source, fetched_count, created_by_type, created_by_id, created_by_label, request_id, started_at)
     values ($1, 'inline', 1, 'api_key', 'x', 'x', 'x', now() - make_interval(mins => $2))`,
    [tenantId, minutes],
  )
}

/** Pushes through another sync service to the given address. Returns the response and the run. */
async function pushTo(url: string, extra: Record<string, string> = {}) {
  const principal = admin()
  const ownSync = await world.startSync(url, extra)
  try {
    const answer = await push(world.syncCaller(ownSync.url), principal, [row()])
    const [run] = await runsOf(principal.tenantId)
    return { status: answer.status, code: problemOf(answer).code, run }
  } finally {
    await ownSync.close()
  }
}

async function withServer<T>(
  listener: Parameters<typeof createServer>[1],
  work: (url: string) => Promise<T>,
): Promise<T> {
  const server = createServer({}, listener)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  // It listens on an address, not on a pipe.
  const { port } = server.address() as AddressInfo
  try {
    return await work(`http://127.0.0.1:${port}`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}
