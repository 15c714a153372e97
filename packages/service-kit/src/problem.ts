import type { InputError, ProblemCode } from '@postern/contracts'

export interface ProblemOptions {
  /** What to fix, without internal details. */
  readonly detail?: string | undefined
  readonly errors?: readonly InputError[] | undefined
  readonly required_scope?: string | undefined
  readonly granted_scopes?: readonly string[] | undefined
  readonly documentation?: string | undefined
  readonly allowed?: readonly string[] | undefined
  readonly retryAfterSeconds?: number | undefined
  readonly cause?: unknown
}

/** Ends a request. Create it with `problem`. */
export class ProblemError extends Error {
  readonly code: ProblemCode
  readonly options: ProblemOptions

  constructor(code: ProblemCode, options: ProblemOptions) {
    super(code, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'ProblemError'
    this.code = code
    this.options = options
  }
}

/** 503, or 507 for a full database. The request can be repeated. */
export function databaseUnavailable(cause: unknown, access: 'read' | 'write' = 'read'): ProblemError {
  if (access === 'write' && isDiskFull(cause)) {
    return problem('insufficient_storage', {
      detail: 'The database is full. The request changed no data; try again later.',
      retryAfterSeconds: 300,
      cause,
    })
  }
  return problem('service_unavailable', { detail: 'Try again in a moment.', retryAfterSeconds: 1, cause })
}

/** disk_full, and configuration_limit_exceeded of quota extensions. */
function isDiskFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === '53100' || error.code === '53400')
}

export function problem(code: ProblemCode, options: ProblemOptions = {}): ProblemError {
  return new ProblemError(code, options)
}
