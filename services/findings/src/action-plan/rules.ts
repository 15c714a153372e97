import {
  type ActionPlan,
  type ActionPlanStub,
  type ChangeActionPlanStatus,
  type InputError,
  type UpdateActionPlan,
  moneySchema,
  personRefSchema,
} from '@postern/contracts'
import { z } from 'zod'
import type { CalendarDate, StoredFinding } from '../finding/rules.ts'
import { needsEvidence } from '../finding/transitions.ts'
import { fourEyes } from '../four-eyes.ts'
import { mergedMembers } from '../merge-patch.ts'
import { comparePeople, dropFormerPerson } from '../person.ts'
import type { Need, StateMachine } from '../transitions.ts'

export type StoredPlan = Omit<ActionPlan, 'is_overdue' | 'days_overdue' | 'days_late_vs_original'>

export const planFields = [
  'external_id',
  'title',
  'description',
  'owner',
  'due_date',
  'recommendation_ids',
  'percent_complete',
  'priority',
  'estimated_cost',
  'external_url',
  'custom',
] as const

const dayMs = 86_400_000
const ended: ReadonlySet<ActionPlan['status']> = new Set(['verified', 'rejected', 'cancelled'])

/** Finished plans count days late up to their completion. */
export function planAsRead(stored: StoredPlan, today: CalendarDate): ActionPlan {
  const isOpen = !ended.has(stored.status) && stored.status !== 'implemented'
  const last = isOpen ? today : (stored.completed_date ?? stored.original_due_date)
  return {
    ...stored,
    is_overdue: isOpen && stored.due_date < today,
    days_overdue: isOpen ? daysLate(stored.due_date, today) : 0,
    days_late_vs_original: daysLate(stored.original_due_date, last),
  }
}

function daysLate(due: CalendarDate, day: CalendarDate): number {
  return Math.max(0, Math.round((Date.parse(day) - Date.parse(due)) / dayMs))
}

export function planStub({ id, reference, version, status }: StoredPlan): ActionPlanStub {
  return { id, reference, version, status }
}

/** A patch checks only the members that it names. */
const mergedObjects = z.object({ owner: personRefSchema.optional(), estimated_cost: moneySchema.nullish() })

/** RFC 7396, without the status. Returns an error if the result is invalid. */
export function applyPlanPatch(
  stored: StoredPlan,
  patch: UpdateActionPlan,
): { readonly after: StoredPlan; readonly error?: z.ZodError } {
  const named = Object.fromEntries(planFields.map((field) => [field, patch[field]]))
  const { owner, estimated_cost, ...members } = mergedMembers(stored, named)
  const merged = mergedObjects.safeParse({ owner: dropFormerPerson(stored.owner, patch.owner, owner), estimated_cost })
  if (!merged.success) return { after: stored, error: merged.error }
  const objects = Object.entries(merged.data).filter(([, value]) => value !== undefined)
  return { after: { ...stored, ...members, ...Object.fromEntries(objects) } }
}

const ofMove = ['reason', 'note', 'verified_by', 'evidence_refs'] as const
const ofExtension = ['extension_reason', 'extension_approved_by'] as const

export function unusedMembers(before: StoredPlan, patch: UpdateActionPlan): InputError[] {
  const isMoved = patch.status !== undefined && patch.status !== before.status
  const isExtended = patch.due_date !== undefined && patch.due_date !== before.due_date
  const isGiven = (member: (typeof ofMove | typeof ofExtension)[number]): boolean => {
    const given = patch[member]
    return Array.isArray(given) ? given.length > 0 : given !== undefined
  }
  const unused = (members: readonly (typeof ofMove | typeof ofExtension)[number][], detail: string): InputError[] =>
    members.filter(isGiven).map((member) => ({ pointer: `/${member}`, code: 'unused', detail }))
  return [
    ...(isMoved ? [] : unused(ofMove, 'is only allowed with a new status')),
    ...(isExtended ? [] : unused(ofExtension, 'is only allowed with a new due date')),
  ]
}

