import type { ApplyAnswer } from '@postern/contracts/internal'
import type { RunOutcome } from '../run/rules.ts'
import type { ApplicationOutcome } from './universe.ts'

const none: ApplyAnswer = { created: 0, updated: 0, unchanged: 0 }

/**
 * What a run's row keeps of what the universe made of so many rows; `taken`: of those that it has taken in before them, of a push of two
 * parts.
 */
export function runOutcomeOf(outcome: ApplicationOutcome, rows: number, taken: ApplyAnswer = none): RunOutcome {
  const { created, updated, unchanged, deactivated = 0 } = taken
  const before = { valid: created + updated + unchanged, invalid: 0, created, updated, unchanged, deactivated }
  switch (outcome.kind) {
    case 'applied': {
      const { counts } = outcome
      return {
        status: 'succeeded',
        counts: {
          valid: before.valid + rows,
          invalid: 0,
          created: created + counts.created,
          updated: updated + counts.updated,
          unchanged: unchanged + counts.unchanged,
          deactivated: deactivated + (counts.deactivated ?? 0),
        },
      }
    }
    case 'refused': {
      const invalid = rowsWithErrors(outcome.errors)
      // Where no row is named, it is not known of any whether it could be taken in.
      const valid = before.valid + (invalid === 0 ? 0 : rows - invalid)
      return { status: 'failed', failure: 'refused', counts: { ...before, valid, invalid } }
    }
    case 'too_large':
      return { status: 'failed', failure: 'refused', counts: before }
    case 'conflict':
      return { status: 'failed', failure: 'conflict', counts: before }
    case 'unreachable':
      return { status: 'failed', failure: 'unreachable', counts: before }
    case 'unavailable':
    case 'unknown':
      return { status: 'failed', failure: 'outcome_unknown', counts: before }
    case 'unexpected':
      return { status: 'failed', failure: 'internal', counts: before }
    default:
      return outcome satisfies never
  }
}

/** Rows by their place: `/3/name`, of a hierarchy `/nodes/3/name`. One may have many errors. */
function rowsWithErrors(errors: Extract<ApplicationOutcome, { kind: 'refused' }>['errors']): number {
  const places = errors.map(({ pointer }) => /^(?:\/nodes)?\/(?<row>\d+)(?:\/|$)/.exec(pointer ?? '')?.groups?.['row'])
  return new Set(places.filter((place) => place !== undefined)).size
}
