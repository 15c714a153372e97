import { once } from 'node:events'
import { type Server, type Socket, connect, createServer } from 'node:net'

/** From the one that connects to the one that is connected to (`up`), back (`down`), or both. */
export type Direction = 'up' | 'down' | 'both'

/** All connections, or only those whose client has sent what marks them. */
export type Which = 'all' | 'marked'

/** A connection between two processes that can be made to fail. */
export interface TcpProxy {
  readonly port: number
  /** Resets what is open, and every new connection at once: the other side is not there. */
  cut(which?: Which): void
  /**
   * Accepts bytes without passing them on, like a network that loses everything. TCP's repetitions arrive after the
   * end.
   */
  freeze(direction: Direction, which?: Which): void
  heal(): void
  /** Connections that were reset since the last `cut`. */
  broken(): number
  /** Bytes that have come and are not passed on, since the last `freeze`. */
  held(): number
  close(): Promise<void>
}

interface Pair {
  readonly client: Socket
  readonly server: Socket
  isMarked: boolean
}

/**
 * Listens on the loopback address and passes connections on to `ports` there, in turn; what one refuses goes to the next.
 * A connection whose client sends something that `mark` matches is marked from then on.
 */
export async function startTcpProxy(ports: readonly number[], mark?: RegExp): Promise<TcpProxy> {
  const pairs = new Set<Pair>()
  let cutting: Which | undefined
  const frozen = { up: false, down: false }
  let freezing: Which = 'all'
  let broken = 0
  let turn = 0

  function isFrozen(pair: Pair, direction: 'up' | 'down'): boolean {
    return frozen[direction] && (freezing === 'all' || pair.isMarked)
  }

  function reset({ client, server }: Pair): void {
    broken += 1
    client.resetAndDestroy()
    server.resetAndDestroy()
  }

  function pass(pair: Pair, direction: 'up' | 'down'): void {
    const [from, to] = direction === 'up' ? [pair.client, pair.server] : [pair.server, pair.client]
    from.on('data', (chunk) => {
      if (direction === 'up' && !pair.isMarked && mark?.test(chunk.toString('latin1')) === true) {
        pair.isMarked = true
        if (cutting === 'marked') return reset(pair)
        applyFreeze(pair)
        if (isFrozen(pair, 'up')) return from.unshift(chunk)
      }
      if (!to.write(chunk)) from.pause()
    })
    to.on('drain', () => {
      if (!isFrozen(pair, direction)) from.resume()
    })
    from.on('end', () => to.end())
    from.on('error', () => to.destroy())
    from.on('close', () => to.destroy())
  }

  function applyFreeze(pair: Pair): void {
    if (isFrozen(pair, 'up')) pair.client.pause()
    if (isFrozen(pair, 'down')) pair.server.pause()
  }

  /** Connects to the next server that accepts, or reports the failure to the client. */
  function lead(client: Socket, triesLeft: number): void {
    const port = ports[turn++ % ports.length] ?? 0
    const server = connect({ host: '127.0.0.1', port, allowHalfOpen: true, noDelay: true })
    const onError = (): void => {
      if (triesLeft > 0 && !client.destroyed) lead(client, triesLeft - 1)
      else client.resetAndDestroy()
    }
    server.once('error', onError)
    server.once('connect', () => {
      server.removeListener('error', onError)
      const pair = { client, server, isMarked: false }
      server.on('error', () => client.destroy())
      if (client.destroyed || cutting === 'all') return reset(pair)
      pairs.add(pair)
      client.once('close', () => pairs.delete(pair))
      pass(pair, 'up')
      pass(pair, 'down')
      applyFreeze(pair)
    })
  }

  const listener: Server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    client.on('error', () => undefined)
    if (cutting === 'all') {
      broken += 1
      client.resetAndDestroy()
      return
    }
    lead(client, ports.length - 1)
  })
  listener.listen({ host: '127.0.0.1', port: 0 })
  await once(listener, 'listening')
  const address = listener.address()
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port')

  return {
    port: address.port,
    cut: (which = 'all') => {
      cutting = which
      broken = 0
      for (const pair of pairs) if (which === 'all' || pair.isMarked) reset(pair)
    },
    freeze: (direction, which = 'all') => {
      freezing = which
      if (direction !== 'down') frozen.up = true
      if (direction !== 'up') frozen.down = true
      for (const pair of pairs) applyFreeze(pair)
    },
    heal: () => {
      cutting = undefined
      frozen.up = false
      frozen.down = false
      for (const { client, server } of pairs) {
        client.resume()
        server.resume()
      }
    },
    broken: () => broken,
    held: () => {
      let bytes = 0
      for (const pair of pairs) {
        if (isFrozen(pair, 'up')) bytes += pair.client.readableLength
        if (isFrozen(pair, 'down')) bytes += pair.server.readableLength
      }
      return bytes
    },
    close: async () => {
      listener.close()
      for (const pair of pairs) reset(pair)
      await once(listener, 'close')
    },
  }
}
