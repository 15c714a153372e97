import { once } from 'node:events'
import { type IncomingMessage, type Server, type ServerResponse, createServer, request as httpRequest } from 'node:http'

/** A reverse proxy that publishes a server below a path and removes that path. */
export interface PrefixProxy extends AsyncDisposable {
  readonly url: string
  /** The server may start after the proxy. */
  forwardTo(origin: string): void
}

/** Starts the proxy on a free port. It adds only the client's address to the headers. */
export async function startPrefixProxy(prefix: string): Promise<PrefixProxy> {
  let upstream: string | undefined

  function forward(from: IncomingMessage, to: ServerResponse): void {
    const target = from.url ?? ''
    if (upstream === undefined || !(target === prefix || target.startsWith(`${prefix}/`))) {
      to.writeHead(404, { 'content-type': 'text/plain' }).end('outside the prefix')
      return
    }
    const sent = httpRequest(`${upstream}${target.slice(prefix.length) || '/'}`, {
      method: from.method ?? 'GET',
      headers: { ...from.headers, 'x-forwarded-for': from.socket.remoteAddress ?? '' },
    })
    sent.on('response', (answer) => {
      to.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
      answer.pipe(to)
    })
    sent.on('error', () => to.destroy())
    to.on('close', () => sent.destroy())
    from.pipe(sent)
  }

  const server = createServer(forward)
  const origin = await listen(server)
  return {
    url: `${origin}${prefix}`,
    forwardTo: (to) => {
      upstream = to
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return `http://127.0.0.1:${address.port}`
}
