import { DatabaseError } from 'pg'

/** What a failure of the database means to the code that asked. */
export type SqlErrorKind =
  | 'unique'
  | 'foreign-key'
  | 'check'
  | 'not-null'
  /** The role may not do this (42501): a policy or a grant refused it. Our bug, never the caller's. */
  | 'rls'
  /** PostgreSQL did not believe the tenant assertion (28000). */
  | 'assertion'
  | 'timeout'
  /** No connection, none free in time, or the server is going down. The statement may or may not have been carried out. */
  | 'unavailable'
  /** Serialization failure or deadlock: the transaction can be tried again. */
  | 'serialization'
  | 'other'

export interface SqlError {
  readonly kind: SqlErrorKind
  /** Name of the violated constraint. */
  readonly constraint?: string
  /** Five characters, PostgreSQL appendix A. */
  readonly sqlState?: string
}

/** The database could not be reached, had no connection free in time, or the connection broke. `cause` says which. */
export class DatabaseUnavailable extends Error {
  override readonly name = 'DatabaseUnavailable'
}

/** A statement had no answer in time; its connection is gone. It may or may not have been carried out. */
export class DatabaseTimeout extends Error {
  override readonly name = 'DatabaseTimeout'
}

/** The rows of a statement are more bytes than it may bring (`Statement.maxBytes`): to be asked for in smaller parts. Nothing else of the transaction has failed. */
export class ResultTooLarge extends Error {
  override readonly name = 'ResultTooLarge'
}

/** The schema of the service is not there, or its role may read nothing of it: migrations have not been run. */
export class NotMigrated extends Error {
  override readonly name = 'NotMigrated'
}

const kindOfState: ReadonlyMap<string, SqlErrorKind> = new Map([
  ['23505', 'unique'],
  // An exclusion constraint is the same promise in a wider form.
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
 * Says what a thrown value means, from SQLSTATE and constraint name only: messages are never read. What did not come
 * from the database is 'other' without a state.
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

/** Connection exceptions, insufficient resources and the server's own going (57014 and the like apart); the state's first two characters name its class. */
function kindOfClass(sqlState: string): SqlErrorKind {
  return ['08', '53', '57'].includes(sqlState.slice(0, 2)) ? 'unavailable' : 'other'
}
