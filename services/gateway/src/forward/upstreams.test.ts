import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { parseKeyRing } from '@postern/signed-context'
import { expect, test } from 'vitest'
import { PooledRequest } from './connections.ts'
import { openUpstreams } from './upstreams.ts'

/** A request that only records its end. */
class Ending extends PooledRequest {
  readonly #end = Promise.withResolvers<void>()
  readonly end = this.#end.promise

  onRequestStart(): void {}
  onResponseStart(): void {}
  onResponseData(): void {}

  isOver(): boolean {
    return false
  }

  protected onEnd(): void {
    this.#end.resolve()
  }

  protected onFailure(error: Error): void {
    this.#end.reject(error)
  }
}

test('an idle connection is closed by the gateway, before a service that drains would cut it', async () => {
  // A service that would keep it, as all do, for longer than this test may take.
  const server = createServer({ keepAliveTimeout: 75_000 }, (_request, response) => response.end('{}'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const ring = parseKeyRing(`k1:${randomBytes(32).toString('base64url')}`)
  const upstream = { url: `http://127.0.0.1:${address.port}`, ring }
  const config = {
    upstreams: { keys: upstream, findings: upstream, universe: upstream, evidence: upstream, sync: upstream },
    upstreamConnections: 1,
    tenantConnections: 96,
    upstreamWaiting: 1,
    basePath: '',
  }
  const upstreams = openUpstreams(config)
  try {
    const connected = Promise.withResolvers<Socket>()
    server.once('connection', connected.resolve)
    const request = new Ending()
    upstreams.targets.findings.pool.dispatch({ method: 'GET', path: '/', idempotent: false }, request, '')
    const socket = await connected.promise
    await request.end
    await expect(once(socket, 'end')).resolves.toBeDefined()
  } finally {
    await upstreams.close()
    server.closeAllConnections()
    server.close()
  }
}, 20_000)
