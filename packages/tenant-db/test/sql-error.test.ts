import { DatabaseError } from 'pg'
import { describe, expect, test } from 'vitest'
import { DatabaseTimeoutError, DatabaseUnavailableError, sqlError } from '../src/index.ts'
import { NotMigratedError } from '../src/sql-error.ts'

function failure(code: string | undefined, constraint?: string): DatabaseError {
  return Object.assign(new DatabaseError('said by the server', 18, 'error'), { code, constraint })
}

describe('sqlError', () => {
  // PostgreSQL, appendix A.
  test.each([
    ['23505', 'unique_violation', 'unique'],
    ['23P01', 'exclusion_violation', 'unique'],
    ['23503', 'foreign_key_violation', 'foreign-key'],
    ['23001', 'restrict_violation', 'foreign-key'],
    ['23514', 'check_violation', 'check'],
    ['23502', 'not_null_violation', 'not-null'],
    ['42501', 'insufficient_privilege', 'rls'],
    ['28000', 'invalid_authorization_specification', 'assertion'],
    ['57014', 'query_canceled', 'timeout'],
    ['55P03', 'lock_not_available', 'timeout'],
    ['25P03', 'idle_in_transaction_session_timeout', 'timeout'],
    ['25P04', 'transaction_timeout', 'timeout'],
    ['40001', 'serialization_failure', 'serialization'],
    ['40P01', 'deadlock_detected', 'serialization'],
    ['08006', 'connection_failure', 'unavailable'],
    ['53300', 'too_many_connections', 'unavailable'],
    ['57P01', 'admin_shutdown', 'unavailable'],
    ['22012', 'division_by_zero', 'other'],
    ['42601', 'syntax_error', 'other'],
    ['58030', 'io_error', 'other'],
  ])('%s, %s, is %s', (code, _name, kind) => {
    expect(sqlError(failure(code))).toStrictEqual({ kind, sqlState: code })
  })

  test('returns the name of the constraint, if any', () => {
    expect(sqlError(failure('23505', 'one_only'))).toStrictEqual({
      kind: 'unique',
      sqlState: '23505',
      constraint: 'one_only',
    })
  })

  test('recognizes this package’s errors for an unavailable database', () => {
    expect(sqlError(new DatabaseUnavailableError('away'))).toStrictEqual({ kind: 'unavailable' })
    expect(sqlError(new DatabaseTimeoutError('late'))).toStrictEqual({ kind: 'timeout' })
  })

  test('returns `other` for errors without a state or from elsewhere', () => {
    expect(sqlError(failure(undefined))).toStrictEqual({ kind: 'other' })
    expect(sqlError(Object.assign(new Error('23505'), { code: '23505' }))).toStrictEqual({ kind: 'other' })
    expect(sqlError(undefined)).toStrictEqual({ kind: 'other' })
  })

  test('classifies errors whose names match their classes', () => {
    expect(
      [new DatabaseUnavailableError(''), new DatabaseTimeoutError(''), new NotMigratedError()].map(({ name }) => name),
    ).toEqual(['DatabaseUnavailableError', 'DatabaseTimeoutError', 'NotMigratedError'])
  })
})
