import { once } from 'node:events'
import { type AddressInfo, type Socket, connect } from 'node:net'
import { fastify } from 'fastify'
import { describe, expect, test } from 'vitest'
import { closeConnectionsWhenDraining } from './app.ts'
import { createLogger } from './logger.ts'
import { watchServer } from './shutdown.ts'

/** A server that has just closed its port behind a drain, and a connection of before that has brought so many requests. */
async function atTheEnd({ requests, lingerMs }: { readonly requests: number; readonly lingerMs: number }) {
  const app = fastify({ forceCloseConnections: 'idle', return503OnClosing: false })
  app.get('/', async () => 'taken')
  let isDraining = false
  closeConnectionsWhenDraining(app, () => isDraining)
  const server = watchServer(app, { lingerMs })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = addressOf(app.server.address())
  const socket = connect(port, '127.0.0.1').on('error', () => undefined)
  await once(socket, 'connect')
  for (let sent = 0; sent < requests; sent += 1) {
    send(socket)
    const [answer] = await once(socket, 'data')
    expect(String(answer)).toMatch(/^HTTP\/1\.1 200 [^]*\r\nconnection: keep-alive\r\n[^]*taken$/i)
  }
  const lines: string[] = []
  const logger = createLogger({ service: 'test', level: 'info', write: (line) => lines.push(line) })
  isDraining = true
  const closed = server.close({ drainMs: 50, withinMs: 60_000, logger })
  while (await isTaken(port));
  return { socket, closed, lines }
}

function addressOf(address: AddressInfo | string | null): AddressInfo {
  if (address === null || typeof address === 'string') throw new Error('the server does not listen on a port')
  return address
}

function send(socket: Socket): void {
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
}

async function isTaken(port: number): Promise<boolean> {
  const next = connect(port, '127.0.0.1')
  try {
    await once(next, 'connect')
    return true
  } catch {
    return false
  } finally {
    next.destroy()
  }
}

async function readAll(socket: Socket): Promise<string> {
  let all = ''
  for await (const chunk of socket) all += String(chunk)
  return all
}

describe('a connection that is still open after the drain', () => {
  test.each([
    ['has sent no request yet', 0],
    ['is idle', 1],
  ])('and %s can send one more request, and ends with the response', async (_is, requests) => {
    const { socket, closed } = await atTheEnd({ requests, lingerMs: 20_000 })
    send(socket)
    expect(await readAll(socket)).toMatch(/^HTTP\/1\.1 200 [^]*\r\nconnection: close\r\n[^]*taken$/i)
    await closed
  })

  test.each([
    ['has sent no request', 0],
    ['is idle', 1],
  ])('and %s does not delay the end further', async (_is, requests) => {
    const { socket, closed, lines } = await atTheEnd({ requests, lingerMs: 50 })
    await closed
    expect(await readAll(socket)).toBe('')
    expect(lines.join('')).not.toContain('requests_cut_off')
  })
})