export function planFaults(before: StoredPlan, after: StoredPlan, patch: UpdateActionPlan): InputError[] {
  const faults = unusedMembers(before, patch)
  const isMoved = patch.status !== undefined && patch.status !== before.status
  if (after.due_date !== before.due_date) {
    faults.push(...dueDateFaults(after.due_date))
    for (const field of ['extension_reason', 'extension_approved_by'] as const) {
      if (patch[field] === undefined) {
        faults.push({ pointer: `/${field}`, code: 'required', detail: 'is required for a new due date' })
      }
    }
  }
  if (after.percent_complete === 100 && !isMoved && before.status !== 'implemented') {
    faults.push({
      pointer: '/percent_complete',
      code: 'out_of_range',
      detail: 'must be below 100 until the plan is implemented',
    })
  }
  if (after.percent_complete !== 100 && !isMoved && before.status === 'implemented') {
    faults.push({
      pointer: '/percent_complete',
      code: 'out_of_range',
      detail: 'must be 100 while the plan is implemented',
    })
  }
  if (comparePeople(after.owner, after.verified_by) === 'same') {
    faults.push({ pointer: '/owner', code: 'same_person', detail: 'must not be the person who verified the plan' })
  }
  if (isMoved && patch.status === 'verified' && comparePeople(before.owner, after.owner) !== 'same') {
    const detail = 'cannot change in the request that verifies the plan'
    faults.push({ pointer: '/owner', code: 'fixed', detail })
  }
  if (Object.keys(after.custom).length > 50) {
    faults.push({ pointer: '/custom', code: 'too_big', detail: 'must have at most 50 fields' })
  }
  return faults
}

export function dueDateFaults(date: CalendarDate, pointer = '/due_date'): InputError[] {
  return date < '1900-01-01' ? [{ pointer, code: 'out_of_range', detail: 'must be 1900-01-01 or later' }] : []
}

export interface PlanSituation {
  readonly plan: StoredPlan
  readonly before: Pick<StoredPlan, 'owner'>
  readonly finding: Pick<StoredFinding, 'severity'>
  readonly request: Partial<ChangeActionPlanStatus>
}

type PlanNeed = Need<PlanSituation>

const reason: PlanNeed = {
  code: 'required',
  member: 'reason',
  detail: 'is required: say why',
  isMet: ({ request }) => (request.reason ?? '').trim() !== '',
}

const done: readonly PlanNeed[] = [
  {
    code: 'required',
    member: 'percent_complete',
    detail: 'must be 100 for an implemented plan',
    isMet: ({ request }) => request.percent_complete === 100,
  },
  {
    code: 'required',
    member: 'note',
    detail: 'is required: what was done',
    isMet: ({ request }) => (request.note ?? '').trim() !== '',
  },
]

const unfinished: PlanNeed = {
  code: 'out_of_range',
  member: 'percent_complete',
  detail: 'must be below 100 until the plan is implemented',
  isMet: ({ request }) => request.percent_complete !== 100,
}

const verification: readonly PlanNeed[] = [
  {
    code: 'out_of_range',
    member: 'percent_complete',
    detail: 'must be 100 for a verified plan',
    isMet: ({ request }) => (request.percent_complete ?? 100) === 100,
  },
  ...fourEyes<PlanSituation>('verified_by', 'is required: who verified the plan. The owner of the plan cannot.', {
    given: ({ request }) => request.verified_by,
    owners: ({ before, plan }) => [before.owner, plan.owner],
  }),
  {
    code: 'required',
    member: 'evidence_refs',
    detail: 'is required for a critical or high finding',
    isMet: ({ finding, request }) => !needsEvidence(finding) || (request.evidence_refs ?? []).length > 0,
  },
]

/** The database enforces the same machine (`findings.guard_action_plan`). */
export const planMoves: StateMachine<ActionPlan['status'], PlanSituation> = {
  proposed: { approved: [unfinished], rejected: [reason, unfinished], cancelled: [reason, unfinished] },
  approved: { in_progress: [unfinished], cancelled: [reason, unfinished] },
  in_progress: { implemented: done, blocked: [reason, unfinished], cancelled: [reason, unfinished] },
  blocked: { in_progress: [reason, unfinished], cancelled: [reason, unfinished] },
  implemented: { verified: verification, in_progress: [reason, unfinished] },
  verified: {},
  rejected: {},
  cancelled: {},
}

/** A plan that goes back to work has at most 99 percent. */
export function applyPlanMove(plan: StoredPlan, request: ChangeActionPlanStatus): StoredPlan {
  const { to: status } = request
  const given = request.percent_complete ?? plan.percent_complete
  const isDone = status === 'implemented' || status === 'verified'
  return {
    ...plan,
    status,
    percent_complete: isDone ? 100 : Math.min(given, 99),
    verified_by: status === 'verified' ? (request.verified_by ?? null) : null,
  }
}
