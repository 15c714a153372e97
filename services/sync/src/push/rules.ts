import type { RunOutcome } from '../run/rules.ts'
import type { ApplicationOutcome } from './universe.ts'

const none = { valid: 0, invalid: 0, created: 0, updated: 0, unchanged: 0, deactivated: 0 }

export function runOutcomeOf(outcome: ApplicationOutcome, rows: number): RunOutcome {
  switch (outcome.kind) {
    case 'applied': {
      const { counts } = outcome
      return {
        status: 'succeeded',
        counts: { ...none, ...counts, valid: rows, deactivated: counts.deactivated ?? 0 },
      }
    }
    case 'refused': {
      const invalid = rowsWithErrors(outcome.errors)
      // If no row is named, it is unknown whether any row is valid.
      const valid = invalid === 0 ? 0 : rows - invalid
      return { status: 'failed', failure: 'refused', counts: { ...none, valid, invalid } }
    }
    case 'too_large':
      return { status: 'failed', failure: 'refused', counts: none }
    case 'conflict':
      return { status: 'failed', failure: 'conflict', counts: none }
    case 'unreachable':
      return { status: 'failed', failure: 'unreachable', counts: none }
    case 'unavailable':
    case 'unknown':
      return { status: 'failed', failure: 'outcome_unknown', counts: none }
    case 'unexpected':
      return { status: 'failed', failure: 'internal', counts: none }
    default:
      return outcome satisfies never
  }
}

export function canBeApplied({ kind }: ApplicationOutcome): boolean {
  return kind === 'applied' || kind === 'unknown' || kind === 'unavailable' || kind === 'unexpected'
}

function rowsWithErrors(errors: Extract<ApplicationOutcome, { kind: 'refused' }>['errors']): number {
  const places = errors.map(
    ({ pointer }) => /^(?<row>(?:\/nodes|\/people)?\/\d+)(?:\/|$)/.exec(pointer ?? '')?.groups?.['row'],
  )
  return new Set(places.filter((place) => place !== undefined)).size
}
