import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Dispatcher } from 'undici'
import { afterEach, describe, expect, test } from 'vitest'
import { type Connections, PooledRequest, openConnections } from './connections.ts'

const closers: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

type Service = (request: IncomingMessage, response: ServerResponse) => void

/** A service, and connections to it; `running` and `most` count the requests that it has at once. */
async function startService(connectionLimit: number, service: Service, waiting = 100) {
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
  const connections = openConnections(
    `http://127.0.0.1:${address.port}`,
    { connections: connectionLimit, perTenant: connectionLimit, waiting },
    { connect: { timeout: 10_000 } },
  )
  const stop = (): void => {
    server.closeAllConnections()
    server.close()
  }
  closers.push(stop, async () => await connections.destroy())
  return { connections, seen, stop }
}

/** A request that records its outcome. */
class TestRequest extends PooledRequest {
  readonly #told = Promise.withResolvers<number | string>()
  /** The status, or the code or message of the error. */
  readonly outcome = this.#told.promise
  readonly #onStart: (controller: Dispatcher.DispatchController) => void
  #status = 0
  gaveUp = false

  constructor(onStart: (controller: Dispatcher.DispatchController) => void = () => undefined) {
    super()
    this.#onStart = onStart
  }

  isOver(): boolean {
    return this.gaveUp
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#onStart(controller)
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number): void {
    this.#status = status
  }

  onResponseData(): void {
    // The body is never read.
  }

  protected onEnd(): void {
    this.#told.resolve(this.#status)
  }

  protected onFailure(error: Error): void {
    this.#told.resolve('code' in error ? String(error.code) : error.message || error.name)
  }
}

/** Sends a request and gives its status, or the code of its error. */
async function send(connections: Connections, path = '/', tenantId = 'one'): Promise<number | string> {
  const request = new TestRequest()
  connections.dispatch({ method: 'GET', path, idempotent: false }, request, tenantId)
  return await request.outcome
}

describe('an unreachable service', () => {
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

  test('that the service breaks fails only its own request; the next request gets a new one', async () => {
    const { connections, seen } = await startService(1, (request, response) => {
      if (request.url === '/break') request.socket.destroy()
      else response.end('ok')
    })
    const outcomes = await Promise.all([send(connections, '/break'), send(connections), send(connections)])
    expect(outcomes).toEqual(['UND_ERR_SOCKET', 200, 200])
    expect(seen.sockets.size).toBe(2)
  })

  test('of an aborted request is replaced for the next one', async () => {
    const { connections } = await startService(1, (request, response) => {
      if (request.url !== '/hang') response.end('ok')
    })
    const request = new TestRequest((controller) => {
      void nextTurn().then(() => controller.abort(new Error('the client went away')))
    })
    connections.dispatch({ method: 'GET', path: '/hang', idempotent: false }, request, 'one')
    expect(await send(connections)).toBe(200)
    expect(await request.outcome).toBe('the client went away')
  })
})

describe('a full queue', () => {
  test('rejects a further request at once, until a waiting one is aborted or served', async () => {
    const held = Promise.withResolvers<ServerResponse>()
    const { connections, seen } = await startService(
      1,
      (request, response) => {
        if (request.url === '/hold') held.resolve(response)
        else response.end('ok')
      },
      1,
    )
    const first = send(connections, '/hold')
    const waiting = new TestRequest()
    connections.dispatch({ method: 'GET', path: '/waits', idempotent: false }, waiting, 'one')
    expect(await send(connections, '/too-many')).toBe('NoConnectionError')
    waiting.gaveUp = true
    const second = send(connections, '/instead')
    const response = await held.promise
    response.end('ok')
    expect(await Promise.all([first, second])).toEqual([200, 200])
    expect(await send(connections, '/after')).toBe(200)
    expect(seen.most).toBe(1)
  })
})

test('has space for new requests if those behind its head were aborted', async () => {
  const held = Promise.withResolvers<ServerResponse>()
  const { connections } = await startService(
    1,
    (request, response) => {
      if (request.url === '/hold') held.resolve(response)
      else response.end('ok')
    },
    3,
  )
  const first = send(connections, '/hold')
  const live = send(connections, '/live')
  const left = [new TestRequest(), new TestRequest()]
  for (const request of left) {
    connections.dispatch({ method: 'GET', path: '/left', idempotent: false }, request, 'one')
    request.gaveUp = true
  }
  const next = send(connections, '/next')
  const response = await held.promise
  response.end('ok')
  expect(await Promise.all([first, live, next])).toEqual([200, 200, 200])
})

/** A service that holds every response except that to `/quick`. */
const holding = (held: ServerResponse[]): Service => {
  return (request, response) => {
    if (request.url === '/quick') response.end('ok')
    else held.push(response)
  }
}
const untilHeld = async (held: readonly ServerResponse[], count: number): Promise<void> =>
  await expect.poll(() => held.length).toBe(count)

describe('a tenant that requests as much as possible', () => {
  test('gets three quarters of the connections, and the others share the rest', async () => {
    const held: ServerResponse[] = []
    const { connections, seen } = await startService(16, holding(held))
    const hogs = Array.from({ length: 30 }, async () => await send(connections, '/', 'hog'))
    await untilHeld(held, 12)
    expect(await send(connections, '/quick', 'other')).toBe(200)
    const others = Array.from({ length: 10 }, async () => await send(connections, '/', 'second hog'))
    await untilHeld(held, 15)
    expect(await send(connections, '/quick', 'other')).toBe(200)
    expect(seen.running).toBe(15)
    while (held.length > 0) {
      held.shift()?.end('ok')
      await nextTurn()
      if (held.length === 0) await expect.poll(() => held.length > 0 || seen.running === 0).toBe(true)
    }
    expect(new Set(await Promise.all([...hogs, ...others]))).toEqual(new Set([200]))
  })

  test('gets three quarters of the queue, and is served in rotation with other tenants', async () => {
    const held: ServerResponse[] = []
    const order: string[] = []
    const { connections } = await startService(1, holding(held), 8)
    const told = async (tenantId: string): Promise<number | string> => {
      const outcome = await send(connections, '/', tenantId)
      order.push(tenantId)
      return outcome
    }
    const hogs = Array.from({ length: 10 }, async () => await told('hog'))
    const other = told('other')
    const refused = ['hog', 'hog', 'hog']
    await expect.poll(() => order).toEqual(refused)
    for (let served = 1; served <= 8; served += 1) {
      await untilHeld(held, 1)
      held.shift()?.end('ok')
      await expect.poll(() => order.length).toBe(refused.length + served)
    }
    expect(order.indexOf('other') - refused.length).toBeLessThanOrEqual(2)
    expect(await other).toBe(200)
    expect((await Promise.all(hogs)).filter((outcome) => outcome === 200)).toHaveLength(7)
  })
})

describe('after it was closed', () => {
  test('the pool fails running, waiting and new requests', async () => {
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

test('a request whose handler throws still releases its connection', async () => {
  const { connections, seen } = await startService(1, (_request, response) => response.end('ok'))
  class Failing extends TestRequest {
    protected override onEnd(): void {
      super.onEnd()
      throw new Error('a mistake')
    }
  }
  const request = new Failing()
  connections.dispatch({ method: 'GET', path: '/', idempotent: false }, request, 'one')
  expect(await request.outcome).toBe(200)
  expect(await send(connections)).toBe(200)
  expect(seen.most).toBe(1)
})
