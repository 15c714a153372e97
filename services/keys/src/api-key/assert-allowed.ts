import { problem } from '@postern/service-kit'
import type { RuleResult } from './rules.ts'

/** Returns the allowed value, or throws a 422 problem. */
export function assertAllowed<T>(result: RuleResult<T>): T {
  if (result.ok) return result.value
  throw problem('invalid_content', { errors: result.errors })
}
