import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Counter, type Registry } from '@prometheus-io/client'
import type { Logger } from './logger.ts'

export interface ConnectionBounds {
  /** Connections that the server has at most. */
  readonly max: number
  /**
   * Who is behind an address: each has half of the connections at most. Undefined for an address behind which there are many, as a proxy's. Without
   * it an address may have all.
   */
  readonly ownerOf?: (address: string) => string | undefined
  readonly metrics: Registry
  readonly logger: Pick<Logger, 'warn'>
}

/** Of all connections: beyond, those over which nothing is asked are closed. */
const crowdedShare = 0.8
/** Of all connections: as many as one owner may have. */
const ownedShare = 0.5
/** Of all connections: so many come before all are looked at again, which takes some milliseconds. */
const betweenTidiesShare = 0.1
const betweenWarningsMs = 60_000

/**
 * Bounds the connections of a server, so that nobody has them all by asking nothing over them. Where most are taken the idle ones are closed, whose clients
 * open another one; those that have brought no request yet end with the time for a head. What is not taken is counted, and told once a minute.
 */
export function boundConnections(server: Server, { max, ownerOf, metrics, logger }: ConnectionBounds): void {
  const refused = new Counter({
    name: 'postern_connections_refused_total',
    help: 'Connections that were closed at once: the process has as many as it may (full), or their address has its half (address)',
    labelNames: ['reason'],
    registers: [metrics],
  })
  for (const reason of ['full', 'address'] as const) refused.inc({ reason }, 0)
  /** With whom each belongs to, once that is looked at. */
  const open = new Map<Socket, string | undefined>()
  // Undefined while nobody can have half. Only then is it looked at: a connection that is reset before it brings anything is one from nowhere for
  // who looks later, and is not served.
  let counts: Map<string, number> | undefined
  let untidied = 0
  let warnedAt = -Infinity

  function refuse(reason: 'full' | 'address', address: string | undefined): void {
    refused.inc({ reason })
    const now = performance.now()
    if (now - warnedAt < betweenWarningsMs) return
    warnedAt = now
    logger.warn({ event: 'connections_refused', reason, address, open: open.size, max })
  }

  function closeIdle(): void {
    untidied += 1
    if (open.size <= max * crowdedShare || untidied < max * betweenTidiesShare) return
    untidied = 0
    server.closeIdleConnections()
  }

  /** Answers how many connections its owner has with it. */
  function count(socket: Socket, into: Map<string, number>): number {
    const address = socket.remoteAddress
    const owner = address === undefined ? undefined : ownerOf?.(address)
    if (owner === undefined) return 0
    const total = (into.get(owner) ?? 0) + 1
    into.set(owner, total)
    open.set(socket, owner)
    return total
  }

  function enter(socket: Socket): boolean {
    open.set(socket, undefined)
    if (open.size <= max * ownedShare) return true
    if (counts === undefined) {
      counts = new Map()
      for (const [other] of open) if (other !== socket) count(other, counts)
    }
    return count(socket, counts) <= max * ownedShare
  }

  function leave(socket: Socket): void {
    const owner = open.get(socket)
    open.delete(socket)
    if (owner !== undefined) counts?.set(owner, (counts.get(owner) ?? 1) - 1)
    if (open.size <= (max * ownedShare) / 2) counts = undefined
  }

  server.maxConnections = max
  server.on('drop', (dropped) => {
    refuse('full', dropped?.remoteAddress)
    closeIdle()
  })
  server.on('connection', (socket: Socket) => {
    socket.once('close', () => leave(socket))
    if (!enter(socket)) {
      refuse('address', socket.remoteAddress)
      socket.destroy()
    }
    closeIdle()
  })
}
