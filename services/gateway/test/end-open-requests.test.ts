import { once } from 'node:events'
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http'
import { type Socket, connect } from 'node:net'
import { generateKey } from '@postern/api-key'
import type { KeyRecord, Revocation } from '@postern/contracts/internal'
import { afterEach, describe, expect, test } from 'vitest'
import { keyRecord } from './builders.ts'
import { type TestGateway, startTestGateway } from './gateway.ts'

const tenantId = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'
const other = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be002'

/** A service that does with each request what the test says, and notes which of them ended before it had answered. */
interface Service {
  readonly server: Server
  readonly url: string
  readonly began: string[]
  readonly whole: string[]
  readonly brokenOff: string[]
}

const closers: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

async function startService(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<Service> {
  const [began, whole, brokenOff]: [string[], string[], string[]] = [[], [], []]
  const server = createServer((request, response) => {
    // The gateway's own question whether all services share one database.
    if (request.url === '/internal/health/ready') {
      response.end('{}')
      return
    }
    const label = decodeURIComponent(String(request.headers['postern-context'])).includes(tenantId) ? 'victim' : 'other'
    began.push(label)
    request.on('end', () => whole.push(label))
    request.on('error', () => undefined)
    response.on('close', () => {
      if (!response.writableEnded) brokenOff.push(label)
    })
    answer(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return { server, url: `http://127.0.0.1:${address.port}`, began, whole, brokenOff }
}

interface World {
  readonly gateway: TestGateway
  readonly service: Service
  readonly victim: string
  readonly bystander: string
  change(change: Partial<KeyRecord>, revocation?: Revocation): void
}

async function start(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  settings: Readonly<Record<string, string>> = {},
): Promise<World> {
  const service = await startService(answer)
  const gateway = await startTestGateway({
    POSTERN_FINDINGS_URL: service.url,
    POSTERN_EVIDENCE_URL: service.url,
    POSTERN_CLIENT_TIMEOUT_MS: '120000',
    ...settings,
  })
  closers.push(gateway.close)
  const [key, control] = [generateKey(), generateKey()]
  const expiresAt = Date.now() + 86_400_000
  const record = keyRecord({ hash: key.hash, tenantId, scopes: ['*'], expiresAt })
  gateway.keys.records.set(key.hash, record)
  gateway.keys.records.set(control.hash, keyRecord({ hash: control.hash, tenantId: other, scopes: ['*'], expiresAt }))
  await gateway.untilReady()
  return {
    gateway,
    service,
    victim: key.value,
    bystander: control.value,
    change: (change, revocation) => {
      gateway.keys.records.set(key.hash, { ...record, version: 2, ...change })
      const revoked = change.revoked === true
      const entry = revocation ?? { kind: 'key', seq: 1, hash: key.hash, version: 2, revoked }
      gateway.keys.lease = { revocations: [entry], cursor: 1 }
    },
  }
}

interface Client {
  readonly socket: Socket
  received(): string
  isOpen(): boolean
  readonly ended: Promise<string>
}

async function open(port: number, bytes: string, isRead = true): Promise<Client> {
  let received = ''
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  socket.on('error', () => undefined)
  if (isRead) socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')))
  const { promise: ended, resolve } = Promise.withResolvers<string>()
  socket.once('close', () => resolve(received))
  socket.write(bytes)
  return { socket, received: () => received, isOpen: () => !socket.closed, ended }
}

const get = (key: string): string => `GET /api/v1/findings HTTP/1.1\r\nHost: a\r\nAuthorization: ApiKey ${key}\r\n\r\n`
const post = (key: string, more: string): string =>
  `POST /api/v1/findings HTTP/1.1\r\nHost: a\r\nAuthorization: ApiKey ${key}\r\nContent-Type: application/json\r\n${more}\r\n`

/** Never answers; reads the body. */
const silent = (request: IncomingMessage): void => void request.resume()
/** Answers slowly and without an end. */
const stream = (request: IncomingMessage, response: ServerResponse): void => {
  request.resume()
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write('data: 1\n\n')
}
/** Sends an endless response as fast as the client reads. */
const endless = (request: IncomingMessage, response: ServerResponse): void => {
  request.resume()
  response.writeHead(200, { 'content-type': 'application/json' })
  const chunk = Buffer.alloc(65_536, 32)
  const more = (): void => {
    while (!response.destroyed && response.write(chunk));
  }
  response.on('drain', more)
  more()
}

const reasons = {
  'its key is revoked': (world: World) => world.change({ revoked: true }),
  'its key has expired': (world: World) => world.change({ expiresAt: Date.now() - 1 }),
  'its key loses the scope': (world: World) => world.change({ scopes: ['read:universe'] }),
  'its key is limited to other addresses': (world: World) => world.change({ allowedAddresses: ['192.0.2.0/24'] }),
  'its tenant is suspended': (world: World) => {
    world.change(
      { version: 1, tenantVersion: 2, tenantStatus: 'suspended' },
      { kind: 'tenant', seq: 1, tenantId, version: 2 },
    )
  },
  'its key expires while the request is open': (world: World) => world.change({ expiresAt: Date.now() + 300 }),
} as const

describe.each(Object.entries(reasons))('when %s', (reason, act) => {
  test('an upload in progress is rejected, and never completes at the service', async () => {
    const world = await start(silent)
    const { gateway, service } = world
    const begun = [world.victim, world.bystander].map(async (key) =>
      open(gateway.port, post(key, 'Content-Length: 1000\r\n') + 'x'),
    )
    const [refused, control] = await Promise.all(begun)
    await expect.poll(() => service.began.toSorted()).toEqual(['other', 'victim'])
    act(world)
    await expect.poll(() => refused?.received()).toMatch(/^HTTP\/1\.1 (401|403) [^]*\/problems\//)
    await expect.poll(() => service.brokenOff).toEqual(['victim'])
    // The rest comes all the same, and reaches nobody.
    refused?.socket.write('x'.repeat(999))
    control?.socket.write('x'.repeat(999))
    await expect.poll(() => service.whole).toEqual(['other'])
    expect(control?.received(), reason).toBe('')
    control?.socket.destroy()
    refused?.socket.destroy()
  })

  test('a stream of events ends, and that of another key continues', async () => {
    const world = await start(stream)
    const [cut, control] = await Promise.all(
      [world.victim, world.bystander].map(async (key) => open(world.gateway.port, get(key))),
    )
    await expect.poll(() => [cut, control].map((each) => each?.received().includes('data: 1'))).toEqual([true, true])
    act(world)
    expect(await cut?.ended).not.toMatch(/\r\n0\r\n\r\n$/)
    await expect.poll(() => world.service.brokenOff).toEqual(['victim'])
    expect(control?.isOpen()).toBe(true)
    control?.socket.destroy()
  })
})

const revoke = reasons['its key is revoked']

test('a change that had arrived completely ends with an unknown outcome if the service does not answer', async () => {
  const world = await start(silent)
  const client = await open(world.gateway.port, post(world.victim, 'Content-Length: 2\r\n') + '{}')
  await expect.poll(() => world.service.whole).toEqual(['victim'])
  revoke(world)
  await expect.poll(() => client.received(), { timeout: 20_000 }).toMatch(/^HTTP\/1\.1 502 [^]*may or may not have/)
  client.socket.destroy()
})

test('a download whose client does not read is cut when its key is revoked', async () => {
  const world = await start(endless)
  const client = await open(world.gateway.port, get(world.victim), false)
  await expect.poll(() => world.service.began).toEqual(['victim'])
  revoke(world)
  await expect.poll(() => world.service.brokenOff).toEqual(['victim'])
  client.socket.resume()
  await client.ended
})

test('a response that the client has not read yet is cut when its key is revoked', async () => {
  const bytes = 32 * 1024 * 1024
  const world = await start((request, response) => {
    request.resume()
    response.end(Buffer.alloc(bytes, 32))
  })
  const client = await open(world.gateway.port, get(world.victim), false)
  await expect.poll(() => world.service.began).toEqual(['victim'])
  revoke(world)
  let length = 0
  client.socket.on('data', (chunk: Buffer) => (length += chunk.length))
  client.socket.pause()
  await expect.poll(() => world.gateway.log.some((line) => line.includes('request_ended'))).toBe(true)
  client.socket.resume()
  await client.ended
  expect(length).toBeLessThan(bytes)
})

test('a long poll and a client that waits for 100 Continue are refused when their key is revoked', async () => {
  const world = await start(silent, { POSTERN_UPSTREAM_CONNECTIONS: '4' })
  // All connections that a tenant may have are taken: the last wait for one.
  const polls = await Promise.all(Array.from({ length: 4 }, async () => open(world.gateway.port, get(world.victim))))
  const expecting = await open(
    world.gateway.port,
    post(world.victim, 'Expect: 100-continue\r\nContent-Length: 1000\r\n'),
  )
  await expect.poll(() => world.service.began.length).toBe(3)
  revoke(world)
  for (const each of [...polls, expecting]) {
    await expect
      .poll(() => each.received())
      .toMatch(/^(?:HTTP\/1\.1 100 Continue\r\n\r\n)?HTTP\/1\.1 401 [^]*\/problems\/key-revoked/)
  }
  expect(world.service.began).toEqual(['victim', 'victim', 'victim'])
  for (const { socket } of [...polls, expecting]) socket.destroy()
})

test('each request that ends because its key is revoked counts as one refusal', async () => {
  const world = await start(silent)
  const { gateway, service } = world
  const forwarded = await open(gateway.port, get(world.victim))
  const chunked = await open(gateway.port, post(world.victim, 'Transfer-Encoding: chunked\r\n'))
  await expect.poll(() => service.began).toEqual(['victim'])
  // Its first bytes are awaited.
  await gateway.get('/api/v1/whoami', world.victim)
  revoke(world)
  for (const { received } of [forwarded, chunked]) await expect.poll(received).toMatch(/^HTTP\/1\.1 401 /)
  const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/internal/metrics`)).text()
  expect(metrics).toMatch(/^postern_gateway_refusals_total\{[^}]*code="key_revoked"[^}]*\} 2$/m)
  for (const { socket } of [forwarded, chunked]) socket.destroy()
})

describe('a gateway that cannot reach the keys service', () => {
  test.each(['frozen', 'erring'] as const)('ends what is open: it is %s', async (mode) => {
    const world = await start(stream)
    const client = await open(world.gateway.port, get(world.victim))
    await expect.poll(() => client.received()).toContain('data: 1')
    world.gateway.keys.mode = mode
    await client.ended
    expect(world.gateway.log.filter((line) => line.includes('request_ended')).join()).toContain('auth_unavailable')
  })

  test('without a lease ends no requests while the keys service confirms each key', async () => {
    const world = await start(stream)
    const client = await open(world.gateway.port, get(world.victim))
    await expect.poll(() => client.received()).toContain('data: 1')
    world.gateway.keys.lease = { granted: false }
    await world.gateway.untilReady(false)
    const { lookups } = world.gateway.keys
    // Each look-up comes half a second after the one before.
    await expect.poll(() => world.gateway.keys.lookups, { timeout: 20_000 }).toBeGreaterThan(lookups + 5)
    expect(client.isOpen()).toBe(true)
    client.socket.destroy()
  })
})
