import { stdout } from 'node:process'
import { type Logger, destination, pino } from 'pino'

export type { Logger } from 'pino'

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

const keyPattern = /postern_[0-9A-Za-z]{49}/g
const maxCauses = 5

/**
 * Gives a logger that writes one JSON object a line: a stable `event`, fields with units in their names, no prose.
 *
 * Callers name every field they log; nothing is logged because it happened to be in an object. As a last resort, a line
 * that holds something in the form of an API key leaves with the key masked.
 */
export function createLogger(options: {
  service: string
  level: LogLevel
  write?: (line: string) => void
  /** Fields of the moment, for every line. */
  fields?: () => object
}): Logger {
  const out = options.write === undefined ? destination({ fd: stdout.fd, sync: true }) : { write: options.write }
  return pino(
    {
      level: options.level,
      base: { service: options.service },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
      ...(options.fields === undefined ? {} : { mixin: options.fields }),
    },
    { write: (line: string) => void out.write(maskKeys(line)) },
  )
}

function maskKeys(line: string): string {
  return line.includes('postern_') ? line.replaceAll(keyPattern, 'postern_•••••') : line
}

/**
 * What the log keeps of an error: type, message, code and stack, and the same of its causes. Other fields stay out: those
 * of a database error hold values of rows, those of an HTTP error hold headers.
 */
export function describeError(error: unknown, depth = 0): Record<string, unknown> {
  if (!(error instanceof Error)) return { type: typeof error }
  return {
    type: error.name,
    message: error.message,
    ...('code' in error && typeof error.code === 'string' ? { code: error.code } : {}),
    stack: error.stack,
    ...(error.cause === undefined || depth >= maxCauses ? {} : { cause: describeError(error.cause, depth + 1) }),
  }
}
