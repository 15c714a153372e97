import type { Finding, InputError, Recommendation, RecommendationStub, UpdateRecommendation } from '@postern/contracts'
import { mergedMembers } from '../merge-patch.ts'

/** Fields that a patch can change, as the tracker log names them. */
export const recommendationFields = [
  'external_id',
  'text',
  'priority',
  'response',
  'response_rationale',
  'status',
  'custom',
] as const

/** How urgent a recommendation about a finding of each severity is, where nobody says otherwise. */
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

/** Where the status of a recommendation can go. The same moves are kept by the database. */
export function allowedMoves(status: Recommendation['status']): readonly Recommendation['status'][] {
  return moves[status]
}

/** All that an answer to a write may say to a caller that cannot read findings. */
export function recommendationStub({ id, reference, version, status }: Recommendation): RecommendationStub {
  return { id, reference, version, status }
}

/** The recommendation after a merge patch: a response to one that waits for it moves its status. */
export function patchedRecommendation(stored: Recommendation, patch: UpdateRecommendation): Recommendation {
  const response = patch.response ?? stored.response
  const responded = stored.status === 'submitted' && patch.response !== undefined
  return {
    ...stored,
    ...(responded ? { status: response === 'rejected' ? 'rejected' : 'accepted' } : {}),
    ...mergedMembers(stored, patch),
  }
}

/** What keeps a recommendation from becoming what a patch would make of it; `byPlans` is the status that plans give it. */
export function recommendationFaults(
  before: Recommendation,
  after: Recommendation,
  patch: UpdateRecommendation,
  byPlans: StatusByPlans,
): InputError[] {
  const faults: InputError[] = []
  if (after.response === 'rejected' && (after.response_rationale ?? '').trim() === '') {
    faults.push({ pointer: '/response_rationale', code: 'required', detail: 'is needed to reject' })
  }
  if ((after.response === 'rejected') !== (before.response === 'rejected') && before.status !== 'submitted') {
    faults.push({ pointer: '/response', code: 'fixed', detail: 'can be turned round only while it is submitted' })
  }
  if ((patch.status === 'implemented' || patch.status === 'verified') && byPlans !== null) {
    faults.push({ pointer: '/status', code: 'derived', detail: 'follows from the action plans that carry it out' })
  }
  if (Object.keys(after.custom).length > 50) {
    faults.push({ pointer: '/custom', code: 'too_big', detail: 'must hold at most 50 fields' })
  }
  return faults
}

/**
 * How far the live plans that carry a recommendation out have all come: the status that it has once it was accepted, and until
 * it is verified or superseded. Null where no plan is live; its status is then moved by hand. The database decides it
 * (findings.status_by_plans).
 */
export type StatusByPlans = 'accepted' | 'implemented' | 'verified' | null

/** The statuses through which a recommendation gets to where its plans are; none where it is there, or does not follow. */
export function stepsToPlans(
  status: Recommendation['status'],
  byPlans: StatusByPlans,
): readonly Recommendation['status'][] {
  if (byPlans === null || byPlans === status || (status !== 'accepted' && status !== 'implemented')) return []
  // As every recommendation reaches it.
  return status === 'accepted' && byPlans === 'verified' ? ['implemented', 'verified'] : [byPlans]
}
