/**
 * @promise Keys and secrets: Events for webhooks are signed as Standard Webhooks describes, and sent to the endpoints of their tenant only.
 * @promise Operation: A failing or hanging receiver is retried for three days and delays no other endpoint.
 * @alsoShownBy services/sync/src/webhooks/rules.test.ts
 */

import type { ServerResponse } from 'node:http'
import { webhookDeliverySchema, webhookSchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import { type Principal, type SignedCaller, createTestCaller, randomRing } from '@postern/local-stack/testing'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { admin, makeWorld } from './support.ts'
import { change, createEndpoint, deleteEndpoints, endRuns, person, startReceiver, verify } from './webhook-support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let sync: Awaited<ReturnType<typeof world.startSync>>
let caller: SignedCaller
let receiver: Awaited<ReturnType<typeof startReceiver>>
const hanging = new Set<string>()
const rejectedIds = new Set<string>()
const slow: ServerResponse[] = []
const held: ServerResponse[] = []
let isHeld = true
const webhookWorkers = 8

beforeAll(async () => {
  world = await makeWorld()
  receiver = await startReceiver({
    '/hangs': ({ id }) => void hanging.add(id),
    '/slow': (_, response) => void slow.push(response),
    '/held': (_, response) => void (isHeld ? held.push(response) : response.writeHead(204).end()),
    '/fails': (_, response) => void response.writeHead(500).end('a reason\0'),
    '/redirects': (_, response) => void response.writeHead(307, { location: `${receiver.url}/elsewhere` }).end(),
    '/huge': (_, response) => {
      response.writeHead(200)
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(65_536)));
      }
      response.on('drain', more)
      more()
    },
    '/rejects-one': ({ body }, response) => void response.writeHead(rejectedIds.has(body.data.id) ? 422 : 204).end(),
    '/gone': (_, response) => void response.writeHead(410).end(),
  })
  sync = await world.startSync('http://127.0.0.1:9', {
    POSTERN_SYNC_WORKERS: '0',
    POSTERN_WEBHOOK_WORKERS: String(webhookWorkers),
    POSTERN_SYNC_NETWORKS: '127.0.0.1/32',
  })
  caller = world.syncCaller(sync.url)
})
afterEach(async () => await deleteEndpoints(world.rows))
afterAll(async () => {
  await sync.close()
  await receiver.close()
  await world.close()
})

async function endpoint(tenant: Principal, path: string, body: object = {}) {
  return await createEndpoint(caller, tenant, { url: `${receiver.url}${path}`, ca: receiver.ca, ...body })
}

async function read(tenant: Principal, id: string) {
  return webhookSchema.parse((await caller.call(tenant, 'GET', `/api/v1/webhooks/${id}`)).json)
}

const got = () => receiver.at('/rejects-one').map(({ body }) => `${body.type} ${body.data.id}`)

async function deliveries(tenant: Principal, id: string, query = '') {
  const answer = await caller.call(tenant, 'GET', `/api/v1/webhooks/${id}/deliveries${query}`)
  return webhookDeliverySchema.array().parse(answer.json)
}

test('a key cannot manage endpoints, nor a person who is no administrator', async () => {
  const body = { url: receiver.url, events: ['*'], ca: receiver.ca }
  const tenant = person()
  for (const other of [admin(tenant.tenantId), { ...tenant, roles: ['auditor' as const] }]) {
    const answer = await caller.call(other, 'POST', '/api/v1/webhooks', { body })
    expect(answer.status).toBe(403)
    expect((await caller.call(other, 'GET', '/api/v1/webhooks')).status).toBe(403)
  }
  expect((await caller.call(tenant, 'POST', '/api/v1/webhooks', { body })).status).toBe(201)
})

test.each([
  ['http://hooks.example', 'must use https'],
  ['https://10.0.0.1/hook', 'cannot be used, because the host 10.0.0.1 is at an address that connectors may not reach'],
  ['https://[::1]/hook', 'may not reach'],
  ['https://169.254.169.254/latest', 'may not reach'],
  ['https://user:password@hooks.example', 'must not contain a password'],
  ['hooks.example', 'must be a URL'],
  ['https://no-such-host.invalid', 'check its name'],
])('the URL %s is refused with a reason, and nothing is created', async (url, reason) => {
  const tenant = person()
  const answer = await caller.call(tenant, 'POST', '/api/v1/webhooks', { body: { url, events: ['*'] } })
  expect(answer).toMatchObject({ status: 422, json: { errors: [{ pointer: '/url' }] } })
  expect(JSON.stringify(answer.json)).toContain(reason)
  expect((await caller.call(tenant, 'GET', '/api/v1/webhooks')).json).toEqual([])
})

