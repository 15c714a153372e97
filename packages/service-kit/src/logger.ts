import { stdout } from 'node:process'
import { type Logger, destination, pino } from 'pino'

export type { Logger } from 'pino'

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

const keyPattern = /postern_[0-9A-Za-z]{49}/g
const maxCauses = 5

/** One JSON object per line; API keys are masked. */
export function createLogger(options: {
  service: string
  level: LogLevel
  write?: (line: string) => void
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
      errorKey: 'error',
      ...(options.fields === undefined ? {} : { mixin: options.fields }),
    },
    { write: (line: string) => void out.write(maskKeys(line)) },
  )
}

function maskKeys(line: string): string {
  return line.includes('postern_') ? line.replaceAll(keyPattern, 'postern_•••••') : line
}

const plainFields = [
  'code',
  'syscall',
  'address',
  'port',
  'severity',
  'schema',
  'table',
  'column',
  'constraint',
] as const
const plainPattern = /^[\w.:[\]/-]{1,128}$/
const engineErrors = [TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError] as const
const framePattern = /^ {4}at (?:.* \()?(?:file:\/\/|node:|\/|<anonymous>|native|index )[^()]*\)?$/

/** Messages only from our own code, because those of libraries quote rows, bodies and addresses. */
export function describeError(error: unknown, depth = 0): Record<string, unknown> {
  // pg-boss emits copies of errors, which are plain objects.
  if (!(error instanceof Error)) {
    return { type: typeof error, ...(typeof error === 'object' && error !== null ? pickPlainFields(error) : {}) }
  }
  const frames = framesOf(error)
  return {
    type: error.name,
    ...(isOurs(error, frames[0]) ? { message: error.message } : {}),
    ...pickPlainFields(error),
    stack: frames.join('\n'),
    ...(error.cause === undefined || depth >= maxCauses ? {} : { cause: describeError(error.cause, depth + 1) }),
  }
}

function pickPlainFields(error: object): Record<string, unknown> {
  const fields = new Map<string, unknown>(Object.entries(error))
  fields.set('code', 'code' in error ? error.code : undefined)
  return Object.fromEntries(
    plainFields.map((name) => [name, fields.get(name)] as const).filter(([, value]) => isPlain(value)),
  )
}

const bareNamePattern = /^[\w$.]+(?: \[\w+\])?$/

/** Returns no frames if the message was replaced, because its length is unknown. */
function framesOf({ stack = '', message }: Error): string[] {
  const lines = stack.split('\n')
  const [first = ''] = lines
  const [start = '', ...rest] = message.split('\n')
  const isAsMade = message !== '' && first.endsWith(start) && rest.every((line, at) => line === lines[at + 1])
  if (!isAsMade && !bareNamePattern.test(first)) return []
  return lines.slice(isAsMade ? 1 + rest.length : 1).filter((line) => framePattern.test(line))
}

function isOurs(error: Error, firstFrame: string | undefined): boolean {
  if (firstFrame === undefined || 'severity' in error || engineErrors.some((engine) => error instanceof engine))
    return false
  return !/node_modules|node:|<anonymous>|\(native|\(index /.test(firstFrame)
}

function isPlain(value: unknown): boolean {
  return typeof value === 'number' || (typeof value === 'string' && plainPattern.test(value))
}
