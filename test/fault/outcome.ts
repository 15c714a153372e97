import { leaseMs } from '@postern/contracts/internal'
import type { Served } from '../../verification/containers/machine.ts'
import type { Call, Churn, Revocation } from '../support/churn.ts'
import { type Change, type Violation, costBetween } from '../support/promises.ts'
import type { Traffic } from '../support/traffic.ts'

/** The protocol's limit of a revocation: every earlier lease has then ended. */
export const boundMs = leaseMs + 500
/** The limit of a call to keys, possibly with 503: connecting to PostgreSQL, its response, and waiting for gateways. */
const answeredMs = 2000 + 7000 + boundMs
/** Allowance for a process on a busy machine. The work of the tests is not included. */
const slackMs = 1500
/** The longest wait of a revoke for gateways. */
export const longestWaitMs = boundMs + slackMs
/** The longest call to revoke, narrow, suspend or resume, with 200 or 503. */
export const longestCallMs = answeredMs + slackMs

/** The cost of a trial. Times in milliseconds. */
export interface Outcome {
  readonly name: string
  readonly lasted_ms: number
  readonly requests: number
  /** By status and problem code, without rejections. */
  readonly failed: Readonly<Record<string, number>>
  /** The longest time without success of one operation at one gateway. */
  readonly longest_gap_ms: number
  /** From the end of the fault until every operation had succeeded at every gateway and failures stopped. */
  readonly recovered_ms: number
  readonly revocations: number
  /** The number of calls, including repetitions of unconfirmed ones. */
  readonly revocation_calls: number
  /** Revocations that fenced a gateway. */
  readonly fenced: number
  /** The longest time from the first call to the confirmation. */
  readonly longest_revocation_ms: number
  /** The longest wait of a call for gateways, without stalls of the host. */
  readonly longest_wait_ms: number
  /** Unconfirmed calls (503) to revoke, narrow, suspend or resume. */
  readonly unconfirmed_calls: number
  /** The longest such call, without stalls of the host and freezes of the keys process. */
  readonly longest_call_ms: number
  /** The longest time without a free processor. Reported only. */
  readonly no_processor_ms: number
  /** How long the host gave this machine no processor. Missing in older results. */
  readonly stalled_ms?: number
}

/** On the monotonic clock. */
export interface While {
  readonly from: number
  readonly to: number
}

/** A time during which a process was frozen. */
export interface Freeze extends While {
  /** It cannot have responded before this time. */
  readonly healingFrom: number
}

/** Delays that no product can avoid. */
export interface Excuses {
  /** When the host gave this machine no processor. */
  readonly stalls: readonly While[]
  /** When a keys process was frozen. */
  readonly keysFrozen: readonly Freeze[]
}

/** Returns how much of a time overlaps others, which may overlap each other. */
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
 * Returns the duration of a call without stalls of the host and without its frozen process. Responses before that
 * process continued came from another one.
 */
export function timeOf(
  { calledAt, endedAt }: Pick<Call, 'calledAt' | 'endedAt'>,
  { stalls, keysFrozen }: Excuses,
): number {
  const held = keysFrozen.filter(({ healingFrom }) => endedAt >= healingFrom)
  return endedAt - calledAt - timeWithin({ from: calledAt, to: endedAt }, [...stalls, ...held])
}

/** Returns how long a revocation waited for gateways, without stalls of the host. */
function waitOf(
  { change: { calledAt, returnedAt = calledAt }, enforcement }: Revocation,
  stalls: readonly While[],
): number {
  const waitedMs = enforcement?.waited_ms ?? 0
  // Of the last attempt, which is the measured one.
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

/** Returns the results of requests and revocations during and after a fault. */
export function outcomeOf(
  span: Span,
  traffic: Pick<Traffic, 'requests'>,
  churn: Pick<Churn, 'revocations' | 'calls'>,
  excuses: Excuses,
): Outcome {
  const { name, from, healedAt, to, served } = span
  const cost = costBetween(traffic.requests, from, to)
  // By their end: a call that ends in the next trial belongs to the next trial.
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

/** Formats the outcome in one line. */
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

/** The number of violations of each kind that are listed. */
const mostOfAKind = 3

/** Lists broken promises: a line per kind with its count, and the first violations. */
export function describeViolations(violations: readonly Violation[], changes: readonly Change[]): string[] {
  const kinds = Map.groupBy(violations, ({ promised, request: { operation, status, code } }) => {
    return `${promised}: ${operation} was answered ${status} ${code ?? ''}`.trimEnd()
  })
  return [...kinds].flatMap(([kind, all]) => [
    `${all.length} times ${kind}`,
    ...all.slice(0, mostOfAKind).map(({ request }) => {
      const { startedAt, endedAt, keyId, tenantId, gateway, detail = 'no detail' } = request
      const known = changes
        .filter(({ of }) => of === keyId || of === tenantId)
        .map((change) => `${change.kind} ${Math.round((change.returnedAt ?? Infinity) - startedAt)} ms after it`)
      return `  key ${keyId} at ${gateway}, took ${Math.round(endedAt - startedAt)} ms; ${known.join(', ')}; ${detail}`
    }),
  ])
}
