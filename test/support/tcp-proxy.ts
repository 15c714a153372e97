import { once } from 'node:events'
import { type Server, type Socket, connect, createServer } from 'node:net'

/** From the one that connects to the one that is connected to (`up`), back (`down`), or both. */
export type Direction = 'up' | 'down' | 'both'

/** A connection between two processes that can be made to fail. */
export interface TcpProxy {
  readonly port: number
  /** Resets what is open, and every new connection at once: the other side is not there. */
  cut(): void
  /** Takes in bytes and does not pass them on: a network that loses everything. What TCP would send again comes when healed. */
  freeze(direction: Direction): void
  heal(): void
  close(): Promise<void>
}

interface Pair {
  readonly client: Socket
  readonly server: Socket
}

/** Listens on the loopback address and passes connections on to `port` there. */
export async function startTcpProxy(port: number): Promise<TcpProxy> {
  const pairs = new Set<Pair>()
  let isCut = false
  const frozen = { up: false, down: false }

  function pass(from: Socket, to: Socket, direction: 'up' | 'down'): void {
    from.on('data', (chunk) => {
      if (!to.write(chunk)) from.pause()
    })
    to.on('drain', () => {
      if (!frozen[direction]) from.resume()
    })
    from.on('end', () => to.end())
    from.on('error', () => to.destroy())
    from.on('close', () => to.destroy())
    if (frozen[direction]) from.pause()
  }

  const listener: Server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    if (isCut) {
      client.on('error', () => undefined)
      client.resetAndDestroy()
      return
    }
    const server = connect({ host: '127.0.0.1', port, allowHalfOpen: true, noDelay: true })
    const pair = { client, server }
    pairs.add(pair)
    client.once('close', () => pairs.delete(pair))
    pass(client, server, 'up')
    pass(server, client, 'down')
  })
  listener.listen({ host: '127.0.0.1', port: 0 })
  await once(listener, 'listening')
  const address = listener.address()
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port')

  function cutAll(): void {
    for (const { client, server } of pairs) {
      client.resetAndDestroy()
      server.resetAndDestroy()
    }
  }

  return {
    port: address.port,
    cut: () => {
      isCut = true
      cutAll()
    },
    freeze: (direction) => {
      if (direction !== 'down') frozen.up = true
      if (direction !== 'up') frozen.down = true
      for (const { client, server } of pairs) {
        if (frozen.up) client.pause()
        if (frozen.down) server.pause()
      }
    },
    heal: () => {
      isCut = false
      frozen.up = false
      frozen.down = false
      for (const { client, server } of pairs) {
        client.resume()
        server.resume()
      }
    },
    close: async () => {
      listener.close()
      cutAll()
      await once(listener, 'close')
    },
  }
}
