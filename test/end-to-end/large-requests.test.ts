import { once } from 'node:events'
import { connect } from 'node:net'
import { type Route, bulkResultSchema, maxBulkItems, pushResultSchema, routeTable, runSchema } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'

let stack: TestStack
let gateway: string
let key: string
let narrow: string

beforeAll(async () => {
  stack = await startTestStack()
  gateway = stack.gateways[0] ?? ''
  const tenant = await stack.createTenant()
  ;({ key } = await stack.createKey(tenant, { scopes: ['*'] }))
  narrow = (await stack.createKey(tenant, { scopes: ['read:findings'] })).key
})

afterAll(async () => {
  await stack.stop()
})

interface Sent {
  readonly path: string
  readonly method?: string
  readonly key?: string
  readonly type?: string
  /** Undefined: the body is sent in chunks. */
  readonly length: number | undefined
  readonly bytes: number
}

/** Sends a whole body over one connection, and returns all that was received until the connection ended. */
async function exchange({
  path,
  method = 'POST',
  key: sentKey,
  type = 'application/json',
  length,
  bytes,
}: Sent): Promise<string> {
  const { port, hostname } = new URL(gateway)
  const socket = connect(Number(port), hostname)
  let received = ''
  socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')))
  const failure = once(socket, 'close').catch((error: Error) => (received += `\n${error.message}`))
  await once(socket, 'connect')
  const own = sentKey === undefined ? '' : `Authorization: ApiKey ${sentKey}\r\n`
  const framing = length === undefined ? 'Transfer-Encoding: chunked' : `Content-Length: ${length}`
  socket.write(`${method} ${path} HTTP/1.1\r\nHost: a\r\n${own}Content-Type: ${type}\r\n${framing}\r\n\r\n`)
  const part = Buffer.alloc(65_536, ' ')
  for (let sent = 0; sent < bytes && socket.writable; sent += part.length) {
    const chunk = part.subarray(0, Math.min(part.length, bytes - sent))
    const isFirst = length === undefined ? socket.write(`${chunk.length.toString(16)}\r\n`) : true
    const hasRoom = socket.write(chunk) && isFirst
    if (length === undefined) socket.write('\r\n')
    if (!hasRoom && socket.writable) await Promise.race([once(socket, 'drain'), failure])
  }
  if (length === undefined && socket.writable) socket.write('0\r\n\r\n')
  // If the connection stays open, the next request on it is answered too.
  if (socket.writable) socket.write('GET /api/v1/nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  await failure
  return received
}

/** The status of the answer, and whether the connection did what the answer says: it ends, or the next request is answered too. */
function judge(received: string): readonly [string, boolean] {
  const statuses = [...received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status = '']) => status)
  const [head = ''] = received.split('\r\n\r\n', 1)
  const isComplete = /connection: close/i.test(head) ? statuses.length === 1 : statuses.length === 2
  return [statuses[0] ?? received, isComplete]
}

const kibibyte = 1024
const writes = routeTable.filter(({ maxBodyBytes }) => maxBodyBytes >= 512 * kibibyte)
const pathOf = ({ path }: Route) => path.replaceAll(/:[a-z_]+/g, '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001')

describe('a request that is rejected before the end of its large body gets its response', () => {
  test.each(writes.map((route) => [`${route.method} ${route.path}`, route] as const))('%s', async (_what, route) => {
    const path = pathOf(route)
    const { method } = route
    const body = { length: 400 * kibibyte, bytes: 400 * kibibyte }
    expect(judge(await exchange({ path, method, ...body }))).toEqual(['401', true])
    if (route.access.kind === 'scope' && route.access.scope !== 'read:findings') {
      expect(judge(await exchange({ path, method, key: narrow, ...body }))).toEqual(['403', true])
    }
    // The service, and not the gateway, looks at the type.
    if (route.access.kind === 'person' || route.bodyMediaTypes?.includes('*/*') === true) return
    const [status, isComplete] = judge(await exchange({ path, method, key, type: 'text/x-none', ...body }))
    expect([['400', '404', '412', '415', '428'].includes(status) ? 'refused' : status, isComplete]).toEqual([
      'refused',
      true,
    ])
  })

  test.each([
    ['no route', '/api/v1/nothing', 'POST', '404'],
    ['another method', '/api/v1/whoami', 'PUT', '405'],
    ['no body', '/api/v1/api-keys', 'GET', '403'],
  ])('for %s', async (_what, path, method, status) => {
    const body = { length: 3000 * kibibyte, bytes: 3000 * kibibyte }
    expect(judge(await exchange({ path, method, key, ...body }))).toEqual([status, true])
  })

  test.each(['/api/v1/findings', '/scim/v2/Users', '/api/v1/findings/bulk'])(
    'that is too large at %s',
    async (path) => {
      const bytes = 12 * 1024 * kibibyte
      for (const length of [bytes, undefined]) {
        expect(judge(await exchange({ path, key, length, bytes }))).toEqual(['413', true])
      }
    },
  )
})

