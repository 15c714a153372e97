import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Counter, type Registry } from '@prometheus-io/client'

export interface UnreadBounds {
  /** Bytes of answers that may wait for their clients, on all connections together. */
  readonly maxBytes: number
  readonly metrics: Registry
}

const lookEveryMs = 100

interface Reader {
  /** Bytes that the client, or the kernel for it, had taken at the last look. */
  taken: number
  /** Looks since it took anything. */
  idleLooks: number
}

/**
 * Bounds what clients that do not read leave in memory. While more than `maxBytes` wait, the connections that have taken nothing for
 * longest are cut. By looking now and then: a request costs nothing for it.
 */
export function boundUnread(server: Server, { maxBytes, metrics }: UnreadBounds): void {
  const cut = new Counter({
    name: 'postern_unread_connections_cut_total',
    help: 'Connections that were cut because too many bytes of answers waited for clients that do not read',
    registers: [metrics],
  })
  const readers = new Map<Socket, Reader>()

  function look(): void {
    let unread = 0
    for (const [socket, reader] of readers) {
      unread += socket.writableLength
      const taken = socket.bytesWritten - socket.writableLength
      reader.idleLooks = taken === reader.taken ? reader.idleLooks + 1 : 0
      reader.taken = taken
    }
    if (unread <= maxBytes) return
    const waiting = [...readers].filter(([socket]) => socket.writableLength > 0)
    waiting.sort(([a, one], [b, other]) => other.idleLooks - one.idleLooks || b.writableLength - a.writableLength)
    for (const [socket] of waiting) {
      if (unread <= maxBytes) return
      unread -= socket.writableLength
      cut.inc()
      socket.destroy()
    }
  }

  const timer = setInterval(look, lookEveryMs)
  timer.unref()
  server.once('close', () => clearInterval(timer))
  server.on('connection', (socket: Socket) => {
    readers.set(socket, { taken: 0, idleLooks: 0 })
    socket.once('close', () => readers.delete(socket))
  })
}
