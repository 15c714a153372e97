import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Counter, type Registry } from '@prometheus-io/client'

export interface UnreadBounds {
  /** The most unread bytes over all connections. */
  readonly maxBytes: number
  readonly findOwners?: () => ReadonlyMap<Socket, string>
  readonly metrics: Registry
}

const checkEveryMs = 100

interface Reader {
  /** Bytes that the client or the kernel had read at the last check. */
  taken: number
  idleChecks: number
}

/** Cuts connections of the owner with the most unread answers, starting with the most idle. */
export function boundUnread(server: Server, { maxBytes, findOwners, metrics }: UnreadBounds): void {
  const cut = new Counter({
    name: 'postern_unread_connections_cut_total',
    help: 'Connections that were cut because too many bytes of answers waited for clients that do not read',
    registers: [metrics],
  })
  const readers = new Map<Socket, Reader>()

  function checkReaders(): void {
    let unread = 0
    for (const [socket, reader] of readers) {
      unread += socket.writableLength
      const taken = socket.bytesWritten - socket.writableLength
      reader.idleChecks = taken === reader.taken ? reader.idleChecks + 1 : 0
      reader.taken = taken
    }
    if (unread > maxBytes) cutConnections(unread - maxBytes)
  }

  function cutConnections(tooMany: number): void {
    const owners = groupByOwner([...readers], findOwners?.() ?? new Map())
    let left = tooMany
    while (left > 0) {
      const most = owners.reduce((one, other) => (other.unread > one.unread ? other : one))
      const socket = most.sockets.shift()
      if (socket === undefined) return
      left -= socket.writableLength
      most.unread -= socket.writableLength
      cut.inc()
      socket.destroy()
    }
  }

  const timer = setInterval(checkReaders, checkEveryMs)
  timer.unref()
  server.once('close', () => clearInterval(timer))
  server.on('connection', (socket: Socket) => {
    readers.set(socket, { taken: 0, idleChecks: 0 })
    socket.once('close', () => readers.delete(socket))
  })
}

interface Owner {
  unread: number
  readonly sockets: Socket[]
}

function groupByOwner(readers: readonly (readonly [Socket, Reader])[], owners: ReadonlyMap<Socket, string>): Owner[] {
  const waiting = readers.filter(([socket]) => socket.writableLength > 0)
  waiting.sort(([a, one], [b, other]) => other.idleChecks - one.idleChecks || b.writableLength - a.writableLength)
  const groups = new Map<string, Owner>()
  for (const [socket] of waiting) {
    const name = owners.get(socket) ?? ''
    const owner = groups.get(name) ?? { unread: 0, sockets: [] }
    groups.set(name, owner)
    owner.unread += socket.writableLength
    owner.sockets.push(socket)
  }
  return [...groups.values()]
}
