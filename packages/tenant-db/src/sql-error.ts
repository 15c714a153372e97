import { DatabaseError } from 'pg'

/** The meaning of a database error for the caller. */
export type SqlErrorKind =
  | 'unique'
  | 'foreign-key'
  | 'check'
  | 'not-null'
  /** A policy or grant rejected the role (42501). A bug in the service, not the caller's mistake. */
  | 'rls'
  /** PostgreSQL rejected the tenant assertion (28000). */
  | 'assertion'
  | 'timeout'
  /** No connection, none free in time, or the server is shutting down. The statement may or may not have run. */
  | 'unavailable'
  /** Serialization failure or deadlock: retry the transaction. */
  | 'serialization'
  | 'other'

export interface SqlError {
  readonly kind: SqlErrorKind
  /** Name of the violated constraint. */
  readonly constraint?: string
  /** Five characters, PostgreSQL appendix A. */
  readonly sqlState?: string
}

/** The database was unreachable, had no free connection, or the connection was lost. See `cause`. */
export class DatabaseUnavailable extends Error {
  override readonly name = 'DatabaseUnavailable'
}

/** A statement timed out and its connection was closed. It may or may not have run. */
export class DatabaseTimeout extends Error {
  override readonly name = 'DatabaseTimeout'
}

/**
 * The rows exceed the size limit (`Statement.maxBytes`). Request smaller parts. The transaction is otherwise intact.
 */
export class ResultTooLarge extends Error {
  override readonly name = 'ResultTooLarge'
}

/** The schema does not exist, or the role cannot read it: migrations have not run. */
export class NotMigrated extends Error {
  override readonly name = 'NotMigrated'
}

const kindOfState: ReadonlyMap<string, SqlErrorKind> = new Map([
  ['23505', 'unique'],
  // An exclusion constraint is a general form of a unique one.
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

/**
 * Classifies an error by SQLSTATE and constraint name, never by its message. Errors from elsewhere are 'other' without
 * a state.
 */
export function sqlError(error: unknown): SqlError {
  if (error instanceof DatabaseUnavailable) return { kind: 'unavailable' }
  if (error instanceof DatabaseTimeout) return { kind: 'timeout' }
  if (!(error instanceof DatabaseError) || error.code === undefined) return { kind: 'other' }
  return {
    kind: kindOfState.get(error.code) ?? kindOfClass(error.code),
    sqlState: error.code,
    ...(error.constraint === undefined ? {} : { constraint: error.constraint }),
  }
}

/**
 * Connection exceptions, insufficient resources and shutdown (except 57014 and similar). The first two characters are
 * the class.
 */
function kindOfClass(sqlState: string): SqlErrorKind {
  return ['08', '53', '57'].includes(sqlState.slice(0, 2)) ? 'unavailable' : 'other'
}
