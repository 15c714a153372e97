import { type ProblemError, problem } from '@postern/service-kit'
import type { ApplicationOutcome } from './universe.ts'

const maxErrors = 50

/** A database that is full would claim that nothing was changed. */
export function notRecorded(cause: unknown): ProblemError {
  return problem('service_unavailable', {
    detail: 'The rows may be applied, but the run could not be recorded. Push the same rows again, which is harmless.',
    retryAfterSeconds: 5,
    cause,
  })
}

export function problemOf(outcome: Exclude<ApplicationOutcome, { readonly kind: 'applied' }>): ProblemError {
  switch (outcome.kind) {
    case 'refused':
      return problem('invalid_content', {
        detail: outcome.detail ?? 'The push has invalid rows, so no row was applied.',
        errors: outcome.errors.slice(0, maxErrors),
      })
    case 'conflict':
      return problem('conflict', { detail: outcome.detail })
    case 'too_large':
      return problem('content_too_large', { detail: 'The push is too large. Send it in parts.' })
    case 'unreachable':
      return problem('service_unavailable', {
        detail: 'The universe cannot be reached. No row was applied; push again later.',
        retryAfterSeconds: 5,
        cause: outcome.cause,
      })
    case 'unavailable':
      return problem('service_unavailable', {
        detail:
          'The universe cannot apply the push now. Push the same rows again, which is harmless if they were applied.',
        retryAfterSeconds: 5,
      })
    case 'unknown':
      return problem(outcome.timedOut ? 'gateway_timeout' : 'bad_gateway', {
        detail:
          'It is not known whether the rows were applied. Push the same rows again, which is harmless if they were.',
        cause: outcome.cause,
      })
    case 'unexpected':
      return problem('bad_gateway', {
        detail: 'The universe service returned an invalid response. Push the same rows again.',
        cause: new Error(`the universe answered ${outcome.status} to a push`),
      })
    default:
      return outcome satisfies never
  }
}
