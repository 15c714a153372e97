import { once } from 'node:events'
import {
  Agent,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  createServer,
  request as httpRequest,
} from 'node:http'
import { type AddressInfo, type Socket, connect } from 'node:net'
import { buffer, text } from 'node:stream/consumers'
import { randomBytes } from 'node:crypto'
import { createSigner, parseKeyRing } from '@postern/signed-context'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createGatewayApp } from '../app.ts'
import { type Exchange, sendProblem } from '../exchange.ts'
import { readHeaders } from '../sign/read-headers.ts'
import { openConnections } from './connections.ts'
import { forward } from './proxy.ts'

const ring = parseKeyRing(`k1:${randomBytes(32).toString('base64url')}`)
const mebibyte = 1024 * 1024

type Upstream = (request: IncomingMessage, response: ServerResponse) => void

interface Outcome {
  readonly status: number
  readonly failures: readonly unknown[]
}

const closers: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

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

/** A gateway that forwards every request to one upstream, with `outcome` telling how the exchange ended. */
async function startGateway(
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
    { connections: options.connections ?? 4, waiting: 100 },
    {
      connect: { timeout: 10_000 },
    },
  )
  closers.push(async () => await pool.destroy())
  const { promise: outcome, resolve } = Promise.withResolvers<Outcome>()
  const failures: unknown[] = []
  let handled = 0
  const app = createGatewayApp({
    handle: (request, response) => {
      handled += 1
      const headers = readHeaders(request.rawHeaders)
      const exchange: Exchange = {
        request,
        response,
        method: request.method ?? '',
        target: request.url ?? '',
        requestId: 'request-id-1',
        startedAt: 0,
        headers,
        address: '127.0.0.1',
        match: { kind: 'none' },
        route: undefined,
        principal: undefined,
        limits: undefined,
        span: undefined,
      }
      const length = headers.signed['content-length']
      if (request.url === '/refused') {
        sendProblem(exchange, 'missing_credentials')
        return
      }
      forward({
        exchange,
        target: { name: 'findings', pool, signer: createSigner(ring, 'findings') },
        headers: [...headers.passed, ...(length === undefined ? [] : ['content-length', length])],
        answerHeaders: [...(options.answerHeaders ?? [])],
        isDraining: options.isDraining ?? (() => false),
        hasBody: length !== undefined || headers.read['transfer-encoding'] !== undefined,
        maxBodyBytes: options.maxBodyBytes ?? 64 * mebibyte,
        answerWithinMs: options.answerWithinMs ?? 5000,
        clientTimeoutMs: 10_000,
        onDone: (_exchange, status) => resolve({ status, failures }),
        onFailure: (_exchange, error) => void failures.push(error),
      })
    },
    onCrash: (request, response) => sendProblem({ request, response, requestId: 'crash' }, 'internal_error'),
    maxHeaderBytes: 16_384,
    maxConnections: 100,
    clientTimeoutMs: 10_000,
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  closers.push(async () => {
    app.server.closeAllConnections()
    await app.close()
  })
  return { port: portOf(app.server), outcome, handled: () => handled }
}

async function startBoth(upstream: Upstream, options: Parameters<typeof startGateway>[1] = {}) {
  let attempts = 0
  const server = createServer((request, response) => {
    attempts += 1
    upstream(request, response)
  })
  const gateway = await startGateway(await listen(server), options)
  return { ...gateway, attempts: () => attempts }
}

function ask(port: number, method = 'GET'): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    httpRequest({ host: '127.0.0.1', port, path: '/thing', method, agent: false }, resolve).once('error', reject).end()
  })
}

async function get(port: number, method?: string) {
  const answer = await ask(port, method)
  return { status: answer.statusCode, headers: answer.headers, text: await text(answer) }
}

interface RawClient {
  readonly socket: Socket
  readonly closed: Promise<void>
  readonly received: () => string
}

async function open(port: number): Promise<RawClient> {
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

/** Waits until the client has received the text. */
async function expectReceived({ socket, received }: RawClient, part: string): Promise<void> {
  while (!received().includes(part)) await once(socket, 'data')
}

/** A port on which nothing listens. */
async function deadPort(): Promise<number> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const port = portOf(server)
  server.close()
  await once(server, 'close')
  return port
}