test('certificates that cannot be read are refused, and nothing is changed', async () => {
  const tenant = person()
  const begin = '-----BEGIN CERTIFICATE-----'
  const wrong = ['nothing', begin, receiver.ca.slice(0, -100), `${receiver.ca}${begin}`, JSON.stringify(receiver.ca)]
  for (const ca of wrong) {
    const body = { url: receiver.url, events: ['*'], ca }
    const answer = await caller.call(tenant, 'POST', '/api/v1/webhooks', { body })
    expect(answer, ca).toMatchObject({ status: 422, json: { errors: [{ pointer: '/ca' }] } })
  }
  expect((await caller.call(tenant, 'GET', '/api/v1/webhooks')).json).toEqual([])
  const { id } = await createEndpoint(caller, tenant, { url: receiver.url, ca: receiver.ca })
  expect((await change(caller, tenant, id, { ca: 'nothing' })).status).toBe(422)
  expect((await change(caller, tenant, id, { ca: null })).json).toMatchObject({ ca: null })
})

test('an event is sent with a signature that the published library accepts, and logged', async () => {
  const tenant = person()
  const { id, secret } = await endpoint(tenant, '/accepts')
  const [runId = ''] = await endRuns(world.rows, tenant)
  await vi.waitFor(() => expect(receiver.at('/accepts')).toHaveLength(1), { timeout: 60_000 })
  const [received] = receiver.at('/accepts')
  if (received === undefined) throw new Error('nothing was received')
  expect(verify(secret, received)).toEqual({
    type: 'sync_run.finished',
    timestamp: expect.any(String),
    data: { id: runId, version: null, url: `/api/v1/sync-runs/${runId}` },
  })
  expect(() => verify(`whsec_${Buffer.alloc(32).toString('base64')}`, received)).toThrow('No matching signature')
  await vi.waitFor(
    async () => {
      expect(await deliveries(tenant, id)).toMatchObject([
        {
          id: received.id,
          type: 'sync_run.finished',
          resource_id: runId,
          state: 'delivered',
          attempts: 1,
          status: 204,
        },
      ])
    },
    { timeout: 60_000 },
  )
  expect(await read(tenant, id)).toMatchObject({ pending: 0, failing_since: null, last_error: null })
})

test("an endpoint gets neither another tenant's events nor those that it did not ask for", async () => {
  const [tenant, other] = [person(), person()]
  await endpoint(tenant, '/chosen', { events: ['key.*'] })
  await endpoint(tenant, '/all')
  await endRuns(world.rows, other)
  await endRuns(world.rows, tenant)
  await vi.waitFor(() => expect(receiver.at('/all')).toHaveLength(1), { timeout: 60_000 })
  expect(receiver.at('/chosen')).toEqual([])
})

test("another tenant's endpoint returns the same 404 as a missing one", async () => {
  const [tenant, other] = [person(), person()]
  const { id } = await endpoint(tenant, '/mine')
  const missing = '00000000-0000-4000-8000-000000000000'
  for (const [method, suffix] of [
    ['GET', ''],
    ['DELETE', ''],
    ['POST', '/deliveries'],
    ['GET', '/deliveries'],
    ['POST', '/rotate-secret'],
  ] as const) {
    const [foreign, unknown] = await Promise.all(
      [id, missing].map(async (each) => await caller.call(other, method, `/api/v1/webhooks/${each}${suffix}`)),
    )
    expect(foreign?.status).toBe(404)
    expect(unknown?.status).toBe(404)
  }
  expect((await read(tenant, id)).state).toBe('enabled')
})