// Through what stands between a service and PostgreSQL in an installation: values of a statement that are longer than any
// buffer on the way, with other statements right behind.

/** As long as an external id may be: a thousand of them are four times the 64 KiB of PgBouncer's `pkt_buf`. */
const longId = (of: string, n: number): string => `${of}-${n}-`.padEnd(255, 'x')

const numbers = (count: number): readonly number[] => Array.from({ length: count }, (_none, n) => n)
const rows = numbers(1000)
const entityIds = rows.map((n) => longId('entity', n))

async function total(path: string): Promise<unknown> {
  return (await send(gateway, `${path}?count=true&limit=1000`, { key })).headers['x-total-count']
}

describe('a push of a thousand rows with the longest ids', () => {
  test.each([
    [
      'entities',
      '/api/v1/entities',
      rows.map((n) => ({
        external_id: entityIds[n],
        name: `Entity ${n}`,
        type: 'process',
        // One tree, two deep.
        ...(n === 0 ? {} : { parent_external_id: entityIds[0] }),
      })),
    ],
    ['people', '/api/v1/people', rows.map((n) => ({ external_id: longId('person', n), name: `Person ${n}` }))],
    [
      'test-procedures',
      '/api/v1/test-procedures',
      rows.map((n) => ({ external_id: longId('procedure', n), title: `Procedure ${n}`, entities: [entityIds[n]] })),
    ],
    [
      'org-structures/legal',
      '/api/v1/hierarchies/legal/nodes',
      {
        name: 'Legal',
        kind: 'legal_entity',
        mode: 'full',
        nodes: rows.map((n) => ({ node_key: longId('node', n), name: `Node ${n}`, entities: [entityIds[n]] })),
      },
    ],
  ])('of %s is stored, found unchanged and listed', async (dataset, list, body) => {
    for (const counts of [
      { created: rows.length, unchanged: 0 },
      { created: 0, unchanged: rows.length },
    ]) {
      const pushed = await send(gateway, `/api/v1/sync/${dataset}`, { key, method: 'POST', body })
      expect(pushed.status, pushed.text).toBe(200)
      expect(pushResultSchema.parse(pushed.json).counts).toMatchObject(counts)
    }
    expect(await total(list)).toBe(String(rows.length))
  })
})

test('a bulk request of findings with the longest ids is stored, each with its log entry', async () => {
  const items = numbers(maxBulkItems).map((n) => ({
    external_id: longId('finding', n),
    title: `Finding ${n}`,
    condition: 'As seen. '.repeat(100),
    severity: 'low',
  }))
  const answer = await send(gateway, '/api/v1/findings/bulk', { key, method: 'POST', body: { items } })
  expect(answer.status, answer.text.slice(0, 1000)).toBe(200)
  const statuses = z
    .array(bulkResultSchema)
    .parse(answer.json)
    .map(({ status }) => status)
  expect(statuses).toEqual(items.map(() => 201))
  expect(await total('/api/v1/findings')).toBe(String(items.length))
  expect(await total('/api/v1/remediation-log')).toBe(String(items.length))
})

test('a connector can import a table of five thousand rows with the longest ids', async () => {
  const own = (await stack.createKey(await stack.createTenant(), { scopes: ['*'] })).key
  const body = { key: 'sheet', name: 'Sheet', type: 'csv', dataset: 'auditable_entities' }
  const made = await send(gateway, '/api/v1/connectors', { key: own, method: 'POST', body })
  const { id } = z.object({ id: z.string() }).parse(made.json)
  const lines = numbers(5000).map((n) => `${longId('row', n)},Row ${n},process`)
  const begun = await send(gateway, `/api/v1/connectors/${id}/runs`, {
    key: own,
    method: 'POST',
    body: ['external_id,name,type', ...lines, ''].join('\n'),
    headers: { 'content-type': 'text/csv' },
  })
  const run = z.object({ id: z.string() }).parse(begun.json)
  await expect
    .poll(async () => runSchema.parse((await send(gateway, `/api/v1/sync-runs/${run.id}`, { key: own })).json), {
      timeout: 100_000,
      interval: 200,
    })
    .toMatchObject({ status: 'succeeded', counts: { created: lines.length, invalid: 0, applied: lines.length } })
  const listed = await send(gateway, '/api/v1/entities?count=true&limit=1000', { key: own })
  expect(listed.headers['x-total-count']).toBe(String(lines.length))
})
