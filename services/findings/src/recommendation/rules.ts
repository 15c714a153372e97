import type { Finding, InputError, Recommendation, RecommendationStub, UpdateRecommendation } from '@postern/contracts'
import { mergedMembers } from '../merge-patch.ts'

export const recommendationFields = [
  'external_id',
  'text',
  'priority',
  'response',
  'response_rationale',
  'status',
  'custom',
] as const

export const priorityBySeverity: Readonly<Record<Finding['severity'], Recommendation['priority']>> = {
  critical: 'high',
  high: 'high',
  medium: 'medium',
  low: 'low',
}

const moves: Readonly<Record<Recommendation['status'], readonly Recommendation['status'][]>> = {
  submitted: ['accepted', 'rejected', 'superseded'],
  accepted: ['implemented', 'superseded'],
  implemented: ['verified', 'superseded'],
  rejected: [],
  verified: [],
  superseded: [],
}

export function allowedMoves(status: Recommendation['status']): readonly Recommendation['status'][] {
  return moves[status]
}

export function recommendationStub({ id, reference, version, status }: Recommendation): RecommendationStub {
  return { id, reference, version, status }
}

/** The first response also sets the status. */
export function applyRecommendationPatch(stored: Recommendation, patch: UpdateRecommendation): Recommendation {
  const response = patch.response ?? stored.response
  const responded = stored.status === 'submitted' && patch.response !== undefined
  return {
    ...stored,
    ...(responded ? { status: response === 'rejected' ? 'rejected' : 'accepted' } : {}),
    ...mergedMembers(stored, patch),
  }
}

/** `byPlans` is the status derived from plans. */
export function recommendationFaults(
  before: Recommendation,
  after: Recommendation,
  patch: UpdateRecommendation,
  byPlans: StatusByPlans,
): InputError[] {
  const faults: InputError[] = []
  if (after.response === 'rejected' && (after.response_rationale ?? '').trim() === '') {
    faults.push({ pointer: '/response_rationale', code: 'required', detail: 'is required if `response` is rejected' })
  }
  if ((after.response === 'rejected') !== (before.response === 'rejected') && before.status !== 'submitted') {
    faults.push({
      pointer: '/response',
      code: 'fixed',
      detail: 'can change to or from rejected only while the status is submitted',
    })
  }
  if ((patch.status === 'implemented' || patch.status === 'verified') && byPlans !== null) {
    faults.push({
      pointer: '/status',
      code: 'derived',
      detail: 'is set by the action plans of the recommendation: change their status instead',
    })
  }
  if (Object.keys(after.custom).length > 50) {
    faults.push({ pointer: '/custom', code: 'too_big', detail: 'must have at most 50 fields' })
  }
  return faults
}

/** The status that live plans imply. Null without any: then people set the status. The database computes it (`findings.status_by_plans`). */
export type StatusByPlans = 'accepted' | 'implemented' | 'verified' | null

export function stepsToStatus(
  status: Recommendation['status'],
  byPlans: StatusByPlans,
): readonly Recommendation['status'][] {
  if (byPlans === null || byPlans === status || (status !== 'accepted' && status !== 'implemented')) return []
  // The state machine has no direct step from accepted to verified.
  return status === 'accepted' && byPlans === 'verified' ? ['implemented', 'verified'] : [byPlans]
}