test('a hanging, a failing, a huge and a redirecting receiver delay no other endpoint', async () => {
  const tenant = person()
  const ids = new Map<string, string>()
  for (const path of ['/hangs', '/fails', '/redirects', '/huge', '/healthy']) {
    ids.set(path, (await endpoint(tenant, path)).id)
  }
  await endRuns(world.rows, tenant, 20)
  await vi.waitFor(() => expect(receiver.at('/healthy')).toHaveLength(20), { timeout: 60_000 })
  expect(new Set(receiver.at('/healthy').map(({ id }) => id)).size).toBe(20)
  await vi.waitFor(() => expect(receiver.at('/huge').length).toBeGreaterThanOrEqual(20), { timeout: 60_000 })
  const errorOf = async (path: string) => (await read(tenant, ids.get(path) ?? '')).last_error
  await vi.waitFor(async () => expect(await errorOf('/hangs')).toBe('The receiver did not answer within 10 s.'), {
    timeout: 60_000,
  })
  expect(await errorOf('/fails')).toBe('The receiver answered 500.')
  expect(await errorOf('/redirects')).toBe('The receiver redirects. Set the URL that it redirects to.')
  expect(receiver.at('/elsewhere')).toEqual([])
  const failed = (await deliveries(tenant, ids.get('/fails') ?? '')).filter(({ attempts }) => attempts > 0)
  expect(failed[0]).toMatchObject({
    state: 'pending',
    status: 500,
    error: 'The receiver answered 500.',
    answer: 'a reason',
  })
  const [huge] = await deliveries(tenant, ids.get('/huge') ?? '')
  expect(huge?.answer).toHaveLength(1000)
})

test('slow receivers of one tenant leave workers to others', async () => {
  const [tenant, other] = [person(), person()]
  for (let at = 0; at < webhookWorkers; at += 1) await endpoint(tenant, '/slow')
  await endpoint(other, '/of-another-tenant')
  await endRuns(world.rows, tenant)
  await expect.poll(() => slow.length, { timeout: 60_000 }).toBe(webhookWorkers / 2)
  await endRuns(world.rows, other)
  await vi.waitFor(() => expect(receiver.at('/of-another-tenant')).toHaveLength(1), { timeout: 60_000 })
  expect(slow).toHaveLength(webhookWorkers / 2)
  // The slow ones have their turns too (control).
  const answered = new Set<ServerResponse>()
  await expect
    .poll(
      () => {
        for (const response of slow) if (!response.writableEnded) answered.add(response.writeHead(204).end())
        return answered.size
      },
      { timeout: 60_000 },
    )
    .toBeGreaterThanOrEqual(webhookWorkers)
})

/** Suspends the tenant while its receiver does not answer, until the request has ended. */
async function suspendDuringDelivery(tenant: Principal) {
  const { id } = await endpoint(tenant, '/held')
  const before = held.length
  const [runId = ''] = await endRuns(world.rows, tenant)
  await expect.poll(() => held.length, { timeout: 60_000 }).toBe(before + 1)
  await world.rows('insert into tenancy.suspended_tenant (tenant_id) values ($1)', [tenant.tenantId])
  await expect.poll(() => held[before]?.destroyed, { timeout: 60_000 }).toBe(true)
  const [delivery] = await deliveries(tenant, id)
  return { id, runId, delivery }
}

test('deliveries of a suspended tenant stop, and are sent after it has been resumed', async () => {
  let tenant = person()
  let stopped = await suspendDuringDelivery(tenant)
  // A busy machine may need longer than the 10 s after which a request counts as an attempt.
  for (let round = 1; round < 5 && stopped.delivery?.attempts !== 0; round += 1) {
    tenant = person()
    stopped = await suspendDuringDelivery(tenant)
  }
  const { id, runId, delivery } = stopped
  expect(delivery).toMatchObject({ state: 'pending', attempts: 0 })
  isHeld = false
  await world.rows('delete from tenancy.suspended_tenant where tenant_id = $1', [tenant.tenantId])
  await caller.call(tenant, 'POST', `/api/v1/webhooks/${id}/deliveries`)
  await expect
    .poll(() => receiver.at('/held').filter(({ body }) => body.data.id === runId), { timeout: 60_000 })
    .toHaveLength(2)
})

