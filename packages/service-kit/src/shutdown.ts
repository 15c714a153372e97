import type { Server } from 'node:http'
import type { Logger } from './logger.ts'

/** How long an orderly end may take before the process gives up on it, in milliseconds. */
const shutdownTimeoutMs = 30_000

/** What is left of it for what follows the requests: what was counted is told, what was taken is given back. In milliseconds. */
const keptBackMs = 8_000

/** How long requests that are under way may go on behind a drain, in milliseconds. */
export function answersWithinMs({ drainMs }: { readonly drainMs: number }): number {
  return Math.max(1_000, shutdownTimeoutMs - drainMs - keptBackMs)
}

/**
 * Takes nothing new and waits for what is under way, `withinMs` milliseconds at most: one long upload or export must not cost what
 * is to be done behind it. What is cut off then, its caller sees as a broken connection.
 */
export async function closeServer(
  app: { readonly server: Server; close(): PromiseLike<unknown> },
  { withinMs, logger }: { readonly withinMs: number; readonly logger: Logger },
): Promise<void> {
  const limit = setTimeout(() => {
    logger.warn({ event: 'requests_cut_off', after_ms: withinMs })
    app.server.closeAllConnections()
  }, withinMs)
  try {
    await app.close()
  } finally {
    clearTimeout(limit)
  }
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
