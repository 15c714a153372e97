import { type InputError, type ProblemCode, seeErrors } from '@postern/contracts'

export interface ProblemOptions {
  /** For the caller: what to mend. Never what happened inside. */
  readonly detail?: string | undefined
  readonly errors?: readonly InputError[] | undefined
  readonly required_scope?: string | undefined
  /** What would be allowed instead: methods, states. */
  readonly allowed?: readonly string[] | undefined
  /** Sent as `Retry-After`. */
  readonly retryAfterSeconds?: number | undefined
  /** For the log. */
  readonly cause?: unknown
}

/** Ends a request with a problem document. Made by `problem`, written to the client by the problem handler alone. */
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

/** The 503 of a request for which there is no database now, and the 507 of a change for which the database has no room: nothing of it was done, or it can be done again. */
export function databaseAway(cause: unknown, access: 'read' | 'write' = 'read'): ProblemError {
  if (access === 'write' && isDiskFull(cause)) {
    return problem('insufficient_storage', {
      detail: 'The database has no room at present. Nothing was changed; try again later.',
      retryAfterSeconds: 300,
      cause,
    })
  }
  return problem('service_unavailable', { detail: 'Try again in a moment.', retryAfterSeconds: 1, cause })
}

/** PostgreSQL's disk_full, and configuration_limit_exceeded, in which quota extensions report. */
function isDiskFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === '53100' || error.code === '53400')
}

/** The error to throw where a request cannot be fulfilled: a code from the closed table in contracts. */
export function problem(code: ProblemCode, options: ProblemOptions = {}): ProblemError {
  const isLeftToErrors = options.detail === undefined && (options.errors ?? []).length > 0
  return new ProblemError(code, isLeftToErrors ? { ...options, detail: seeErrors } : options)
}