test('a repeated attempt has the same webhook-id and body', async () => {
  const tenant = person()
  const { id } = await endpoint(tenant, '/fails')
  const before = receiver.at('/fails').length
  await endRuns(world.rows, tenant)
  const mine = () => receiver.at('/fails').slice(before)
  await vi.waitFor(() => expect(mine()).not.toHaveLength(0), { timeout: 60_000 })
  await vi.waitFor(async () => expect((await deliveries(tenant, id))[0]?.attempts).toBe(1), { timeout: 60_000 })
  await world.rows('update sync.webhook_endpoint set retry_at = null where id = $1', [id])
  await world.rows('update sync.webhook_delivery set next_attempt_at = now() where endpoint_id = $1', [id])
  const [first] = await deliveries(tenant, id)
  const sent = () => mine().filter((each) => each.id === first?.id)
  await vi.waitFor(() => expect(sent()).toHaveLength(2), { timeout: 60_000 })
  expect(new Set(sent().map(({ text }) => text)).size).toBe(1)
})

test('events of one resource arrive in order', async () => {
  const tenant = person()
  const { id } = await endpoint(tenant, '/in-order')
  const { id: other } = await endpoint(tenant, '/never-enabled')
  await change(caller, tenant, other, { state: 'disabled' })
  await change(caller, tenant, id, { state: 'disabled' })
  await change(caller, tenant, id, { state: 'enabled' })
  const [runId = ''] = await endRuns(world.rows, tenant)
  const status = async (text: string, finished: boolean) =>
    await world.rows(`update sync.run set status = $2, finished_at = ${finished ? 'now()' : 'null'} where id = $1`, [
      runId,
      text,
    ])
  await status('running', false)
  await status('needs_approval', false)
  await status('succeeded', true)
  await vi.waitFor(() => expect(receiver.at('/in-order')).toHaveLength(3), { timeout: 60_000 })
  expect(receiver.at('/in-order').map(({ body }) => body.type)).toEqual([
    'sync_run.finished',
    'sync_run.needs_approval',
    'sync_run.finished',
  ])
  expect(receiver.at('/never-enabled')).toEqual([])
})

test('after three days of failures the endpoint is paused, and resumes once it is enabled', async () => {
  const tenant = person()
  const { id } = await endpoint(tenant, '/gone-for-days', { url: 'https://127.0.0.1:9/closed' })
  await endRuns(world.rows, tenant)
  await vi.waitFor(async () => expect((await read(tenant, id)).failing_since).not.toBeNull(), { timeout: 60_000 })
  await world.rows(
    `update sync.webhook_endpoint set failing_since = now() - interval '73 hours', retry_at = null where id = $1`,
    [id],
  )
  await world.rows(
    `update sync.webhook_delivery set first_attempt_at = now() - interval '73 hours', next_attempt_at = now() where endpoint_id = $1`,
    [id],
  )
  await vi.waitFor(async () => expect((await read(tenant, id)).state).toBe('paused'), { timeout: 60_000 })
  expect(await deliveries(tenant, id)).toMatchObject([{ state: 'failed', error: '127.0.0.1:9 cannot be reached.' }])
  expect((await read(tenant, id)).history).toMatchObject([
    { type: 'paused', actor: { type: 'system' } },
    { type: 'created', actor: { id: 'ada' } },
  ])
  expect(world.logged.some((line) => line.includes('"webhook_paused"') && line.includes(id))).toBe(true)

  expect(await caller.call(tenant, 'POST', `/api/v1/webhooks/${id}/deliveries`)).toMatchObject({ status: 409 })
  expect(await change(caller, tenant, id, { state: 'enabled', url: `${receiver.url}/back` })).toMatchObject({
    status: 200,
    json: { state: 'enabled', failing_since: null },
  })
  const [failed] = await deliveries(tenant, id)
  const again = await caller.call(tenant, 'POST', `/api/v1/webhooks/${id}/deliveries`, {
    body: { delivery_id: failed?.id },
  })
  expect(again).toMatchObject({ status: 200, json: { state: 'pending', attempts: 0 } })
  await vi.waitFor(() => expect(receiver.at('/back').map((each) => each.id)).toEqual([failed?.id]), { timeout: 60_000 })
})

test('a receiver that is gone is not asked again', async () => {
  const tenant = person()
  const { id } = await endpoint(tenant, '/gone')
  await endRuns(world.rows, tenant)
  await vi.waitFor(async () => expect((await read(tenant, id)).state).toBe('paused'), { timeout: 60_000 })
})

