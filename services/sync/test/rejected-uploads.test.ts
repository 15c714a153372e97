import { randomUUID } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { connectorSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { admin, makeWorld } from './support.ts'

// What is refused here comes to no worker, and to no universe.
const nowhere = 'http://127.0.0.1:9'
let world: Awaited<ReturnType<typeof makeWorld>>
let sync: Awaited<ReturnType<typeof world.startSync>>
let caller: SignedCaller

beforeAll(async () => {
  world = await makeWorld()
  sync = await world.startSync(nowhere, { POSTERN_SYNC_WORKERS: '0', POSTERN_REQUEST_LOG: 'on' })
  caller = world.syncCaller(sync.url)
})
afterAll(async () => {
  await sync.close()
  await world.close()
})

async function create(tenant: Principal, config: object = {}): Promise<string> {
  const body = { key: `c-${randomUUID()}`, name: 'Table', type: 'csv', dataset: 'auditable_entities', config }
  return connectorSchema.parse((await caller.call(tenant, 'POST', '/api/v1/connectors', { body })).json).id
}

/** Runs of the tenant, and parts of files that were stored for them. */
const left = async ({ tenantId }: Principal): Promise<readonly number[]> =>
  await Promise.all(
    ['run', 'upload_chunk'].map(
      async (name) => (await world.rows(`select from sync.${name} where tenant_id = $1`, [tenantId])).length,
    ),
  )

const table = 'external_id,name,type\nE1,Treasury,department\n'
const operations = [
  ['runs', 202],
  ['test', 200],
] as const

describe.each(operations)('to %s a file', (operation, done) => {
  const send = async (tenant: Principal, id: string, type: string | undefined, body: string = table) =>
    await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/${operation}`, {
      body,
      headers: type === undefined ? {} : { 'content-type': type },
    })

  test.each([
    'multipart/form-data; boundary=b',
    'Multipart/Mixed',
    'application/json',
    'application/ld+json; charset=utf-8',
    'application/xml',
    'application/pdf',
    'application/x-zip-compressed',
    'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
    'application/vnd.oasis.opendocument.spreadsheet',
    'image/png',
  ])('is rejected at once if it is sent as %s', async (type) => {
    const tenant = admin()
    const answer = await send(tenant, await create(tenant), type)
    expect(answer).toMatchObject({ status: 415, json: { code: 'unsupported_media_type' } })
    expect(answer.json).toHaveProperty('detail', expect.stringContaining('curl --data-binary @file.csv'))
    expect(await left(tenant)).toEqual([0, 0])
  })

  test.each([
    undefined,
    'text/csv; header=present',
    'text/plain',
    'text/tab-separated-values',
    'application/octet-stream',
    'binary/octet-stream',
    'application/vnd.ms-excel',
    'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
    'application/csv',
    'application/x-csv',
    'application/x-www-form-urlencoded',
  ])('is accepted as %s', async (type) => {
    const tenant = admin()
    expect((await send(tenant, await create(tenant), type)).status).toBe(done)
  })
})

test('JSON for a connector that fetches its source is rejected for that reason, and not for its type', async () => {
  const tenant = admin()
  const id = await create(tenant, { url: 'https://tables.example/t.csv' })
  const answer = await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/runs`, { body: {} })
  expect(answer).toMatchObject({ status: 422, json: { detail: 'The connector fetches its source. Send no body.' } })
})

describe('of a client that disconnects during', () => {
  const ways = [
    ['a file to be run', 'runs', 'text/csv'],
    ['a file to be tried', 'test', 'text/csv'],
    ['a push', undefined, 'application/json'],
  ] as const
  const asked = ways.flatMap((way) => [[...way, {}] as const, [...way, { 'idempotency-key': randomUUID() }] as const])

  test.each(asked)('%s nothing stays, and it is no error of the service', async (_what, operation, type, headers) => {
    const tenant = admin()
    const path =
      operation === undefined ? '/api/v1/sync/entities' : `/api/v1/connectors/${await create(tenant)}/${operation}`
    const requestId = randomUUID()
    let given: IncomingMessage | undefined
    const onRequest = (message: unknown): void => {
      const { request } = z.object({ request: z.instanceof(IncomingMessage) }).parse(message)
      if (request.headers['x-request-id'] === requestId) given = request
    }
    subscribe('http.server.request.start', onRequest)
    async function* broken() {
      yield table
      await expect.poll(() => given?.readableDidRead, { timeout: 20_000 }).toBe(true)
      throw new Error('the client hangs up')
    }
    const sent = caller.call(tenant, 'POST', path, {
      body: Readable.from(broken(), { objectMode: false }),
      headers: { ...headers, 'content-type': type, 'x-request-id': requestId },
    })
    await expect(sent).rejects.toThrow('the client hangs up')
    unsubscribe('http.server.request.start', onRequest)
    const ofRequest = () => world.logged.map((line) => JSON.parse(line)).filter((line) => line.request_id === requestId)
    await expect.poll(ofRequest, { timeout: 20_000 }).toHaveLength(1)
    expect(ofRequest()).toMatchObject([{ event: 'request_failed', level: 'info', code: 'bad_request' }])
    expect(await left(tenant)).toEqual([0, 0])
  })
})
