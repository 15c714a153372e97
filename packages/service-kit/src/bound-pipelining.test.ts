import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import { type AddressInfo, Socket, connect } from 'node:net'
import { Registry } from '@prometheus-io/client'
import { expect, onTestFinished, test } from 'vitest'
import { createPipelining } from './bound-pipelining.ts'
import { answerClientError } from './problem-handler.ts'

/** A server that answers on command and records the requests that it has started. */
async function start(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const begun: string[] = []
  const metrics = new Registry()
  const take = createPipelining<undefined>({
    begin: (request, response) => {
      begun.push(request.url ?? '')
      answer(request, response)
    },
    refuse: (_request, response) => void response.writeHead(429, { connection: 'close' }).end(),
    metrics,
  })
  const server = createServer((request, response) => take(request, response, undefined))
  server.on('clientError', (error, socket) => {
    // Node types it as any stream.
    if (socket instanceof Socket) answerClientError(error, socket, 'request-id')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    begun,
    refused: async (): Promise<string[]> => (await metrics.metrics()).match(/^postern_pipelined.*$/gm) ?? [],
    send: (
      count: number,
    ): { readonly socket: Socket; readonly closed: Promise<void>; readonly received: () => string } => {
      const socket = connect(port, '127.0.0.1')
      const { promise: closed, resolve } = Promise.withResolvers<void>()
      socket.once('close', () => resolve())
      let received = ''
      socket.on('error', () => undefined)
      socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')))
      socket.write(Array.from({ length: count }, (_, at) => `GET /${at} HTTP/1.1\r\nHost: a\r\n\r\n`).join(''))
      return { socket, closed, received: () => received }
    },
  }
}

function statusesOf(text: string): string[] {
  return [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status = '']) => status)
}

test('pipelined requests start one after the other, each after the response before it', async () => {
  const open: ServerResponse[] = []
  const { begun, send } = await start((_request, response) => void open.push(response))
  const { received } = send(3)
  for (const [at, wanted] of ['/0', '/1', '/2'].entries()) {
    await expect.poll(() => begun.length).toBe(at + 1)
    expect(begun.at(-1)).toBe(wanted)
    open[at]?.end('answered')
  }
  await expect.poll(() => statusesOf(received())).toEqual(['200', '200', '200'])
})

test('a connection with too many pipelined requests gets 429 after the accepted ones, and is closed', async () => {
  const open: ServerResponse[] = []
  const { begun, refused, send } = await start((request, response) => {
    if (request.url === '/0') open.push(response)
    else response.end()
  })
  const { closed, received } = send(600)
  await expect.poll(async () => await refused()).toEqual(['postern_pipelined_requests_refused_total 1'])
  expect(begun).toEqual(['/0'])
  open[0]?.end()
  await closed
  expect(statusesOf(received())).toEqual([...Array<string>(65).fill('200'), '429'])
  expect(begun).toHaveLength(65)
})

test('a connection that sends thousands of requests and reads no response is cut', async () => {
  const { begun, send } = await start(() => undefined)
  const { closed } = send(10_000)
  await closed
  expect(begun).toEqual(['/0'])
})

test('requests behind a response that ends the connection are not executed', async () => {
  const { begun, send } = await start(
    (_request, response) => void response.writeHead(200, { connection: 'close' }).end(),
  )
  const { closed, received } = send(3)
  await closed
  expect([begun, statusesOf(received())]).toEqual([['/0'], ['200']])
})

test('requests that waited on closed connections no longer count', async () => {
  let holds = true
  const { begun, send } = await start((_request, response) => {
    if (!holds) response.end()
  })
  for (let round = 1; round <= 6; round += 1) {
    const clients = Array.from({ length: 40 }, () => send(30))
    await expect.poll(() => begun.length).toBe(round * 40)
    for (const { socket } of clients) socket.destroy()
    await Promise.all(clients.map(async ({ closed }) => await closed))
  }
  holds = false
  const { received } = send(30)
  await expect.poll(() => statusesOf(received())).toEqual(Array<string>(30).fill('200'))
})

test.each([
  ['and its head has not been sent: a problem', false, ['400']],
  ['and its head has been sent: the connection ends without a second answer', true, ['200']],
])('bytes that are not HTTP arrive during an answer, %s', async (_what, hasHead, statuses) => {
  const { begun, send } = await start((_request, response) => {
    if (hasHead) response.writeHead(200, { 'content-length': 100 }).write('part')
  })
  const { closed, received, socket } = send(1)
  await expect.poll(() => [begun.length, received().includes('part')]).toEqual([1, hasHead])
  socket.write('not HTTP\r\n\r\n')
  await closed
  expect(statusesOf(received())).toEqual(statuses)
})
