import { once } from 'node:events'
import { type IncomingHttpHeaders, type IncomingMessage, createServer, request } from 'node:http'
import { buffer } from 'node:stream/consumers'

export interface ProxiedRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

export interface ProxiedAnswer {
  readonly status: number
  readonly headers?: IncomingHttpHeaders
  readonly body?: Buffer
}

export interface TestProxy {
  readonly url: string
  close(): Promise<void>
}

/**
 * Starts a proxy to `origin`. `answer` returns what the client receives, usually the result of `forward`, or undefined
 * for no response.
 */
export async function startTestProxy(
  origin: string,
  answer: (request: ProxiedRequest, forward: () => Promise<ProxiedAnswer>) => Promise<ProxiedAnswer | undefined>,
): Promise<TestProxy> {
  const server = createServer((incoming, response) => {
    const respond = async (): Promise<void> => {
      const body = await buffer(incoming)
      const { method = '', url = '', headers: sent } = incoming
      const asked = { method, path: url, headers: sent, body }
      const given = await answer(asked, async () => await forwardTo(origin, incoming, body))
      if (given === undefined) return
      // Node sets the length of the body that is sent.
      const { 'content-length': _length, 'transfer-encoding': _coding, connection: _, ...headers } = given.headers ?? {}
      response.writeHead(given.status, headers).end(given.body)
    }
    respond().catch(() => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port')
  return {
    url: `http://127.0.0.1:${address.port}`,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

async function forwardTo(origin: string, { url, method, headers }: IncomingMessage, body: Buffer) {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  request(`${origin}${url}`, { method, headers }, resolve).once('error', reject).end(body)
  const answer = await promise
  return { status: answer.statusCode ?? 502, headers: answer.headers, body: await buffer(answer) }
}
