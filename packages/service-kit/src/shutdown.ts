import type { Logger } from './logger.ts'

/** How long an orderly end may take before the process gives up on it, in milliseconds. */
const shutdownTimeoutMs = 30_000

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
