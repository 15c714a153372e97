import type { Server } from 'node:http'
import { Server as ConnectionServer, type Socket } from 'node:net'
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { readBeforeIdleClose } from './late-process.ts'
import type { Logger } from './logger.ts'

const shutdownTimeoutMs = 30_000
/** For closing dependencies after the last answer. */
const closeDepsMs = 8_000

/** Clients close idle connections earlier, but may be late. */
const defaultLingerMs = 1_000
const maxTurns = 128

/** Returns how long open requests may take after the drain. */
export function answersWithinMs({ drainMs }: { readonly drainMs: number }): number {
  return Math.max(1_000, shutdownTimeoutMs - drainMs - closeDepsMs)
}

export interface WatchedServer {
  /** Node's own `close()` would lose a request that is just arriving. */
  close(end: { readonly drainMs: number; readonly withinMs: number; readonly logger: Logger }): Promise<void>
}

/** Call it before the server listens. */
export function watchServer(
  app: { readonly server: Server; close(): PromiseLike<unknown> },
  { lingerMs = defaultLingerMs }: { readonly lingerMs?: number } = {},
): WatchedServer {
  const connections = watchConnections(app.server)
  readBeforeIdleClose(app.server)
  return {
    close: async ({ drainMs, withinMs, logger }) => {
      await delay(drainMs)
      const limit = setTimeout(() => {
        logger.warn({ event: 'requests_cut_off', after_ms: withinMs })
        app.server.closeAllConnections()
      }, withinMs)
      try {
        if (drainMs > 0) await drainConnections(app.server, connections, lingerMs)
        connections.cutUnused()
        await app.close()
      } finally {
        clearTimeout(limit)
      }
    },
  }
}

interface Connections {
  accepted(): Promise<void>
  cutUnused(): void
}

function watchConnections(server: Server): Connections {
  const open = new Set<Socket>()
  let made = 0
  server.on('connection', (socket: Socket) => {
    made += 1
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  return {
    accepted: async () => {
      // Each turn accepts one connection. Connecting clients do not delay the end.
      for (let [turn, before] = [0, -1]; turn < maxTurns && before !== made; turn += 1) {
        before = made
        await nextTurn()
      }
    },
    cutUnused: () => {
      for (const socket of open) {
        if (socket.bytesRead === 0) socket.destroy()
      }
    },
  }
}

async function drainConnections(server: Server, connections: Connections, mostMs: number): Promise<void> {
  // Closing the socket resets connections that wait to be accepted.
  await connections.accepted()
  const ended = new Promise<void>((resolve) => {
    ConnectionServer.prototype.close.call(server, () => resolve())
  })
  const late = new AbortController()
  await Promise.race([ended, delay(mostMs, undefined, { signal: late.signal }).catch(() => undefined)])
  late.abort()
  await nextTurn()
}

/** Exits with 0 if `close` finished in time. A second signal exits at once, and so does an uncaught error. */
export function closeOnSignal(logger: Logger, close: () => Promise<void>): void {
  let closing = false
  const end = (signal: NodeJS.Signals): void => {
    if (closing) process.exit(1)
    closing = true
    logger.info({ event: 'stopping', signal })
    const limit = setTimeout(() => {
      logger.error({ event: 'stop_timed_out', after_ms: shutdownTimeoutMs })
      process.exit(1)
    }, shutdownTimeoutMs)
    limit.unref()
    close().then(
      () => {
        logger.info({ event: 'stopped' })
        process.exit(0)
      },
      (error: unknown) => {
        logger.error({ event: 'stop_failed', err: error })
        process.exit(1)
      },
    )
  }
  process.on('SIGTERM', end)
  process.on('SIGINT', end)
  process.on('uncaughtException', (error) => {
    logger.fatal({ event: 'uncaught_error', err: error })
    process.exit(1)
  })
  process.on('unhandledRejection', (error) => {
    logger.fatal({ event: 'unhandled_rejection', err: error })
    process.exit(1)
  })
}
