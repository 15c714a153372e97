import { DatabaseError } from 'pg'

export type SqlErrorKind =
  | 'unique'
  | 'foreign-key'
  | 'check'
  | 'not-null'
  /** A policy or grant rejected the role (42501): a bug in the service. */
  | 'rls'
  /** PostgreSQL rejected the tenant assertion (28000). */
  | 'assertion'
  | 'timeout'
  /** No connection in time, or the server is shutting down. The statement may have run. */
  | 'unavailable'
  /** Serialization failure or deadlock: retry the transaction. */
  | 'serialization'
  | 'other'

export interface SqlError {
  readonly kind: SqlErrorKind
  readonly constraint?: string
  readonly sqlState?: string
}

/** No connection, or it was lost. See `cause`. */
export class DatabaseUnavailableError extends Error {
  override readonly name = 'DatabaseUnavailableError'
}

/** The connection was closed. The statement may have run. */
export class DatabaseTimeoutError extends Error {
  override readonly name = 'DatabaseTimeoutError'
}

/** The rows exceed `Statement.maxBytes`. The transaction is otherwise intact. */
export class ResultTooLargeError extends Error {
  override readonly name = 'ResultTooLargeError'
}

export class NotMigratedError extends Error {
  override readonly name = 'NotMigratedError'
}

const kindOfState: ReadonlyMap<string, SqlErrorKind> = new Map([
  ['23505', 'unique'],
  ['23P01', 'unique'],
  ['23503', 'foreign-key'],
  ['23001', 'foreign-key'],
  ['23514', 'check'],
  ['23502', 'not-null'],
  ['42501', 'rls'],
  ['28000', 'assertion'],
  // query_canceled (statement_timeout), lock_not_available, idle_in_transaction and transaction timeouts.
  ['57014', 'timeout'],
  ['55P03', 'timeout'],
  ['25P03', 'timeout'],
  ['25P04', 'timeout'],
  ['40001', 'serialization'],
  ['40P01', 'serialization'],
])

/** By SQLSTATE and constraint name, never by message. */
export function sqlError(error: unknown): SqlError {
  if (error instanceof DatabaseUnavailableError) return { kind: 'unavailable' }
  if (error instanceof DatabaseTimeoutError) return { kind: 'timeout' }
  if (!(error instanceof DatabaseError) || error.code === undefined) return { kind: 'other' }
  return {
    kind: kindOfState.get(error.code) ?? kindOfClass(error.code),
    sqlState: error.code,
    ...(error.constraint === undefined ? {} : { constraint: error.constraint }),
  }
}

function kindOfClass(sqlState: string): SqlErrorKind {
  return ['08', '53', '57'].includes(sqlState.slice(0, 2)) ? 'unavailable' : 'other'
}
