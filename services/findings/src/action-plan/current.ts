import type { Current } from '@postern/service-kit'
import { currentOf } from '../request.ts'
import { type StoredPlan, planAsRead, planStub } from './rules.ts'

/** Members that differ between reads of the same version. */
export const computedMembers = ['is_overdue', 'days_overdue', 'days_late_vs_original', 'updated_at'] as const

export function currentPlan(input: Parameters<typeof currentOf>[0], stored: StoredPlan, today: string): Current {
  return currentOf(input, stored, { show: (plan) => planAsRead(plan, today), stub: planStub, today })
}
