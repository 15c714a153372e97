/**
 * @promise Edge: Slow clients and floods of headers occupy no resources for long.
 */

import { once } from 'node:events'
import { type Socket, connect } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { generateKey } from '@postern/api-key'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { keyRecord } from './builders.ts'
import { type TestGateway, startTestGateway } from './gateway.ts'

let gateway: TestGateway
/** The same, whose limits are far away. */
let patient: TestGateway
const { value, hash } = generateKey()
/** Far more than one loop, full of connections, needs until it has read what those have sent who send all at once. */
const clientTimeoutMs = 1000
const auth = `Authorization: ApiKey ${value}\r\n`

beforeAll(async () => {
  gateway = await startTestGateway({ POSTERN_CLIENT_TIMEOUT_MS: String(clientTimeoutMs) })
  patient = await startTestGateway({ POSTERN_CLIENT_TIMEOUT_MS: '120000', POSTERN_MAX_HEADER_BYTES: '262144' })
  const tenantId = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'
  const record = keyRecord({ hash, tenantId, scopes: ['*'], keyLimit: 100_000, tenantLimit: 100_000 })
  for (const each of [gateway, patient]) {
    each.keys.records.set(hash, { ...record, expiresAt: Date.now() + 86_400_000 })
    await each.untilReady()
  }
})

afterAll(async () => {
  await gateway.close()
  await patient.close()
})

const bodyBytes = 64 * 1024
const head = `POST /api/v1/findings HTTP/1.1\r\nHost: a\r\n${auth}Content-Type: application/json\r\n`
const beginnings = {
  'a header': `GET /api/v1/findings HTTP/1.1\r\nHost: a\r\n${auth}X-Slow: `,
  'a body of known length': `${head}Content-Length: ${bodyBytes}\r\n\r\n`,
  'a body in chunks': `${head}Transfer-Encoding: chunked\r\n\r\n`,
} as const
type Part = keyof typeof beginnings

/** A client that is never silent: a little of the part every 100 ms, far less than is asked for. */
interface Dripper {
  readonly part: Part
  /** Pieces sent so far. */
  sent(): number
  readonly ended: Promise<string>
  readonly isOpen: () => boolean
  /** Sends at once what is missing. */
  finish(): void
}

/** About 640 bytes of the body arrive per second, instead of 10 KiB. */
const drop = 'x'.repeat(64)
const dropEveryMs = 100
const whole = '0'.repeat(bodyBytes)

function drip(to: TestGateway, part: Part): Dripper {
  let received = ''
  let pieces = 0
  const socket: Socket = connect(to.port, '127.0.0.1')
  socket.write(beginnings[part])
  const ended = Promise.withResolvers<string>()
  socket.on('error', () => undefined)
  socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')))
  socket.once('close', () => {
    clearInterval(timer)
    ended.resolve(received)
  })
  const timer = setInterval(() => {
    if (socket.writable) socket.write(part === 'a body in chunks' ? `40\r\n${drop}\r\n` : drop)
    pieces += 1
  }, dropEveryMs)
  return {
    part,
    sent: () => pieces,
    ended: ended.promise,
    isOpen: () => !socket.closed && received === '',
    finish: () => {
      clearInterval(timer)
      if (part === 'a body of known length') socket.write(whole.slice(pieces * drop.length))
      else socket.write(part === 'a header' ? '\r\n\r\n' : '0\r\n\r\n')
      socket.once('data', () => socket.end())
    },
  }
}

const parts = Object.keys(beginnings).filter((part): part is Part => part in beginnings)
const crowd = (to: TestGateway): Dripper[] =>
  Array.from({ length: 20 }, () => parts.map((part) => drip(to, part))).flat()