test('a test event reaches the endpoint, whatever it subscribes to', async () => {
  const tenant = person()
  const { id, secret } = await endpoint(tenant, '/test', { events: ['key.leaked'] })
  const answer = await caller.call(tenant, 'POST', `/api/v1/webhooks/${id}/deliveries`)
  expect(answer).toMatchObject({ status: 200, json: { type: 'webhook.test', state: 'pending' } })
  await vi.waitFor(() => expect(receiver.at('/test')).toHaveLength(1), { timeout: 60_000 })
  const [received] = receiver.at('/test')
  if (received !== undefined) expect(verify(secret, received)).toMatchObject({ type: 'webhook.test' })
})

test('after a rotation both secrets verify, until the overlap ends', async () => {
  const tenant = person()
  const { id, secret } = await endpoint(tenant, '/rotated')
  const send = async (count: number) => {
    await caller.call(tenant, 'POST', `/api/v1/webhooks/${id}/deliveries`)
    await vi.waitFor(() => expect(receiver.at('/rotated')).toHaveLength(count), { timeout: 60_000 })
    const last = receiver.at('/rotated').at(-1)
    if (last === undefined) throw new Error('nothing was received')
    return last
  }
  const rotated = await caller.call(tenant, 'POST', `/api/v1/webhooks/${id}/rotate-secret`, {
    body: { overlap_hours: 2 },
  })
  const { secret: next } = z.object({ secret: z.string() }).parse(rotated.json)
  const both = await send(1)
  expect([verify(secret, both), verify(next, both)]).toHaveLength(2)
  expect(both.signature.split(' ')).toHaveLength(2)
  expect((await read(tenant, id)).secret_expires_at).not.toBeNull()
  await world.rows(
    'update sync.webhook_secret set expires_at = now() where endpoint_id = $1 and expires_at is not null',
    [id],
  )
  const one = await send(2)
  expect(() => verify(secret, one)).toThrow('No matching signature')
  expect(verify(next, one)).toMatchObject({ type: 'webhook.test' })
})

test('an event that the receiver rejects holds back only its own resource', async () => {
  const tenant = person()
  const [rejected = ''] = await endRuns(world.rows, tenant)
  await endpoint(tenant, '/rejects-one')
  rejectedIds.add(rejected)
  const update = 'update sync.run set status = $2, finished_at = $3 where id = $1'
  await world.rows(update, [rejected, 'needs_approval', null])
  await world.rows(update, [rejected, 'succeeded', new Date()])
  const others = await endRuns(world.rows, tenant, 5)
  await vi.waitFor(() => expect(got()).toEqual(expect.arrayContaining(others.map((id) => `sync_run.finished ${id}`))), {
    timeout: 60_000,
  })
  expect(got()).toContain(`sync_run.needs_approval ${rejected}`)
  expect(got()).not.toContain(`sync_run.finished ${rejected}`)
  rejectedIds.clear()
  await vi.waitFor(() => expect(got()).toContain(`sync_run.finished ${rejected}`), { timeout: 60_000 })
})

test('secrets are sealed in the database, shown once, and sealed again for a new ring', async () => {
  const tenant = person()
  const { id, secret } = await endpoint(tenant, '/sealed')
  const stored = await world.rows('select sealed from sync.webhook_secret where endpoint_id = $1', [id])
  expect(stored).toHaveLength(1)
  expect(JSON.stringify(stored)).not.toContain(secret.slice('whsec_'.length))
  expect(JSON.stringify(await read(tenant, id))).not.toContain('whsec_')
  expect(world.logged.join('\n')).not.toContain(secret)

  const ring = `${randomRing('next')},${world.rings.secrets}`
  const rotating = await world.startSync('http://127.0.0.1:9', {
    POSTERN_SYNC_WORKERS: '0',
    POSTERN_SYNC_SECRETS: ring,
  })
  try {
    const answer = await createTestCaller({
      baseUrl: rotating.url,
      keyName: 'operator',
      ring: world.rings.operator,
      assertionKeys: world.database.assertionKeys,
    }).call({ tenantId: tenant.tenantId, kind: 'operator', id: 'operator' }, 'POST', internalPaths.rewrapSecrets)
    expect(answer.json).toEqual({ rewrapped: 1, unreadable: [] })
    const [row] = await world.rows('select sealed from sync.webhook_secret where endpoint_id = $1', [id])
    expect(row?.['sealed']).toMatch(/^v1\.next\./)
  } finally {
    await rotating.close()
  }
})

