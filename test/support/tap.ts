import { once } from 'node:events'
import { type Server, type Socket, connect, createServer } from 'node:net'

/** A connection between two processes on which somebody listens. */
export interface Tap {
  readonly port: number
  /** All that went to the server since the last call, byte for byte. */
  take(): string
  close(): Promise<void>
}

/** Listens on the loopback address and passes connections on to `port` there. */
export async function startTap(port: number): Promise<Tap> {
  const open = new Set<Socket>()
  let heard = ''
  const listener: Server = createServer({ noDelay: true }, (client) => {
    const server = connect({ host: '127.0.0.1', port, noDelay: true })
    client.on('data', (chunk) => (heard += chunk.toString('latin1')))
    client.pipe(server)
    server.pipe(client)
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      open.add(one)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        open.delete(one)
        other.destroy()
      })
    }
  })
  listener.listen({ host: '127.0.0.1', port: 0 })
  await once(listener, 'listening')
  const address = listener.address()
  if (address === null || typeof address === 'string') throw new Error('the tap has no port')
  return {
    port: address.port,
    take: () => {
      const before = heard
      heard = ''
      return before
    },
    close: async () => {
      listener.close()
      for (const socket of open) socket.destroy()
      await once(listener, 'close')
    },
  }
}