describe('a service that fails', () => {
  test('that cannot be reached is answered 503 with Retry-After: nothing was done', async () => {
    const { port, outcome } = await startGateway(await deadPort())
    const answer = await get(port)
    expect(answer.status).toBe(503)
    expect(answer.headers['retry-after']).toBe('1')
    expect(JSON.parse(answer.text)).toMatchObject({
      code: 'service_unavailable',
      detail: expect.stringContaining('Nothing was done'),
    })
    expect(answer.text).not.toContain('127.0.0.1')
    expect((await outcome).failures).toHaveLength(1)
  })

  test('that breaks off before it answers is answered 502, after one attempt', async () => {
    const { port, attempts } = await startBoth((request) => request.socket.destroy())
    const answer = await get(port)
    expect(answer.status).toBe(502)
    expect(JSON.parse(answer.text)).toMatchObject({ code: 'bad_gateway' })
    expect(attempts()).toBe(1)
  })

  test('that is silent is answered 504, after one attempt', async () => {
    const { port, attempts } = await startBoth(() => undefined, { answerWithinMs: 100 })
    const answer = await get(port)
    expect(answer.status).toBe(504)
    expect(attempts()).toBe(1)
  })

  test('that answers 503 is asked once, and its answer passed on', async () => {
    const { port, attempts } = await startBoth((_request, response) =>
      response.writeHead(503, { 'retry-after': '7' }).end('later'),
    )
    const answer = await get(port)
    expect(answer).toMatchObject({ status: 503, text: 'later' })
    expect(answer.headers['retry-after']).toBe('7')
    expect(attempts()).toBe(1)
  })

  test('that breaks off within its answer leaves the client with a broken answer, never a short one', async () => {
    const { port, outcome } = await startBoth((request, response) => {
      response.write('half', () => request.socket.destroy())
    })
    const answer = await ask(port)
    await expect(text(answer)).rejects.toThrow('aborted')
    expect((await outcome).failures).toHaveLength(1)
  })

  test('that answers 401 has refused the gateway, not the client: 503', async () => {
    const { port } = await startBoth((_request, response) => response.writeHead(401).end('{"code":"unsigned_request"}'))
    const answer = await get(port)
    expect(answer.status).toBe(503)
    expect(answer.text).not.toContain('unsigned_request')
  })
})

