import { expect, test } from 'vitest'
import type { Call, Revocation } from '../support/churn.ts'
import { outcomeOf, timeOf } from './outcome.ts'

const span = {
  name: 'a fault',
  from: 1000,
  healedAt: 1900,
  to: 2000,
  served: { fullMs: 0, stolen: 0 },
}
const call = (calledAt: number, endedAt: number, status: number): Call => ({
  kind: 'revoked',
  of: 'key-1',
  calledAt,
  endedAt,
  status,
})

function outcome(calls: readonly Call[], keysFrozen: Parameters<typeof outcomeOf>[3] = []) {
  return outcomeOf(span, { requests: [] }, { revocations: [], calls }, keysFrozen)
}

test('calls that were not confirmed are timed like those that were, and those that begin in the trial before', () => {
  expect(outcome([call(1100, 1150, 200), call(1200, 1700, 503)])).toMatchObject({
    longest_call_ms: 500,
    unconfirmed_calls: 1,
  })
  expect(outcome([call(300, 1200, 200)])).toMatchObject({ longest_call_ms: 900, unconfirmed_calls: 0 })
})

test('what ends in another trial is of that, and what has no answer is of none', () => {
  const others = [call(100, 1000, 200), call(1100, 2001, 200), call(1000, 1900, 0), call(1000, 1900, 412)]
  expect(outcome(others)).toMatchObject({ longest_call_ms: 0, unconfirmed_calls: 0 })
})

test('the time in which keys stood still is no time of a call', () => {
  const frozen = [
    { from: 0, to: 100 },
    { from: 400, to: 700 },
  ]
  expect(timeOf(call(50, 1000, 200), frozen)).toBe(600)
  expect(timeOf(call(700, 1000, 200), frozen)).toBe(300)
  expect(outcome([call(300, 1200, 200)], frozen)).toMatchObject({ longest_call_ms: 600 })
})

const revocation = (calledAt: number, returnedAt: number | undefined): Revocation => ({
  change: { kind: 'revoked', of: 'key-1', calledAt, returnedAt },
  attempts: 2,
  enforcement: undefined,
})

test('a revocation is of the trial in which it returns', () => {
  const revocations = [revocation(500, 1200), revocation(500, 900), revocation(1500, undefined), revocation(1500, 2100)]
  expect(outcomeOf(span, { requests: [] }, { revocations, calls: [] }, [])).toMatchObject({
    revocations: 1,
    revocation_calls: 2,
    longest_revocation_ms: 700,
  })
})
