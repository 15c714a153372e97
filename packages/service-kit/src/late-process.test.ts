import { once } from 'node:events'
import { createServer } from 'node:http'
import { type Socket, connect } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { watchServer } from './shutdown.ts'

const closers: (() => void)[] = []

afterEach(() => {
  for (const close of closers.splice(0)) close()
})

const keepAliveTimeout = 200

/** A connection that has brought one request and been answered, to a server that holds idle ones for `keepAliveTimeout` milliseconds. */
async function openIdle(): Promise<Socket> {
  const server = createServer({ keepAliveTimeout, keepAliveTimeoutBuffer: 0 }, (_request, response) => {
    response.end('taken')
  })
  watchServer({ server, close: async () => undefined })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const socket = connect(address.port, '127.0.0.1').on('error', () => undefined)
  await once(socket, 'connect')
  send(socket)
  await once(socket, 'data')
  return socket
}

function send(socket: Socket): void {
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
}

/** This process does nothing else for so long, as one that is frozen. */
function standStill(milliseconds: number): void {
  const until = performance.now() + milliseconds
  while (performance.now() < until);
}

async function readAll(socket: Socket): Promise<string> {
  let all = ''
  for await (const chunk of socket) all += String(chunk)
  return all
}

describe('a connection that is idle', () => {
  test('is closed when its time is over', async () => {
    const socket = await openIdle()
    expect(await readAll(socket)).toBe('')
  })

  test('is not closed if a request arrived during the freeze that its time ended in; later it is closed in time', async () => {
    const socket = await openIdle()
    send(socket)
    standStill(3 * keepAliveTimeout)
    const answer = await readAll(socket)
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*taken/)
    expect(answer.match(/taken/g)).toHaveLength(1)
    expect(socket.destroyed).toBe(true)
  })

  test('with half a request is closed too', async () => {
    const socket = await openIdle()
    socket.write('GET / HT')
    standStill(3 * keepAliveTimeout)
    expect(await readAll(socket)).toBe('')
  })
})
