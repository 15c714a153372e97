import type { ScimType } from '@postern/contracts'
import { problem } from '@postern/service-kit'

/** `detail` says why an operation cannot be done. */
export function patchProblem(scimType: ScimType, detail: string, cause?: unknown) {
  const errors = [{ pointer: '/Operations', code: scimType, detail: `cannot be done: ${detail}` }]
  return problem('bad_request', { detail: 'Nothing was changed.', errors, cause })
}

export function repeatedNameProblem() {
  return patchProblem('invalidSyntax', 'a member must occur once: names are case-insensitive')
}