describe('many clients that send a few bytes at a time', () => {
  test('get 408 and are disconnected, while others are served all the time', async () => {
    const slow = crowd(gateway)
    let served = 0
    const others = (async () => {
      while (slow.some(({ isOpen }) => isOpen())) {
        expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
        served += 1
      }
    })()
    for (const { part, ended } of slow)
      expect(await ended, part).toMatch(/^HTTP\/1\.1 408 [^]*\/problems\/request-timeout/)
    await others
    expect(served).toBeGreaterThan(0)
    // The service did not read any of it as a request.
    expect(gateway.forwarded.filter(({ method }) => method === 'POST')).toEqual([])
  })

  test('control: without the limits each client is served once its request is complete', async () => {
    const slow = crowd(patient)
    // Longer than the others were borne with.
    await expect
      .poll(() => Math.min(...slow.map(({ sent }) => sent())))
      .toBeGreaterThan((3 * clientTimeoutMs) / dropEveryMs)
    expect(slow.filter(({ isOpen }) => !isOpen())).toEqual([])
    for (const { finish } of slow) finish()
    for (const { part, ended } of slow) expect(await ended, part).toMatch(/^HTTP\/1\.1 200 /)
    expect(patient.forwarded.filter(({ method }) => method === 'POST')).toHaveLength(40)
  })
})