describe('an answer', () => {
  test('asks for the connection to be closed where the process has begun to drain meanwhile, and not before', async () => {
    let draining = false
    let asked = 0
    const { port } = await startBoth(
      (_request, response) => {
        asked += 1
        draining = asked === 2
        response.end('{}')
      },
      { isDraining: () => draining },
    )
    const connectionOf = async (): Promise<string | undefined> => {
      const agent = new Agent({ keepAlive: true })
      const answered = Promise.withResolvers<IncomingMessage>()
      httpRequest({ host: '127.0.0.1', port, path: '/thing', agent }, answered.resolve).end()
      const answer = await answered.promise
      await text(answer)
      agent.destroy()
      return answer.headers.connection
    }
    expect(await connectionOf()).toBe('keep-alive')
    expect(await connectionOf()).toBe('close')
  })

  test('keeps status, body and headers, without those that end at the gateway', async () => {
    const { port, outcome } = await startBoth(
      (_request, response) =>
        response
          .writeHead(
            201,
            [
              ['location', '/thing/1'],
              ['link', '<a>'],
              ['link', '<b>'],
              ['x-request-id', 'of-the-service'],
              ['server', 'inner'],
              ['ratelimit', 'inner'],
              ['postern-assertion', 'v1.secret'],
              ['connection', 'x-own'],
            ].flat(),
          )
          .end('made'),
      { answerHeaders: ['ratelimit', '"caller";r=1;t=2'] },
    )
    const answer = await get(port)
    expect(answer).toMatchObject({ status: 201, text: 'made' })
    expect(answer.headers).toMatchObject({
      location: '/thing/1',
      link: '<a>, <b>',
      'x-request-id': 'request-id-1',
      ratelimit: '"caller";r=1;t=2',
      'cache-control': 'no-store',
    })
    expect(answer.headers).not.toHaveProperty('server')
    expect(answer.headers).not.toHaveProperty('postern-assertion')
    expect(await outcome).toEqual({ status: 201, failures: [] })
  })

  test('to HEAD has the length of the body and no body', async () => {
    const { port } = await startBoth((_request, response) => response.writeHead(200, { 'content-length': '5' }).end())
    const answer = await get(port, 'HEAD')
    expect(answer).toMatchObject({ status: 200, text: '' })
    expect(answer.headers['content-length']).toBe('5')
  })

  test('1xx of the service stays between it and the gateway', async () => {
    const { port } = await startBoth((_request, response) => {
      response.writeEarlyHints({ link: '</style>; rel=preload' })
      response.end('final')
    })
    const client = await open(port)
    client.socket.write('GET /thing HTTP/1.1\r\nhost: a\r\n\r\n')
    await expectReceived(client, 'final')
    expect(client.received()).not.toContain('103')
    expect(client.received()).toMatch(/^HTTP\/1\.1 200 OK/)
  })

  test('is streamed: the first part arrives before the service has sent the last', async () => {
    let finish: (() => void) | undefined
    const { port } = await startBoth((_request, response) => {
      response.write('first')
      finish = () => void response.end('last')
    })
    const client = await open(port)
    client.socket.write('GET /thing HTTP/1.1\r\nhost: a\r\n\r\n')
    await expectReceived(client, 'first')
    finish?.()
    await expectReceived(client, 'last')
  })

  test('that the client does not read stops the service, and comes whole once it reads', async () => {
    const size = 64 * mebibyte
    let written = 0
    const { promise: isStopped, resolve: stopped } = Promise.withResolvers<void>()
    const { port } = await startBoth((_request, response) => {
      response.writeHead(200, { 'content-length': String(size) })
      const chunk = Buffer.alloc(64 * 1024)
      const more = (): void => {
        while (written < size) {
          written += chunk.length
          if (!response.write(chunk)) {
            const idle = setTimeout(stopped, 300)
            response.once('drain', () => {
              clearTimeout(idle)
              more()
            })
            return
          }
        }
        response.end()
      }
      more()
    })
    const answer = await ask(port)
    await isStopped
    expect(written).toBeLessThan(size)
    expect((await buffer(answer)).length).toBe(size)
  })

  test('is given up by the service when the client goes away', async () => {
    const closed = Promise.withResolvers<void>()
    const { port, outcome } = await startBoth((_request, response) => {
      response.write('first')
      response.once('close', closed.resolve)
    })
    const client = await open(port)
    client.socket.write('GET /thing HTTP/1.1\r\nhost: a\r\n\r\n')
    await expectReceived(client, 'first')
    client.socket.destroy()
    await closed.promise
    expect(await outcome).toEqual({ status: 0, failures: [] })
  })
})

