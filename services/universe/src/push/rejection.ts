import { sentencesOf } from '@postern/contracts'
import { type ProblemError, problem } from '@postern/service-kit'
import { type RowFault, asInputErrors } from './rules.ts'

/** `list` is the member of the body with the rows. */
export function rejectionOf(faults: readonly RowFault[], list = 'entities'): ProblemError {
  const errors = asInputErrors(faults, list)
  return problem('invalid_content', { detail: `The push was rejected. ${sentencesOf(errors)}`, errors })
}

export function refuse(faults: readonly RowFault[], list = 'entities'): void {
  if (faults.length > 0) throw rejectionOf(faults, list)
}
