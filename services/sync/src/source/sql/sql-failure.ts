import { tlsFailure } from '../../outbound/tls-failure.ts'
import { SourceReadError } from '../source-read-error.ts'

interface KnownError {
  readonly code: string
  readonly message: string
  readonly retryable?: true
}

const wrongAccount: KnownError = {
  code: 'not_authorized',
  message: 'the account or its password is wrong, or may not connect',
}
const noRight: KnownError = {
  code: 'not_authorized',
  message: 'the account may not connect to the database, or not read the view',
}
const absent: KnownError = { code: 'not_found', message: 'there is no such database, view or column' }
const slow: KnownError = {
  code: 'source_too_slow',
  message: 'it took too long to return a part of the view',
  retryable: true,
}

export const partTooSlow = 'the database took too long to return a part of the view'

/** By SQLSTATE for PostgreSQL. By name for MariaDB, whose SQLSTATEs are too coarse. */
const states: Readonly<Record<string, KnownError>> = {
  '28P01': wrongAccount,
  '28000': wrongAccount,
  '42501': noRight,
  '42P01': absent,
  '42703': absent,
  '3D000': absent,
  '3F000': absent,
  '57014': slow,
  ER_ACCESS_DENIED_ERROR: wrongAccount,
  ER_HOST_NOT_PRIVILEGED: wrongAccount,
  ER_DBACCESS_DENIED_ERROR: noRight,
  ER_TABLEACCESS_DENIED_ERROR: noRight,
  ER_COLUMNACCESS_DENIED_ERROR: noRight,
  ER_VIEW_INVALID: noRight,
  ER_BAD_DB_ERROR: absent,
  ER_NO_SUCH_TABLE: absent,
  ER_BAD_FIELD_ERROR: absent,
  ER_STATEMENT_TIMEOUT: slow,
  ER_QUERY_INTERRUPTED: slow,
}

/** Temporary errors: SQLSTATE classes of PostgreSQL, names of MariaDB. */
const temporary = /^(?:08|53|57|ER_CON_COUNT|ER_TOO_MANY_USER|ER_USER_LIMIT|ER_SERVER_SHUTDOWN|ER_LOCK_|ER_OUT_OF)/

/** Errors of a value that the view computes: SQLSTATE classes 21 and 22, and MariaDB's names. */
const ofValue =
  /^(?:2[12]|ER_DATA_OUT_OF_RANGE|ER_DIVISION_BY_ZERO|ER_SUBQUERY_NO_1_ROW|ER_TRUNCATED_WRONG_VALUE|ER_WARN_DATA_OUT_OF_RANGE|ER_REGEXP_ERROR)/

/** ed25519, PAM, or a password in clear text. */
const otherSignIns: ReadonlySet<unknown> = new Set(['AUTH_SWITCH_PLUGIN_ERROR', 'MYSQL_CLEAR_PASSWORD_NOT_ENABLED'])

/** `tls` is Node's code for a failed handshake, if the error lacks it. */
export function sqlFailure(
  error: unknown,
  {
    host,
    state,
    tls,
  }: { readonly host: string; readonly state: string | undefined; readonly tls?: string | undefined },
): unknown {
  if (error instanceof SourceReadError || !(error instanceof Error)) return error
  const known = state === undefined ? undefined : states[state]
  if (known !== undefined) {
    const { code, message, retryable = false } = known
    return new SourceReadError(code, `${host}: ${message}`, { retryable, cause: error })
  }
  const code = tls ?? ('code' in error ? error.code : undefined)
  const insecure = tlsFailure(code, host, error)
  if (insecure !== undefined) return insecure
  if (otherSignIns.has(code)) {
    const words = 'it requires a kind of sign-in that is not supported: allow mysql_native_password for the account'
    return new SourceReadError('not_authorized', `${host}: ${words}`, { cause: error })
  }
  if (code === 'HANDSHAKE_NO_SSL_SUPPORT') {
    return new SourceReadError('not_encrypted', `${host} offers no encryption: enable it on the server`, {
      cause: error,
    })
  }
  if (state !== undefined && ofValue.test(state)) {
    const message = `${host}: the view fails on a value of one of its rows (${state}): fix the view`
    return new SourceReadError('answer_refused', message, { cause: error })
  }
  if (state !== undefined && !temporary.test(state)) {
    return new SourceReadError('answer_refused', `${host} rejects the query (${state})`, { cause: error })
  }
  const message = `${host} cannot be reached, or ended the connection`
  return new SourceReadError('source_unreachable', message, { retryable: true, cause: error })
}
