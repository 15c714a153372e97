import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Counter, type Registry } from '@prometheus-io/client'
import type { Logger } from './logger.ts'

export interface ConnectionBounds {
  readonly max: number
  /** An owner gets at most half of the connections. Undefined for shared addresses. */
  readonly ownerOf?: (address: string) => string | undefined
  readonly metrics: Registry
  readonly logger: Pick<Logger, 'warn'>
}

const crowdedShare = 0.8
const ownedShare = 0.5
const idleCheckShare = 0.1
const warnEveryMs = 60_000

/** If most are in use, idle ones are closed. Rejections are logged once a minute. */
export function boundConnections(server: Server, { max, ownerOf, metrics, logger }: ConnectionBounds): void {
  const refused = new Counter({
    name: 'postern_connections_refused_total',
    help: 'Connections closed at once because the process has its maximum (full), or one address has half of it (address)',
    labelNames: ['reason'],
    registers: [metrics],
  })
  for (const reason of ['full', 'address'] as const) refused.inc({ reason }, 0)
  const open = new Map<Socket, string | undefined>()
  /** Connections of each owner, counted from half of the maximum until only a quarter is in use. */
  let counts: Map<string, number> | undefined
  let openedSinceIdleCheck = 0
  let warnedAt = -Infinity

  function refuse(reason: 'full' | 'address', address: string | undefined): void {
    refused.inc({ reason })
    const now = performance.now()
    if (now - warnedAt < warnEveryMs) return
    warnedAt = now
    logger.warn({ event: 'connections_refused', reason, address, open: open.size, max })
  }

  function closeIdle(): void {
    openedSinceIdleCheck += 1
    if (open.size <= max * crowdedShare || openedSinceIdleCheck < max * idleCheckShare) return
    openedSinceIdleCheck = 0
    server.closeIdleConnections()
  }

  function count(socket: Socket, into: Map<string, number>): number {
    // A connection that was reset early has no address.
    const address = socket.remoteAddress
    const owner = address === undefined ? undefined : ownerOf?.(address)
    open.set(socket, owner)
    if (owner === undefined) return 0
    const total = (into.get(owner) ?? 0) + 1
    into.set(owner, total)
    return total
  }

  function enter(socket: Socket): boolean {
    open.set(socket, undefined)
    if (counts === undefined) {
      if (open.size <= max * ownedShare) return true
      counts = new Map()
      for (const [other] of open) if (other !== socket) count(other, counts)
    }
    return count(socket, counts) <= max * ownedShare
  }

  function leave(socket: Socket): void {
    const owner = open.get(socket)
    open.delete(socket)
    if (open.size <= (max * ownedShare) / 2) counts = undefined
    if (owner === undefined || counts === undefined) return
    const left = (counts.get(owner) ?? 0) - 1
    if (left > 0) counts.set(owner, left)
    else counts.delete(owner)
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
