import { problem } from '@postern/service-kit'
import type { Ruling } from './rules.ts'

/** What a rule allows; throws a 422 with what the caller must mend otherwise. */
export function allowedBy<T>(ruling: Ruling<T>): T {
  if (ruling.ok) return ruling.value
  throw problem('invalid_content', { detail: 'See `errors` for details.', errors: ruling.errors })
}
