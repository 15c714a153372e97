import {
  type ChangeActionPlanStatus,
  type CreateActionPlan,
  type CreatedBy,
  type InputError,
  type ResourceAddress,
  type UpdateActionPlan,
  maxExtensions,
} from '@postern/contracts'
import { inputErrors, problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { StoredFinding } from '../finding/rules.ts'
import { lockFinding, updateFinding } from '../finding/store.ts'
import { notComparable } from '../four-eyes.ts'
import { deriveRecommendationStatuses } from '../recommendation/derive.ts'
import { invalidContent, problemOfTakenId } from '../request.ts'
import { type LogDraft, changesBetween, draftsOf, initialChanges, textOfMove } from '../tracker-log/rules.ts'
import { assertMove } from '../transitions.ts'
import {
  type StoredPlan,
  dueDateFaults,
  applyPlanMove,
  applyPlanPatch,
  planFaults,
  planFields,
  planMoves,
  unusedMembers,
} from './rules.ts'
import { type NewExtension, findActionPlan, insertActionPlan, updateActionPlan } from './store.ts'
import { brokenConstraint } from '../sql/store.ts'

/** The lock of the finding covers its plans. */
export interface LockedPlan {
  readonly plan: StoredPlan
  readonly finding: StoredFinding
}

export async function lockPlan(tx: Tx, address: ResourceAddress): Promise<LockedPlan | undefined> {
  const found = await findActionPlan(tx, address)
  if (found === undefined) return undefined
  const finding = await lockFinding(tx, { by: 'id', id: found.finding_id })
  // It may have changed while this transaction waited for the lock.
  const plan = await findActionPlan(tx, { by: 'id', id: found.id })
  return plan === undefined || finding === undefined ? undefined : { plan, finding }
}

export interface ChangedPlan {
  readonly plan: StoredPlan
  readonly drafts: readonly LogDraft[]
}

export async function proposePlan(
  tx: Tx,
  finding: StoredFinding,
  body: CreateActionPlan,
  createdBy: CreatedBy,
): Promise<ChangedPlan> {
  const faults = dueDateFaults(body.due_date)
  if (faults.length > 0) throw invalidContent(faults)
  if (finding.status === 'cancelled')
    throw problem('conflict', { detail: 'The finding is cancelled, so nothing can be added to it.' })
  const plan = await insertActionPlan(tx, finding.id, body, createdBy)
  const changes = initialChanges(plan, ['status', 'owner', 'due_date'])
  const created: LogDraft = { findingId: finding.id, actionPlanId: plan.id, kind: 'created', changes }
  const followed = plan.recommendation_ids.length === 0 ? [] : await deriveRecommendationStatuses(tx, finding.id)
  return { plan, drafts: [created, ...followed] }
}

export function isUnchanged(plan: StoredPlan, patch: UpdateActionPlan): boolean {
  const isMoved = patch.status !== undefined && patch.status !== plan.status
  const { after, error } = applyPlanPatch(plan, patch)
  const isSilent = unusedMembers(plan, patch).length === 0
  return !isMoved && isSilent && error === undefined && changesBetween(plan, after, planFields).length === 0
}

/** Throws a 409 problem if the plan has the maximum number of extensions. */
export function assertExtendable({ extension_count: count }: Pick<StoredPlan, 'extension_count'>): void {
  if (count < maxExtensions) return
  throw problem('conflict', {
    detail: `The due date of an action plan can change at most ${maxExtensions} times. Cancel this plan and propose a new one.`,
  })
}

export function extensionDraft(
  about: Pick<LogDraft, 'findingId' | 'actionPlanId'>,
  from: string,
  { to, reason, approvedBy }: NewExtension,
): LogDraft {
  const changes = [
    { field: 'due_date', from, to },
    { field: 'extension_approved_by', from: null, to: approvedBy },
  ]
  return { ...about, kind: 'due_date_change', body: reason, changes }
}

export async function changePlan(
  tx: Tx,
  { plan: before, finding }: LockedPlan,
  patch: UpdateActionPlan,
  changedBy: CreatedBy,
): Promise<ChangedPlan> {
  const { after, error } = applyPlanPatch(before, patch)
  const faults = [...(error === undefined ? [] : inputErrors(error, 'body')), ...planFaults(before, after, patch)]
  if (faults.length > 0) throw invalidContent(faults)
  const { extension_reason: reason, extension_approved_by: approvedBy, status: to } = patch
  const extension =
    after.due_date === before.due_date || reason === undefined || approvedBy === undefined
      ? undefined
      : { to: after.due_date, reason, approvedBy, createdBy: changedBy }
  if (extension !== undefined) assertExtendable(before)
  const isMoved = to !== undefined && to !== before.status
  // With a change of status, its own log entry names the percentage.
  const fields = planFields.filter((field) => !isMoved || field !== 'percent_complete')
  const changes = changesBetween(before, after, fields)
  const about = { findingId: finding.id, actionPlanId: before.id }
  const drafts = draftsOf(changes, about).map((draft) =>
    draft.kind === 'due_date_change' && extension !== undefined
      ? extensionDraft(about, before.due_date, extension)
      : draft,
  )
  if (isMoved) {
    const { reason: why, note, verified_by, evidence_refs = [], percent_complete } = patch
    const request = { to, reason: why, note, verified_by, evidence_refs, percent_complete }
    const moved = await movePlan(tx, { plan: after, finding }, before, request, extension)
    return { plan: moved.plan, drafts: [...drafts, ...moved.drafts] }
  }
  if (changes.length === 0) return { plan: before, drafts: [] }
  const saved = await updateActionPlan(tx, before, after, extension)
  const isRelinked = changes.some(({ field }) => field === 'recommendation_ids')
  return {
    plan: saved,
    drafts: isRelinked ? [...drafts, ...(await deriveRecommendationStatuses(tx, finding.id))] : drafts,
  }
}

/** An approval moves an open finding to `in_remediation`. */
export async function movePlan(
  tx: Tx,
  { plan, finding }: LockedPlan,
  before: StoredPlan,
  request: ChangeActionPlanStatus,
  extension: NewExtension | undefined,
): Promise<ChangedPlan> {
  assertMove(planMoves, before.status, request.to, { plan, before, finding, request })
  const after = applyPlanMove(plan, request)
  const saved = await updateActionPlan(tx, before, after, extension)
  const drafts: LogDraft[] = [
    {
      findingId: finding.id,
      actionPlanId: plan.id,
      kind: request.to === 'verified' ? 'validation' : 'status_change',
      body: textOfMove(request),
      changes: changesBetween(before, saved, ['status', 'percent_complete', 'completed_date', 'verified_by']),
      evidenceRefs: request.evidence_refs,
    },
  ]
  if (request.to === 'approved' && finding.status === 'open') {
    await updateFinding(tx, finding, { ...finding, status: 'in_remediation' })
    drafts.push({
      findingId: finding.id,
      actionPlanId: plan.id,
      kind: 'status_change',
      body: `${plan.reference} was approved.`,
      changes: [{ field: 'status', from: 'open', to: 'in_remediation' }],
    })
  }
  return { plan: saved, drafts: [...drafts, ...(await deriveRecommendationStatuses(tx, finding.id))] }
}

/** Throws a 409 problem if the plan has a final status or its finding is cancelled. */
export function assertChangeable({ plan, finding }: LockedPlan, isMoved: boolean): void {
  const hasEnded = Object.keys(planMoves[plan.status]).length === 0
  if (finding.status !== 'cancelled' && !hasEnded) return
  const detail =
    finding.status === 'cancelled'
      ? 'The finding is cancelled, so its action plans cannot change.'
      : `The action plan is ${plan.status} and cannot change.`
  throw isMoved ? problem('invalid_transition', { detail, allowed: [] }) : problem('conflict', { detail })
}

const faultOfConstraint: ReadonlyMap<string, InputError> = new Map([
  [
    'action_plan_percent_fits_status',
    {
      pointer: '/percent_complete',
      code: 'out_of_range',
      detail: 'must be 100 if the plan is implemented, and less otherwise',
    },
  ],
  ['action_plan_verifier_is_another', { pointer: '/verified_by', code: 'not_comparable', detail: notComparable }],
  [
    'action_plan_recommendation_recommendation_fk',
    {
      pointer: '/recommendation_ids',
      code: 'unknown',
      detail: 'must be ids of recommendations about the same finding',
    },
  ],
  [
    'action_plan_due_after_identified',
    { pointer: '/due_date', code: 'out_of_range', detail: 'must not be before the finding was identified' },
  ],
])

/** Returns the problem of a violated constraint, or else the error itself. */
export function problemOfPlan(error: unknown, reasonAt = '/extension_reason'): unknown {
  const constraint = brokenConstraint(error)
  if (constraint === 'action_plan_extension_reason_said') {
    return invalidContent([{ pointer: reasonAt, code: 'required', detail: 'must not be blank' }])
  }
  const fault = faultOfConstraint.get(constraint ?? '')
  return fault === undefined ? problemOfTakenId('action_plan', constraint, error) : invalidContent([fault])
}