describe('a request body', () => {
  test('is streamed: the service has its first part before the client has sent the last', async () => {
    const first = Promise.withResolvers<string>()
    const { port } = await startBoth((request, response) => {
      request.once('data', (chunk: Buffer) => first.resolve(chunk.toString()))
      request.once('end', () => response.end('thanks'))
    })
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nfirst')
    expect(await first.promise).toBe('first')
    client.socket.write('last')
    await expectReceived(client, 'thanks')
  })

  test('of unknown length arrives chunked and whole, also when it is all there before it is sent', async () => {
    const { port } = await startBoth((request, response) => {
      void text(request).then((body) => response.end(`${request.headers['transfer-encoding']}:${body}`))
    })
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n')
    await expectReceived(client, ':abc')
    expect(client.received()).toContain('chunked:abc')
  })

  test('that grows past its limit is answered 413, and the service never sees it whole', async () => {
    const ends: string[] = []
    const { port, outcome } = await startBoth(
      (request) => {
        request.on('error', () => ends.push('broken'))
        request.once('end', () => ends.push('whole'))
        request.resume()
      },
      { maxBodyBytes: 4 },
    )
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n')
    await expectReceived(client, 'content_too_large')
    expect(client.received()).toMatch(/^HTTP\/1\.1 413 /)
    expect(ends).not.toContain('whole')
    expect(await outcome).toEqual({ status: 413, failures: [] })
    // The connection is still good: what followed was read to its end.
    client.socket.write('GET /refused HTTP/1.1\r\nhost: a\r\n\r\n')
    await expectReceived(client, 'missing_credentials')
  })

  test('that has nothing in its chunks is answered 400, and is no failure of the service', async () => {
    const { port, outcome } = await startBoth((request, response) => {
      request.on('error', () => undefined)
      request.once('end', () => response.end())
      request.resume()
    })
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n')
    await expectReceived(client, 'The body is empty')
    expect(await outcome).toEqual({ status: 400, failures: [] })
  })

  test('that the client breaks off breaks off at the service, and is nobody else’s failure', async () => {
    const broken = Promise.withResolvers<boolean>()
    const { port, outcome } = await startBoth((request) => {
      request.on('error', () => undefined)
      request.once('close', () => broken.resolve(request.complete))
      request.resume()
    })
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nfirst')
    await new Promise((resolve) => setImmediate(resolve))
    client.socket.destroy()
    expect(await broken.promise).toBe(false)
    expect(await outcome).toEqual({ status: 0, failures: [] })
  })

  test('is asked for with 100 Continue once the request is let through', async () => {
    const { port } = await startBoth((request, response) => {
      void text(request).then((body) => response.end(`got ${body}`))
    })
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n')
    await expectReceived(client, 'HTTP/1.1 100 Continue\r\n\r\n')
    client.socket.write('body')
    await expectReceived(client, 'got body')
  })

  test('is not asked for when the request is refused, and the connection ends with the answer', async () => {
    const { port, attempts } = await startBoth((_request, response) => response.end())
    const client = await open(port)
    client.socket.write('POST /refused HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n')
    await client.closed
    expect(client.received()).toMatch(/^HTTP\/1\.1 401 /)
    expect(client.received()).toMatch(/connection: close/i)
    expect(attempts()).toBe(0)
  })

  test('under an expectation that cannot be met is answered 417', async () => {
    const { port } = await startBoth((_request, response) => response.end())
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\nexpect: a-miracle\r\ncontent-length: 0\r\n\r\n')
    await expectReceived(client, 'expectation_failed')
  })

  test('that the service refuses early: the client has the answer while it is still sending', async () => {
    const { port, outcome } = await startBoth((request, response) => {
      request.on('error', () => undefined)
      response.writeHead(413).end('too much')
    })
    const client = await open(port)
    client.socket.write(`POST /thing HTTP/1.1\r\nhost: a\r\ncontent-length: ${32 * mebibyte}\r\n\r\n`)
    client.socket.write(Buffer.alloc(256 * 1024))
    await expectReceived(client, 'too much')
    expect(client.received()).toMatch(/^HTTP\/1\.1 413 [^]*connection: close\r\n/i)
    expect((await outcome).status).toBe(413)
    // Which does not wait for it to have sent all.
    await client.closed
  })

  test.each([
    ['before it is read, of known length', '/refused', `content-length: ${16 * mebibyte}`, 401],
    ['by the service, of known length', '/thing', `content-length: ${16 * mebibyte}`, 413],
    ['by the service, in chunks', '/thing', 'transfer-encoding: chunked', 413],
    ['as too large, in chunks', '/large', 'transfer-encoding: chunked', 413],
  ])('that is refused %s: who sends all of it before reading gets the answer', async (_how, path, framing, status) => {
    const { port } = await startBoth(
      (request, response) => {
        request.on('error', () => undefined)
        if (request.url === '/thing') response.writeHead(413, { 'content-length': 8 }).end('too much')
        else request.resume()
      },
      path === '/large' ? { maxBodyBytes: mebibyte } : {},
    )
    const client = await open(port)
    client.socket.pause()
    client.socket.write(`POST ${path} HTTP/1.1\r\nhost: a\r\n${framing}\r\n\r\n`)
    const bytes = Buffer.alloc(16 * mebibyte)
    if (framing.startsWith('content-length')) client.socket.write(bytes)
    else
      client.socket.write(
        Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n0\r\n\r\n')]),
      )
    // A request that is hidden behind it is not taken up: the answer was the last.
    client.socket.write('GET /refused HTTP/1.1\r\nhost: a\r\n\r\n')
    while (client.socket.writableLength > 0) await once(client.socket, 'drain')
    client.socket.resume()
    await once(client.socket, 'end')
    expect(client.received()).toMatch(new RegExp(`^HTTP/1.1 ${status} [^]*connection: close\r\n`, 'i'))
    expect(client.received().match(/HTTP\/1/g)).toHaveLength(1)
  })

  test('that is refused, and goes on for ever, ends the connection', async () => {
    const { port } = await startBoth((_request, response) => response.end())
    const client = await open(port)
    client.socket.write('POST /refused HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n')
    const mebi = Buffer.concat([Buffer.from('100000\r\n'), Buffer.alloc(mebibyte), Buffer.from('\r\n')])
    let sent = 0
    while (client.socket.writable) {
      sent += 1
      const drained = new Promise((resolve) => client.socket.once('drain', resolve))
      if (!client.socket.write(mebi)) await Promise.race([drained, client.closed])
    }
    await client.closed
    expect(sent).toBeGreaterThan(64)
  })

  test('that is refused is no failure to fetch, however much of it is left', async () => {
    const { port } = await startBoth((_request, response) => response.end())
    for (let round = 0; round < 3; round += 1) {
      const body = Buffer.alloc(16 * mebibyte)
      const answer = await fetch(`http://127.0.0.1:${port}/refused`, { method: 'POST', body })
      expect([answer.status, await answer.text()]).toEqual([401, expect.stringContaining('missing_credentials')])
    }
  })

  test('whose rest is short is read to its end after an early answer, so the connection lives on', async () => {
    const { port } = await startBoth((request, response) => {
      request.on('error', () => undefined)
      response.writeHead(409).end('conflict')
    })
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n')
    client.socket.write(Buffer.alloc(50_000, 'a'))
    await expectReceived(client, 'conflict')
    client.socket.write(Buffer.alloc(50_000, 'a'))
    client.socket.write('GET /refused HTTP/1.1\r\nhost: a\r\n\r\n')
    await expectReceived(client, 'missing_credentials')
  })

  test('of a refused request is read to its end, and is never taken for the next request', async () => {
    const { port, attempts } = await startBoth((_request, response) => response.end())
    const hidden = 'GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n'
    const client = await open(port)
    client.socket.write(`POST /refused HTTP/1.1\r\nhost: a\r\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`)
    await expectReceived(client, 'missing_credentials')
    client.socket.write('GET /thing HTTP/1.1\r\nhost: a\r\n\r\n')
    await expectReceived(client, 'HTTP/1.1 200 OK')
    expect(attempts()).toBe(1)
  })
})

