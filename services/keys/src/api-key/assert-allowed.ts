import { problem } from '@postern/service-kit'
import type { RuleResult } from './rules.ts'

/** Returns the allowed value, or throws a 422 problem. */
export function assertAllowed<T>(ruling: RuleResult<T>): T {
  if (ruling.ok) return ruling.value
  throw problem('invalid_content', { errors: ruling.errors })
}
