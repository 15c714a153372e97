import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describeMachine } from '../bench/report.ts'
import type { Revocation } from '../support/churn.ts'
import { costBetween } from '../support/promises.ts'
import type { Traffic } from '../support/traffic.ts'

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
  /** The longest that one call waited for the gateways. */
  readonly longest_wait_ms: number
}

interface Span {
  readonly name: string
  readonly from: number
  readonly healedAt: number
  readonly to: number
}

/** Reckons what became of requests and revocations while a fault lasted and after it. */
export function outcomeOf(span: Span, traffic: Traffic, all: readonly Revocation[]): Outcome {
  const { name, from, healedAt, to } = span
  const cost = costBetween(traffic.requests, from, to)
  const revocations = all.filter(
    ({ change }) => change.calledAt > from && change.returnedAt !== undefined && change.returnedAt <= to,
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
    longest_wait_ms: Math.max(0, ...revocations.map(({ enforcement }) => enforcement?.waited_ms ?? 0)),
  }
}

/** The outcome in one line. */
export function describeOutcome(outcome: Outcome): string {
  return (
    `fault: ${outcome.name}, ${seconds(outcome.lasted_ms)}: ${outcome.requests} requests, ` +
    `failed ${JSON.stringify(outcome.failed)}, longest gap ${seconds(outcome.longest_gap_ms)}, ` +
    `recovered ${seconds(outcome.recovered_ms)} after it; ${outcome.revocations} revocations ` +
    `(${outcome.revocation_calls} calls, ${outcome.fenced} with a gateway fenced), longest ${seconds(outcome.longest_revocation_ms)}\n`
  )
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(2)} s`
}

export interface Run {
  readonly measured_at: string
  readonly seed: string
  readonly left_out: readonly string[]
  readonly load: Readonly<Record<string, number>>
  readonly outcomes: readonly Outcome[]
}

/** Keeps what a whole run of the long form has shown. */
export async function keepRun({ outcomes, ...run }: Run): Promise<void> {
  const path = join(import.meta.dirname, '..', '..', 'bench', 'faults.json')
  const text = JSON.stringify({ ...run, machine: describeMachine(), trials: outcomes.length, outcomes }, undefined, 2)
  await writeFile(path, `${text}\n`)
}
