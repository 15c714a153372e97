import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import { type Connections, openConnections } from './connections.ts'

const closers: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

type Service = (request: IncomingMessage, response: ServerResponse) => void

/** A service, and connections to it; `running` and `most` count the requests that it has at once. */
async function startService(limit: number, service: Service) {
  const seen = { running: 0, most: 0, sockets: new Set<unknown>() }
  const server = createServer((request, response) => {
    seen.running += 1
    seen.most = Math.max(seen.most, seen.running)
    seen.sockets.add(request.socket)
    response.once('close', () => {
      seen.running -= 1
    })
    service(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address: AddressInfo | string | null = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const connections = openConnections(`http://127.0.0.1:${address.port}`, limit, { connect: { timeout: 1000 } })
  const stop = (): void => {
    server.closeAllConnections()
    server.close()
  }
  closers.push(stop, async () => await connections.destroy())
  return { connections, seen, stop }
}

/** Sends a request and gives its status, or the code of its error. */
async function send(connections: Connections, path = '/'): Promise<number | string> {
  const { promise, resolve } = Promise.withResolvers<number | string>()
  let status = 0
  connections.dispatch(
    { method: 'GET', path, idempotent: false },
    {
      onResponseStart: (_controller, code) => {
        status = code
      },
      onResponseEnd: () => resolve(status),
      onResponseError: (_controller, error) => resolve('code' in error ? String(error.code) : error.message),
    },
  )
  return await promise
}

describe('a service that is not there', () => {
  test('fails every request, also those that waited for a connection', async () => {
    const { connections, stop } = await startService(1, (_request, response) => response.end())
    stop()
    const outcomes = await Promise.all([send(connections), send(connections), send(connections)])
    expect(outcomes).toEqual(['ECONNREFUSED', 'ECONNREFUSED', 'ECONNREFUSED'])
  })
})

describe('a connection', () => {
  test('has one request at a time, and is used again', async () => {
    const held: ServerResponse[] = []
    const { connections, seen } = await startService(2, (_request, response) => {
      // In pairs, so that both connections are needed.
      held.push(response)
      if (held.length === 2) for (const one of held.splice(0)) one.end('ok')
    })
    const outcomes = await Promise.all(Array.from({ length: 20 }, async () => await send(connections)))
    expect(new Set(outcomes)).toEqual(new Set([200]))
    expect(seen.most).toBe(2)
    expect(seen.sockets.size).toBe(2)
  })

  test('that the service breaks off fails its own request and serves the next on a new one', async () => {
    const { connections, seen } = await startService(1, (request, response) => {
      if (request.url === '/break') request.socket.destroy()
      else response.end('ok')
    })
    const outcomes = await Promise.all([send(connections, '/break'), send(connections), send(connections)])
    expect(outcomes).toEqual(['UND_ERR_SOCKET', 200, 200])
    expect(seen.sockets.size).toBe(2)
  })

  test('that is aborted serves the next request on a new one', async () => {
    const { connections } = await startService(1, (request, response) => {
      if (request.url !== '/hang') response.end('ok')
    })
    const { promise: aborted, resolve } = Promise.withResolvers<string>()
    connections.dispatch(
      { method: 'GET', path: '/hang', idempotent: false },
      {
        onRequestStart: (controller) => {
          void nextTurn().then(() => controller.abort(new Error('the client went away')))
        },
        onResponseError: (_controller, error) => resolve(error.message),
      },
    )
    expect(await send(connections)).toBe(200)
    expect(await aborted).toBe('the client went away')
  })
})

describe('once closed', () => {
  test('running and waiting requests fail, and so do new ones', async () => {
    const { connections } = await startService(1, () => undefined)
    const pending = [send(connections), send(connections)]
    await nextTurn()
    await connections.destroy()
    expect(await Promise.all([...pending, send(connections)])).toEqual([
      'UND_ERR_DESTROYED',
      'UND_ERR_DESTROYED',
      'UND_ERR_DESTROYED',
    ])
  })
})
