import type { Server } from 'node:http'
import { Server as ConnectionServer, type Socket } from 'node:net'
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { readBeforeIdleClose } from './late-process.ts'
import type { Logger } from './logger.ts'

/** How long an orderly end may take before the process gives up on it, in milliseconds. */
const shutdownTimeoutMs = 30_000

/** What is left of it for what follows the requests: what was counted is told, what was taken is given back. In milliseconds. */
const keptBackMs = 8_000

/**
 * How long connections may still bring a request behind a drain, in milliseconds. Who holds one that is idle closes it before a drain
 * ends (`idleConnections`), and who makes one sends its request at once: on a busy machine both may be late.
 */
const usualLingerMs = 1_000

/** As many as wait to be accepted at a time, and more. */
const mostTurns = 128

/** How long requests that are under way may go on behind a drain, in milliseconds. */
export function answersWithinMs({ drainMs }: { readonly drainMs: number }): number {
  return Math.max(1_000, shutdownTimeoutMs - drainMs - keptBackMs)
}

/** A server and the connections to it. */
export interface WatchedServer {
  /**
   * Answers on for `drainMs`, takes no new connection then, and waits for what is under way, `withinMs` milliseconds at most: one long
   * upload or export must not cost what is to be done behind it. What is cut off then, its caller sees as a broken connection.
   *
   * Connections have a moment to end by themselves, each with its next answer or as its other end finds it idle. The server's own
   * `close()` cuts those that are idle at once, and loses the request that is just on its way; those that have never brought one it
   * keeps, and waits for them.
   */
  close(end: { readonly drainMs: number; readonly withinMs: number; readonly logger: Logger }): Promise<void>
}

/** To be called before the server listens. From then on it also reads what has come before it closes what is idle. */
export function watchServer(
  app: { readonly server: Server; close(): PromiseLike<unknown> },
  { lingerMs = usualLingerMs }: { readonly lingerMs?: number } = {},
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
        if (drainMs > 0) await linger(app.server, connections, lingerMs)
        connections.cutUnused()
        await app.close()
      } finally {
        clearTimeout(limit)
      }
    },
  }
}

interface Connections {
  /** Resolves when those that wait to be accepted are. */
  accepted(): Promise<void>
  /** Cuts those that have brought nothing. */
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
      // One is accepted in each turn of the event loop; who goes on connecting is not waited for.
      for (let [turn, before] = [0, -1]; turn < mostTurns && before !== made; turn += 1) {
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

/** Takes no new connection, and gives those that there are `mostMs` to end by themselves. */
async function linger(server: Server, connections: Connections, mostMs: number): Promise<void> {
  // When the socket closes, connections that wait to be accepted are reset, with what they have brought.
  await connections.accepted()
  const ended = new Promise<void>((resolve) => {
    ConnectionServer.prototype.close.call(server, () => resolve())
  })
  const late = new AbortController()
  await Promise.race([ended, delay(mostMs, undefined, { signal: late.signal }).catch(() => undefined)])
  late.abort()
  // A process that was late itself first reads what has come meanwhile.
  await nextTurn()
}

/**
 * Runs `close` once on SIGTERM or SIGINT and ends the process: with 0 when it closed in time, with 1 otherwise. A second
 * signal ends it at once. An error that nobody caught is logged and ends the process too: its state is unknown.
 */
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
