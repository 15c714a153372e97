import { leaseMs } from '@postern/contracts/internal'
import type { Served } from '../../verification/containers/machine.ts'
import type { Call, Churn, Revocation } from '../support/churn.ts'
import { type Change, type Violation, costBetween } from '../support/promises.ts'
import type { Traffic } from '../support/traffic.ts'

/** The protocol's own bound on a revocation: a lease granted before it has then run out, whatever became of its gateway. */
export const boundMs = leaseMs + 500
/** Until a call to keys is answered, with 503 if need be: for a connection to PostgreSQL, for its answer, and for the gateways. */
const answeredMs = 2000 + 7000 + boundMs
/** For a process that is to answer by then, on a machine that has no processor to spare. Nothing that runs here adds to it. */
const slackMs = 1500
/** A call to revoke waits no longer for the gateways. */
export const longestWaitMs = boundMs + slackMs
/** A call to revoke, narrow, suspend or resume is answered in that time, 200 or 503. */
export const longestCallMs = answeredMs + slackMs

/** What one trial cost. Times in milliseconds. */
export interface Outcome {
  readonly name: string
  readonly lasted_ms: number
  readonly requests: number
  /** By status and problem code; refusals are no failures. */
  readonly failed: Readonly<Record<string, number>>
  /** The longest time without a success of one operation at one gateway. */
  readonly longest_gap_ms: number
  /** From the end of the fault until every operation had succeeded at every gateway and failures had ceased. */
  readonly recovered_ms: number
  readonly revocations: number
  /** Times that they were asked for: those that could not be confirmed were asked for again. */
  readonly revocation_calls: number
  /** Those that a gateway was fenced for. */
  readonly fenced: number
  /** The longest from the first call to the confirmation. */
  readonly longest_revocation_ms: number
  /** The longest that one call waited for the gateways, without the time in which the host gave this machine no processor. */
  readonly longest_wait_ms: number
  /** Calls to revoke, narrow, suspend or resume that were answered 503: not confirmed. */
  readonly unconfirmed_calls: number
  /**
   * The longest that such a call took until it was answered, 200 or 503, without the time in which the host gave no processor,
   * or in which a frozen process of keys may have held it.
   */
  readonly longest_call_ms: number
  /** The longest time in which the machine had no processor free, whoever took it: told, and no excuse. */
  readonly no_processor_ms: number
  /** How long the host gave this machine no processor; not known of what was measured before it was looked at. */
  readonly stalled_ms?: number
}

/** On the monotonic clock. */
export interface While {
  readonly from: number
  readonly to: number
}

/** While a process was frozen. */
export interface Freeze extends While {
  /** Before this it cannot have answered anything. */
  readonly healingFrom: number
}

/** What no product can do anything about. */
export interface Excuses {
  /** When the host gave this machine no processor. */
  readonly stalls: readonly While[]
  /** When a process of keys stood still. */
  readonly keysFrozen: readonly Freeze[]
}

/** How much of one time lies in others, which may meet each other. */
export function timeWithin({ from, to }: While, others: readonly While[]): number {
  let [sum, reached] = [0, from]
  for (const other of others.toSorted((one, next) => one.from - next.from)) {
    const end = Math.min(to, other.to)
    sum += Math.max(0, end - Math.max(reached, other.from))
    reached = Math.max(reached, end)
  }
  return sum
}

/**
 * How long a call took, without the stalls of the host, and without the time in which who was to answer it stood still. What
 * was answered before that one could go on, another process has answered.
 */
export function timeOf(
  { calledAt, endedAt }: Pick<Call, 'calledAt' | 'endedAt'>,
  { stalls, keysFrozen }: Excuses,
): number {
  const held = keysFrozen.filter(({ healingFrom }) => endedAt >= healingFrom)
  return endedAt - calledAt - timeWithin({ from: calledAt, to: endedAt }, [...stalls, ...held])
}

/** How long a revocation waited for the gateways, without the stalls of the host meanwhile. */
function waitOf(
  { change: { calledAt, returnedAt = calledAt }, enforcement }: Revocation,
  stalls: readonly While[],
): number {
  const waitedMs = enforcement?.waited_ms ?? 0
  // Of the last attempt, which is what is timed: a stall amid one before excuses nothing.
  const from = Math.max(calledAt, returnedAt - waitedMs)
  return Math.max(0, waitedMs - timeWithin({ from, to: returnedAt }, stalls))
}

