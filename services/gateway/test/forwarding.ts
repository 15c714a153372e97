// A gateway that forwards requests, and clients that speak to it byte by byte.
import { routeTable } from '@postern/contracts'
import { once } from 'node:events'
import { type IncomingMessage, type Server, type ServerResponse, createServer, request as httpRequest } from 'node:http'
import { type AddressInfo, type Socket, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { randomBytes } from 'node:crypto'
import { createMetrics, createReadAheadBudget } from '@postern/service-kit'
import { createSigner, parseKeyRing } from '@postern/signed-context'
import { afterEach } from 'vitest'
import { createGatewayApp } from '../src/app.ts'
import { type Exchange, sendProblem } from '../src/exchange.ts'
import { readHeaders } from '../src/sign/read-headers.ts'
import { openConnections } from '../src/forward/connections.ts'
import { forward } from '../src/forward/proxy.ts'

const ring = parseKeyRing(`k1:${randomBytes(32).toString('base64url')}`)
export const mebibyte = 1024 * 1024

type Upstream = (request: IncomingMessage, response: ServerResponse) => void

interface Outcome {
  readonly status: number
  readonly failures: readonly unknown[]
}

const closers: (() => Promise<void> | void)[] = []

/** Call it once per file: closes after each test what the test opened. */
export function closeAfterEach(): void {
  afterEach(async () => {
    for (const close of closers.splice(0).toReversed()) await close()
  })
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return portOf(server)
}

function portOf(server: { address(): AddressInfo | string | null }): number {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

/** Starts a gateway that forwards every request. `outcome` tells how the exchange ended. */
export async function startGateway(
  upstreamPort: number,
  options: {
    answerWithinMs?: number
    maxBodyBytes?: number
    connections?: number
    answerHeaders?: string[]
    isDraining?: () => boolean
  } = {},
) {
  const pool = openConnections(
    `http://127.0.0.1:${upstreamPort}`,
    { connections: options.connections ?? 4, perTenant: options.connections ?? 4, waiting: 100 },
    {
      connect: { timeout: 10_000 },
    },
  )
  closers.push(async () => await pool.destroy())
  const { promise: outcome, resolve } = Promise.withResolvers<Outcome>()
  const failures: unknown[] = []
  let handled = 0
  const app = createGatewayApp({
    refusePipelined: (_request, response) => void response.writeHead(429, { connection: 'close' }).end(),
    keepAliveMs: 60_000,
    metrics: createMetrics('test'),
    handle: (request, response) => {
      handled += 1
      const headers = readHeaders(request.rawHeaders)
      const exchange: Exchange = {
        request,
        response,
        method: request.method ?? '',
        target: request.url ?? '',
        requestId: 'request-id-1',
        basePath: '',
        startedAt: 0,
        headers,
        address: '127.0.0.1',
        fault: undefined,
        match: { kind: 'none' },
        route: routeTable.find(({ id }) => id === 'findings.list'),
        principal: undefined,
        key: undefined,
        tenant: undefined,
        tokenEndsAt: undefined,
        person: undefined,
        limits: undefined,
        hasContent: undefined,
        span: undefined,
      }
      const length = headers.signed['content-length']
      if (request.url === '/refused') {
        sendProblem(exchange, 'missing_credentials')
        return
      }
      forward({
        exchange,
        target: { name: 'findings', pool, signer: createSigner(ring, 'findings'), basePath: '' },
        headers: [...headers.passed, ...(length === undefined ? [] : ['content-length', length])],
        answerHeaders: [...(options.answerHeaders ?? [])],
        isDraining: options.isDraining ?? (() => false),
        hasBody: length !== undefined || headers.read['transfer-encoding'] !== undefined,
        maxBodyBytes: options.maxBodyBytes ?? 64 * mebibyte,
        answerWithinMs: options.answerWithinMs ?? 5000,
        clientTimeoutMs: 10_000,
        openRequests: { add: () => undefined, remove: () => undefined },
        connectionBudget: createReadAheadBudget(Infinity),
        onRefusal: () => undefined,
        onDone: (_exchange, status) => resolve({ status, failures }),
        onFailure: (_exchange, error) => void failures.push(error),
      })
    },
    onCrash: (request, response) =>
      sendProblem({ request, response, requestId: 'crash', basePath: '' }, 'internal_error'),
    onUnreadable: () => undefined,
    maxHeaderBytes: 16_384,
    clientTimeoutMs: 10_000,
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  closers.push(async () => {
    app.server.closeAllConnections()
    await app.close()
  })
  return { port: portOf(app.server), outcome, handled: () => handled }
}

export async function startBoth(upstream: Upstream, options: Parameters<typeof startGateway>[1] = {}) {
  let attempts = 0
  const server = createServer((request, response) => {
    attempts += 1
    upstream(request, response)
  })
  const gateway = await startGateway(await listen(server), options)
  return { ...gateway, attempts: () => attempts }
}

export function ask(port: number, method = 'GET'): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    httpRequest({ host: '127.0.0.1', port, path: '/thing', method, agent: false }, resolve).once('error', reject).end()
  })
}

export async function get(port: number, method?: string) {
  const answer = await ask(port, method)
  return { status: answer.statusCode, headers: answer.headers, text: await text(answer) }
}

interface RawClient {
  readonly socket: Socket
  readonly closed: Promise<void>
  readonly received: () => string
}

export async function open(port: number): Promise<RawClient> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  closers.push(() => void socket.destroy())
  socket.on('error', () => undefined)
  const { promise: closed, resolve } = Promise.withResolvers<void>()
  socket.once('close', () => resolve())
  let received = ''
  socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')))
  return { socket, closed, received: () => received }
}

export async function expectReceived({ socket, received }: RawClient, part: string): Promise<void> {
  while (!received().includes(part)) await once(socket, 'data')
}

export async function deadPort(): Promise<number> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const port = portOf(server)
  server.close()
  await once(server, 'close')
  return port
}