describe('connections to a service', () => {
  let release: (() => void)[]
  beforeEach(() => {
    release = []
  })

  test('a client that leaves while it waits for one is never sent to the service', async () => {
    const paths: (string | undefined)[] = []
    const { port, outcome, handled } = await startBoth(
      (request, response) => {
        paths.push(request.url)
        release.push(() => response.end('done'))
      },
      { connections: 1 },
    )
    const first = await open(port)
    first.socket.write('GET /first HTTP/1.1\r\nhost: a\r\n\r\n')
    while (release.length < 1) await new Promise((resolve) => setImmediate(resolve))
    const second = await open(port)
    second.socket.write('GET /second HTTP/1.1\r\nhost: a\r\n\r\n')
    while (handled() < 2) await new Promise((resolve) => setImmediate(resolve))
    second.socket.destroy()
    // Of the two that are under way this one ends first: the gateway knows that its client has gone.
    expect(await outcome).toMatchObject({ status: 0 })
    release[0]?.()
    await expectReceived(first, 'done')
    const third = await open(port)
    third.socket.write('GET /third HTTP/1.1\r\nhost: a\r\n\r\n')
    while (release.length < 2) await new Promise((resolve) => setImmediate(resolve))
    release[1]?.()
    await expectReceived(third, 'done')
    expect(paths).toEqual(['/first', '/third'])
  })
})
