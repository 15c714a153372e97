import type { RunOutcome } from '../run/rules.ts'
import type { ApplicationOutcome } from './universe.ts'

/** What a run's row keeps of what the universe made of it. */
export function runOutcomeOf(outcome: ApplicationOutcome): RunOutcome {
  switch (outcome.kind) {
    case 'applied':
      return { status: 'succeeded', counts: outcome.counts }
    case 'refused':
    case 'too_large':
      return { status: 'failed', failure: 'refused' }
    case 'conflict':
      return { status: 'failed', failure: 'conflict' }
    case 'unreachable':
      return { status: 'failed', failure: 'unreachable' }
    case 'unavailable':
    case 'unknown':
      return { status: 'failed', failure: 'outcome_unknown' }
    case 'unexpected':
      return { status: 'failed', failure: 'internal' }
    default:
      return outcome satisfies never
  }
}