interface Span {
  readonly name: string
  readonly from: number
  readonly healedAt: number
  readonly to: number
  readonly served: Served
}

/** Reckons what became of requests and revocations while a fault lasted and after it. */
export function outcomeOf(
  span: Span,
  traffic: Pick<Traffic, 'requests'>,
  churn: Pick<Churn, 'revocations' | 'calls'>,
  excuses: Excuses,
): Outcome {
  const { name, from, healedAt, to, served } = span
  const cost = costBetween(traffic.requests, from, to)
  // By their ends: what begins in one trial and ends in the next is of the next.
  const revocations = churn.revocations.filter(
    ({ change: { returnedAt } }) => returnedAt !== undefined && returnedAt > from && returnedAt <= to,
  )
  const calls = churn.calls.filter(
    ({ endedAt, status }) => endedAt > from && endedAt <= to && (status === 200 || status === 503),
  )
  return {
    name,
    lasted_ms: Math.round(healedAt - from),
    requests: cost.requests,
    failed: cost.failed,
    longest_gap_ms: Math.round(cost.longestGapMs),
    recovered_ms: Math.round(to - healedAt),
    revocations: revocations.length,
    revocation_calls: revocations.reduce((sum, { attempts }) => sum + attempts, 0),
    fenced: revocations.filter(({ enforcement }) => (enforcement?.fenced ?? 0) > 0).length,
    longest_revocation_ms: Math.round(
      Math.max(0, ...revocations.map(({ change }) => (change.returnedAt ?? 0) - change.calledAt)),
    ),
    longest_wait_ms: Math.max(0, ...revocations.map((revocation) => waitOf(revocation, excuses.stalls))),
    unconfirmed_calls: calls.filter(({ status }) => status === 503).length,
    longest_call_ms: Math.round(Math.max(0, ...calls.map((call) => timeOf(call, excuses)))),
    no_processor_ms: Math.round(served.fullMs),
    stalled_ms: Math.round(timeWithin({ from, to }, excuses.stalls)),
  }
}

/** The outcome in one line. */
export function describeOutcome(outcome: Outcome): string {
  return (
    `fault: ${outcome.name}, ${seconds(outcome.lasted_ms)}: ${outcome.requests} requests, ` +
    `failed ${JSON.stringify(outcome.failed)}, longest gap ${seconds(outcome.longest_gap_ms)}, ` +
    `recovered ${seconds(outcome.recovered_ms)} after it; ${outcome.revocations} revocations ` +
    `(${outcome.revocation_calls} calls, ${outcome.fenced} with a gateway fenced), longest ${seconds(outcome.longest_revocation_ms)}; ` +
    `calls answered in ${seconds(outcome.longest_call_ms)} at the longest, ${outcome.unconfirmed_calls} of them 503; ` +
    `no processor free for ${seconds(outcome.no_processor_ms)}, none given by the host for ${seconds(outcome.stalled_ms ?? 0)}\n`
  )
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(2)} s`
}

/** Of each kind of violation so many are told one by one. */
const mostOfAKind = 3

/** What was broken, a line for each kind with how often, and a line for each of the first of them. */
export function describeViolations(violations: readonly Violation[], changes: readonly Change[]): string[] {
  const kinds = Map.groupBy(violations, ({ promised, request: { operation, status, code } }) => {
    return `${promised}: ${operation} was answered ${status} ${code ?? ''}`.trimEnd()
  })
  return [...kinds].flatMap(([kind, all]) => [
    `${all.length} times ${kind}`,
    ...all.slice(0, mostOfAKind).map(({ request }) => {
      const { startedAt, endedAt, keyId, tenantId, gateway } = request
      const known = changes
        .filter(({ of }) => of === keyId || of === tenantId)
        .map((change) => `${change.kind} ${Math.round((change.returnedAt ?? Infinity) - startedAt)} ms after it`)
      return `  key ${keyId} at ${gateway}, took ${Math.round(endedAt - startedAt)} ms; ${known.join(', ')}`
    }),
  ])
}