describe('a flood of headers', () => {
  const asked = `GET /api/v1/whoami HTTP/1.1\r\nHost: a\r\n${auth}Connection: close\r\n`
  const floods = {
    'many short ones': `${asked}${'X: y\r\n'.repeat(20_000)}\r\n`,
    'one long one': `${asked}X: ${'y'.repeat(120_000)}\r\n\r\n`,
    'one with a long name': `${asked}${'x'.repeat(120_000)}: y\r\n\r\n`,
  } as const
  const pour = (to: TestGateway): Promise<string>[] =>
    Array.from({ length: 40 }, () => Object.values(floods).map(async (bytes) => await to.raw(bytes))).flat()

  test('is refused over each connection, while others are served', async () => {
    let left = 1
    let served = 0
    const flood = Promise.all(pour(gateway)).finally(() => (left = 0))
    while (left > 0) {
      expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
      served += 1
    }
    // Every connection has ended. The kernel may take the answer away from a client that is still sending when it is closed.
    const ended = await flood
    const answers = ended.filter((answer) => answer !== '')
    expect(answers.length).toBeGreaterThan(ended.length / 2)
    expect(answers.filter((answer) => !/^HTTP\/1\.1 431 [^]*\/problems\//.test(answer))).toEqual([])
    expect(served).toBeGreaterThan(0)
  })

  test('control: with larger limits the same bytes are an ordinary request', async () => {
    const answers = await Promise.all(pour(patient))
    expect(answers.map((answer) => answer.slice(0, 12))).toEqual(answers.map(() => 'HTTP/1.1 200'))
  })
})

// Each waits until the gateway closes the connection: without a limit it would wait for ever.
describe.concurrent('a client that keeps a connection busy with few bytes gets 408 and is disconnected', () => {
  test.each([
    ['that says nothing more in the middle of a header', `GET /api/v1/findings HTTP/1.1\r\nHost: a\r\n${auth}X-Sl`],
    ['that says nothing more after the request line', 'GET /api/v1/findings HTTP/1.1\r\n'],
    [
      'that stops in the middle of a body of known length',
      `POST /api/v1/findings HTTP/1.1\r\nHost: a\r\n${auth}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"title`,
    ],
    [
      'that stops between the chunks of a body',
      `POST /api/v1/findings HTTP/1.1\r\nHost: a\r\n${auth}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{"\r\n`,
    ],
  ])('%s', async (_how, bytes) => {
    const answer = await gateway.raw(bytes)
    expect(answer).toMatch(/^HTTP\/1\.1 408 /)
    expect(answer).toContain('application/problem+json')
    expect(answer).toContain('/problems/request-timeout')
    expect(answer).not.toContain(value)
  })

  test('while one that sends all at once is served', async () => {
    expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
  })
})

/**
 * Sends, and then this process, and the gateway in it, does nothing for longer than a client may take, as one that is frozen or has no
 * processor. Behind a turn of the event loop: what comes next are the timers.
 */
async function sendAndStandStill(socket?: Socket, bytes = ''): Promise<void> {
  await nextTurn()
  socket?.write(bytes)
  const until = performance.now() + 1.6 * clientTimeoutMs
  while (performance.now() < until);
}

async function open(): Promise<{ readonly socket: Socket; readonly ended: Promise<string> }> {
  let received = ''
  const socket = connect(gateway.port, '127.0.0.1').on(
    'data',
    (chunk: Buffer) => (received += chunk.toString('latin1')),
  )
  const ended = once(socket, 'close').then(() => received)
  await once(socket, 'connect')
  return { socket, ended }
}

describe('a client whose bytes arrived in time is not cut because the gateway read them late', () => {
  test('for a request over a new connection', async () => {
    const { socket, ended } = await open()
    // The gateway has taken the connection, and its time runs.
    for (let turn = 0; turn < 5; turn += 1) await nextTurn()
    await sendAndStandStill(socket, 'GET /api/v1/findings HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    expect(await ended).toMatch(/^HTTP\/1\.1 401 /)
  })

  test('for the rest of a body', async () => {
    const before = gateway.arrived()
    const { socket, ended } = await open()
    socket.write(`${head}Connection: close\r\nContent-Length: ${bodyBytes}\r\n\r\n${drop}`)
    await expect.poll(() => gateway.arrived()).toBe(before + 1)
    await sendAndStandStill(socket, whole.slice(drop.length))
    expect(await ended).toMatch(/^HTTP\/1\.1 200 /)
  })

  test('while a client that sent nothing in that time gets 408', async () => {
    const { ended } = await open()
    await sendAndStandStill()
    expect(await ended).toMatch(/^HTTP\/1\.1 408 /)
  })
})

test('a tenant that sends as slowly as allowed, on all connections to a service, does not block another tenant', async () => {
  const small = await startTestGateway({ POSTERN_UPSTREAM_CONNECTIONS: '4', POSTERN_CLIENT_TIMEOUT_MS: '120000' })
  const other = generateKey()
  const tenants = {
    [hash]: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001',
    [other.hash]: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be002',
  }
  for (const [known, tenantId] of Object.entries(tenants)) {
    const record = keyRecord({ hash: known, tenantId, scopes: ['*'] })
    small.keys.records.set(known, { ...record, expiresAt: Date.now() + 86_400_000 })
  }
  await small.untilReady()
  const drippers = Array.from({ length: 8 }, () => drip(small, 'a body of known length'))
  await expect.poll(() => drippers.every(({ sent }) => sent() > 2)).toBe(true)
  expect(await small.get('/api/v1/findings', other.value)).toMatchObject({ status: 200 })
  for (const { finish } of drippers) finish()
  const answers = await Promise.all(drippers.map(async ({ ended }) => await ended))
  expect(new Set(answers.map((answer) => answer.slice(0, 12)))).toEqual(new Set(['HTTP/1.1 200']))
  await small.close()
})

test('what finds no connection free is 503, and counted and logged as that, and not as a failure of the service', async () => {
  const env = {
    POSTERN_UPSTREAM_CONNECTIONS: '4',
    POSTERN_UPSTREAM_WAITING: '4',
    POSTERN_CLIENT_TIMEOUT_MS: '120000',
    // The connection of a refused client stays open once its body has ended.
    POSTERN_KEEP_ALIVE_MS: '1000',
  }
  const small = await startTestGateway(env)
  const tenantId = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'
  const record = keyRecord({ hash, tenantId, scopes: ['*'] })
  small.keys.records.set(hash, { ...record, expiresAt: Date.now() + 86_400_000 })
  await small.untilReady()
  const drippers = Array.from({ length: 8 }, () => drip(small, 'a body of known length'))
  // Three have a connection, and three wait for one.
  await expect.poll(() => drippers.filter(({ isOpen }) => !isOpen())).toHaveLength(2)
  const metrics = await (await fetch(`http://127.0.0.1:${small.adminPort}/internal/metrics`)).text()
  const counted = (name: string) =>
    new RegExp(`^postern_gateway_upstream_${name}_total\\{upstream="findings"[^}]*\\} (\\d+)$`, 'm').exec(metrics)?.[1]
  expect([counted('pool_exhausted'), counted('failures')]).toEqual(['2', '0'])
  const events = small.log.map((line) => JSON.parse(line)).filter(({ event }) => String(event).startsWith('upstream_'))
  expect(events.map(({ event, tenant_id: tenant }) => [event, tenant])).toEqual([
    ['upstream_pool_exhausted', tenantId],
    ['upstream_pool_exhausted', tenantId],
  ])
  for (const { finish } of drippers) finish()
  const answers = await Promise.all(drippers.map(async ({ ended }) => await ended))
  expect(answers.map((answer) => answer.slice(9, 12)).toSorted()).toEqual([...Array(6).fill('200'), '503', '503'])
  await small.close()
})
