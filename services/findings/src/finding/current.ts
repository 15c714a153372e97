import type { Current } from '@postern/service-kit'
import { currentOf } from '../request.ts'
import { type StoredFinding, asRead, asStub } from './rules.ts'

/** Members that differ between reads of the same version. */
export const computedMembers = ['age_days', 'is_overdue', 'is_acceptance_expired', 'updated_at'] as const

export function currentFinding(input: Parameters<typeof currentOf>[0], stored: StoredFinding, today: string): Current {
  return currentOf(input, stored, { show: (finding) => asRead(finding, today), stub: asStub, today })
}