test('an endpoint whose secret cannot be decrypted says so, until the secret is replaced', async () => {
  const tenant = person()
  const { id } = await endpoint(tenant, '/unreadable')
  await world.rows(`update sync.webhook_secret set sealed = 'v1.gone.AAAA.AAAA' where endpoint_id = $1`, [id])
  await endRuns(world.rows, tenant)
  await vi.waitFor(
    async () =>
      expect((await read(tenant, id)).last_error).toBe('The secret cannot be decrypted any more. Replace it.'),
    { timeout: 60_000 },
  )
  await caller.call(tenant, 'POST', `/api/v1/webhooks/${id}/rotate-secret`, { body: { overlap_hours: 2 } })
  await vi.waitFor(() => expect(receiver.at('/unreadable')).toHaveLength(1), { timeout: 60_000 })
})

test('an endpoint whose secret cannot be decrypted for three days is paused', async () => {
  const tenant = person()
  const { id } = await endpoint(tenant, '/unreadable-for-days')
  await world.rows(`update sync.webhook_endpoint set failing_since = now() - interval '73 hours' where id = $1`, [id])
  await world.rows(`update sync.webhook_secret set sealed = 'v1.gone.AAAA.AAAA' where endpoint_id = $1`, [id])
  await endRuns(world.rows, tenant)
  await vi.waitFor(async () => expect((await read(tenant, id)).state).toBe('paused'), { timeout: 60_000 })
  expect(receiver.at('/unreadable-for-days')).toEqual([])
})

test('a deleted endpoint gets nothing, and its tenant notes no events', async () => {
  const tenant = person()
  const { id } = await endpoint(tenant, '/deleted')
  const listNoted = async () => await world.rows('select from tenancy.change where tenant_id = $1', [tenant.tenantId])
  const before = await listNoted()
  expect((await caller.call(tenant, 'DELETE', `/api/v1/webhooks/${id}`)).status).toBe(204)
  expect((await caller.call(tenant, 'DELETE', `/api/v1/webhooks/${id}`)).status).toBe(404)
  await endRuns(world.rows, tenant)
  expect(await listNoted()).toEqual(before)
  expect(await world.rows('select from sync.webhook_secret where endpoint_id = $1', [id])).toEqual([])
  expect(receiver.at('/deleted')).toEqual([])
})

test('an endpoint that is created while the last one is deleted gets events', async () => {
  const tenant = person()
  let { id } = await endpoint(tenant, '/replaced')
  for (let round = 0; round < 20; round++) {
    const [made] = await Promise.all([
      endpoint(tenant, '/replaced'),
      caller.call(tenant, 'DELETE', `/api/v1/webhooks/${id}`),
    ])
    ;({ id } = made)
    const readers = await world.rows('select from tenancy.event_reader where tenant_id = $1', [tenant.tenantId])
    expect([round, readers.length]).toEqual([round, 1])
  }
})

test('a stored type that is not offered any more is not shown, and the endpoint can be changed', async () => {
  const tenant = person()
  const { id } = await endpoint(tenant, '/old')
  await world.rows(`update sync.webhook_endpoint set events = '{finding.deleted,key.*}' where id = $1`, [id])
  expect((await read(tenant, id)).events).toEqual(['key.*'])
  expect((await change(caller, tenant, id, { events: ['finding.deleted'] })).status).toBe(422)
  expect((await change(caller, tenant, id, { description: 'Kept' })).status).toBe(200)
})

test('a tenant can have twenty endpoints, also if they are created at once', async () => {
  const tenant = person()
  for (let n = 0; n < 19; n++) await endpoint(tenant, '/many')
  const body = { url: receiver.url, events: ['*'], ca: receiver.ca }
  const answers = await Promise.all(
    Array.from({ length: 5 }, async () => await caller.call(tenant, 'POST', '/api/v1/webhooks', { body })),
  )
  expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409, 409, 409])
  const refused = answers.find(({ status }) => status === 409)
  expect(refused?.json).toMatchObject({ detail: expect.stringContaining('20 endpoints') })
})
