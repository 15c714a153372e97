import { once } from 'node:events'
import { type Socket, connect, createServer } from 'node:net'

export interface FrozenPeer {
  readonly port: number
  /** Connections that their clients have not ended. */
  readonly open: ReadonlySet<Socket>
  /** Until another connection has frozen. */
  frozen(): Promise<void>
  /** Ends all connections. */
  close(): void
}

/**
 * Passes on what clients and the server at `port` say, until one of them says `text`: that arrives nowhere, and nothing after it does, over a
 * connection that stays.
 */
export async function startFrozenPeer({ port, text }: { port: number; text: string }): Promise<FrozenPeer> {
  const open = new Set<Socket>()
  const sockets = new Set<Socket>()
  let next = Promise.withResolvers<void>()
  // What is frozen does not end its half of a connection because the other half has ended.
  const server = createServer({ allowHalfOpen: true }, (client: Socket) => {
    const behind: Socket = connect(port, '127.0.0.1')
    let isFrozen = false
    const pass = (bytes: Buffer, to: Socket): void => {
      if (isFrozen) return
      if (bytes.includes(text)) {
        isFrozen = true
        next.resolve()
      } else to.write(bytes)
    }
    for (const socket of [client, behind]) sockets.add(socket.on('error', () => undefined))
    open.add(client)
    for (const event of ['end', 'close']) client.on(event, () => void open.delete(client))
    client.on('data', (bytes) => pass(bytes, behind))
    behind.on('data', (bytes) => pass(bytes, client))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('it listens nowhere')
  return {
    port: address.port,
    open,
    frozen: async () => {
      next = Promise.withResolvers()
      await next.promise
    },
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
