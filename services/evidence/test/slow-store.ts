import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse, createServer, request } from 'node:http'

/** A proxy in front of an object store that can delay requests. */
export interface SlowStore {
  readonly endpoint: string
  /** Holds requests whose method and target match, such as `PUT /bucket/key`. */
  hold(target: RegExp): void
  held(): number
  /** Rejects held and further matching requests, as an overloaded store does. */
  refuse(): void
  close(): Promise<void>
}

function refuse(answer: ServerResponse): void {
  answer.writeHead(503).end()
}

export async function startSlowStore(endpoint: string): Promise<SlowStore> {
  const { hostname, port } = new URL(endpoint)
  const held = new Set<ServerResponse>()
  let stalled: RegExp | undefined
  let isRefusing = false
  const server = createServer((incoming: IncomingMessage, answer) => {
    incoming.on('error', () => undefined)
    if (stalled?.test(`${incoming.method} ${incoming.url}`) === true) {
      incoming.resume()
      if (isRefusing) refuse(answer)
      else held.add(answer.once('close', () => held.delete(answer)))
      return
    }
    // The signature covers the host.
    const { method, url, headers } = incoming
    const onward = request({ hostname, port, method, path: url, headers }, (given) => {
      answer.writeHead(given.statusCode ?? 502, given.headers)
      given.pipe(answer)
    })
    onward.on('error', () => answer.destroy())
    incoming.pipe(onward)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port')
  return {
    endpoint: `http://127.0.0.1:${address.port}`,
    hold: (target) => {
      stalled = target
      isRefusing = false
    },
    held: () => held.size,
    refuse: () => {
      isRefusing = true
      for (const answer of held) refuse(answer)
    },
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
