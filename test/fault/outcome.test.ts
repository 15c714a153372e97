import { expect, test } from 'vitest'
import type { Call, Revocation } from '../support/churn.ts'
import { type Excuses, outcomeOf, timeOf, timeWithin } from './outcome.ts'

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

const none: Excuses = { stalls: [], keysFrozen: [] }

function outcome(calls: readonly Call[], excuses: Partial<Excuses> = {}) {
  return outcomeOf(span, { requests: [] }, { revocations: [], calls }, { ...none, ...excuses })
}

test('unconfirmed calls and calls that start in the previous trial are timed as well', () => {
  expect(outcome([call(1100, 1150, 200), call(1200, 1700, 503)])).toMatchObject({
    longest_call_ms: 500,
    unconfirmed_calls: 1,
  })
  expect(outcome([call(300, 1200, 200)])).toMatchObject({ longest_call_ms: 900, unconfirmed_calls: 0 })
})

test('a call belongs to the trial of its end, and a call without a response to none', () => {
  const others = [call(100, 1000, 200), call(1100, 2001, 200), call(1000, 1900, 0), call(1000, 1900, 412)]
  expect(outcome(others)).toMatchObject({ longest_call_ms: 0, unconfirmed_calls: 0 })
})

test('time while the keys service was stopped does not count for waiting calls', () => {
  const keysFrozen = [
    { from: 0, healingFrom: 90, to: 100 },
    { from: 400, healingFrom: 690, to: 700 },
  ]
  expect(timeOf(call(50, 1000, 200), { ...none, keysFrozen })).toBe(600)
  expect(timeOf(call(700, 1000, 200), { ...none, keysFrozen })).toBe(300)
  expect(outcome([call(300, 1200, 200)], { keysFrozen })).toMatchObject({ longest_call_ms: 600 })
  // Answered by the other process before the frozen one continued.
  expect(timeOf(call(300, 689, 503), { ...none, keysFrozen })).toBe(389)
  expect(timeOf(call(300, 695, 200), { ...none, keysFrozen })).toBe(100)
})

test('a stall of the host is subtracted once from overlapping calls and waits', () => {
  const stalls = [
    { from: 1000, to: 1200 },
    { from: 5000, to: 9000 },
  ]
  expect(timeOf(call(1100, 1900, 200), { ...none, stalls })).toBe(700)
  expect(timeOf(call(1200, 1900, 200), { ...none, stalls })).toBe(700)
  const keysFrozen = [{ from: 1100, healingFrom: 1250, to: 1300 }]
  expect(timeOf(call(1000, 1900, 200), { stalls, keysFrozen })).toBe(600)
  expect(timeWithin({ from: 0, to: 10_000 }, stalls.toReversed())).toBe(4200)
  const waited = { ...revocation(1100, 1900), enforcement: { gateways: 3, confirmed: 3, fenced: 0, waited_ms: 750 } }
  const reckoned = outcomeOf(span, { requests: [] }, { revocations: [waited], calls: [] }, { ...none, stalls })
  // The last attempt, which waited, began at 1150.
  expect(reckoned).toMatchObject({ longest_wait_ms: 700, stalled_ms: 200 })
})

test('a busy machine does not lengthen measured times', () => {
  const full = { ...span, served: { fullMs: 30_000, stolen: 0.1 } }
  const waited = { ...revocation(1100, 1900), enforcement: { gateways: 3, confirmed: 3, fenced: 0, waited_ms: 750 } }
  const reckoned = outcomeOf(full, { requests: [] }, { revocations: [waited], calls: [call(1100, 1900, 200)] }, none)
  expect(reckoned).toMatchObject({ longest_wait_ms: 750, longest_call_ms: 800, no_processor_ms: 30_000 })
})

const revocation = (calledAt: number, returnedAt: number | undefined): Revocation => ({
  change: { kind: 'revoked', of: 'key-1', calledAt, returnedAt },
  attempts: 2,
  enforcement: undefined,
})

test('a revocation belongs to the trial of its return', () => {
  const revocations = [revocation(500, 1200), revocation(500, 900), revocation(1500, undefined), revocation(1500, 2100)]
  expect(outcomeOf(span, { requests: [] }, { revocations, calls: [] }, none)).toMatchObject({
    revocations: 1,
    revocation_calls: 2,
    longest_revocation_ms: 700,
  })
})
