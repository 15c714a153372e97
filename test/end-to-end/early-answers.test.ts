import { once } from 'node:events'
import { connect } from 'node:net'
import { type Route, routeTable } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

let stack: TestStack
let gateway: URL
let full: string
let narrow: string

beforeAll(async () => {
  stack = await startTestStack({ gateways: 1 })
  gateway = new URL(stack.gateways[0] ?? '')
  const tenant = await stack.createTenant()
  full = (await stack.createKey(tenant, { scopes: ['*'] })).key
  narrow = (await stack.createKey(tenant, { scopes: ['read:findings'] })).key
})
afterAll(async () => await stack.stop())

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
  key,
  type = 'application/json',
  length,
  bytes,
}: Sent): Promise<string> {
  const socket = connect(Number(gateway.port), gateway.hostname)
  let received = ''
  socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')))
  const failure = once(socket, 'close').catch((error: Error) => (received += `\n${error.message}`))
  await once(socket, 'connect')
  const own = key === undefined ? '' : `Authorization: ApiKey ${key}\r\n`
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
    const [status, isComplete] = judge(await exchange({ path, method, key: full, type: 'text/x-none', ...body }))
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
    expect(judge(await exchange({ path, method, key: full, ...body }))).toEqual([status, true])
  })

  test.each(['/api/v1/findings', '/scim/v2/Users', '/api/v1/findings/bulk'])(
    'that is too large at %s',
    async (path) => {
      const bytes = 12 * 1024 * kibibyte
      for (const length of [bytes, undefined]) {
        expect(judge(await exchange({ path, key: full, length, bytes }))).toEqual(['413', true])
      }
    },
  )
})
