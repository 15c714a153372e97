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
import { followPlans } from '../recommendation/derive.ts'
import { invalidContent, orTakenId } from '../request.ts'
import { type LogDraft, changesBetween, draftsOf, firstValues, saidWith } from '../tracker-log/rules.ts'
import { assertMove } from '../transitions.ts'
import {
  type StoredPlan,
  dueDateFaults,
  movedPlan,
  patchedPlan,
  planFaults,
  planFields,
  planMoves,
  unusedMembers,
} from './rules.ts'
import { type NewExtension, brokenConstraint, findActionPlan, insertActionPlan, updateActionPlan } from './store.ts'

/** A plan and its finding, both held until the transaction ends: the finding's lock is the lock of its plans. */
export interface HeldPlan {
  readonly plan: StoredPlan
  readonly finding: StoredFinding
}

/** Holds the plan at an address; undefined where the tenant has none. */
export async function holdPlan(tx: Tx, address: ResourceAddress): Promise<HeldPlan | undefined> {
  const found = await findActionPlan(tx, address)
  if (found === undefined) return undefined
  const finding = await lockFinding(tx, { by: 'id', id: found.finding_id })
  // Again, behind the lock: it may have changed while another transaction was waited for.
  const plan = await findActionPlan(tx, { by: 'id', id: found.id })
  return plan === undefined || finding === undefined ? undefined : { plan, finding }
}

/** What a change has made of a plan, and what to log about it. */
export interface ChangedPlan {
  readonly plan: StoredPlan
  readonly drafts: readonly LogDraft[]
}

/** Stores a plan for a locked finding; what it carries out follows it. */
export async function proposePlan(
  tx: Tx,
  finding: StoredFinding,
  body: CreateActionPlan,
  createdBy: CreatedBy,
): Promise<ChangedPlan> {
  const faults = dueDateFaults(body.due_date)
  if (faults.length > 0) throw invalidContent(faults)
  if (finding.status === 'cancelled') throw problem('conflict', { detail: 'A cancelled finding never changes.' })
  const plan = await insertActionPlan(tx, finding.id, body, createdBy)
  const changes = firstValues(plan, ['status', 'owner', 'due_date'])
  const created: LogDraft = { findingId: finding.id, actionPlanId: plan.id, kind: 'created', changes }
  // Work is left, on what was implemented, too.
  const followed = plan.recommendation_ids.length === 0 ? [] : await followPlans(tx, finding.id)
  return { plan, drafts: [created, ...followed] }
}

/** Whether a merge patch leaves a plan as it is. */
export function isUnchanged(plan: StoredPlan, patch: UpdateActionPlan): boolean {
  const isMoved = patch.status !== undefined && patch.status !== plan.status
  const { after, error } = patchedPlan(plan, patch)
  const isSilent = unusedMembers(plan, patch).length === 0
  return !isMoved && isSilent && error === undefined && changesBetween(plan, after, planFields).length === 0
}

/** A plan is read with all its extensions: with more of the longest reasons it would fit into no page. */
export function assertExtendable({ extension_count: count }: Pick<StoredPlan, 'extension_count'>): void {
  if (count < maxExtensions) return
  throw problem('conflict', {
    detail: `The due date of an action plan moves at most ${maxExtensions} times. Cancel this plan, and propose another one.`,
  })
}

/** What is logged of a due date that moves: why, and who agreed to it. */
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

/** Applies a merge patch to a held plan that can change, and moves its status where the patch names another. */
export async function changePlan(
  tx: Tx,
  { plan: before, finding }: HeldPlan,
  patch: UpdateActionPlan,
  changedBy: CreatedBy,
): Promise<ChangedPlan> {
  const { after, error } = patchedPlan(before, patch)
  const faults = [...(error === undefined ? [] : inputErrors(error, 'body')), ...planFaults(before, after, patch)]
  if (faults.length > 0) throw invalidContent(faults)
  const { extension_reason: reason, extension_approved_by: approvedBy, status: to } = patch
  const extension =
    after.due_date === before.due_date || reason === undefined || approvedBy === undefined
      ? undefined
      : { to: after.due_date, reason, approvedBy, createdBy: changedBy }
  if (extension !== undefined) assertExtendable(before)
  const isMoved = to !== undefined && to !== before.status
  // The percentage goes with the status where there is one.
  const fields = planFields.filter((field) => !isMoved || field !== 'percent_complete')
  const changes = changesBetween(before, after, fields)
  const about = { findingId: finding.id, actionPlanId: before.id }
  // The reason is of the due date, and of nothing else that changes with it; so is who has agreed.
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
  return { plan: saved, drafts: isRelinked ? [...drafts, ...(await followPlans(tx, finding.id))] : drafts }
}

/**
 * Moves the status of a held plan, together with what follows from it: the first approval puts an open finding into
 * remediation, and recommendations follow the plans that carry them out.
 */
export async function movePlan(
  tx: Tx,
  { plan, finding }: HeldPlan,
  before: StoredPlan,
  request: ChangeActionPlanStatus,
  extension: NewExtension | undefined,
): Promise<ChangedPlan> {
  assertMove(planMoves, before.status, request.to, { plan, before, finding, request })
  const after = movedPlan(plan, request)
  const saved = await updateActionPlan(tx, before, after, extension)
  const drafts: LogDraft[] = [
    {
      findingId: finding.id,
      actionPlanId: plan.id,
      kind: request.to === 'verified' ? 'validation' : 'status_change',
      body: saidWith(request),
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
  return { plan: saved, drafts: [...drafts, ...(await followPlans(tx, finding.id))] }
}

/**
 * Refuses to change a plan that has ended, or a plan of a finding that is cancelled. Who would move its status learns, as of
 * every move that there is not, that none is allowed.
 */
export function assertChangeable({ plan, finding }: HeldPlan, isMoved: boolean): void {
  const hasEnded = Object.keys(planMoves[plan.status]).length === 0
  if (finding.status !== 'cancelled' && !hasEnded) return
  const detail =
    finding.status === 'cancelled'
      ? 'A cancelled finding never changes, nor do its action plans.'
      : `An action plan that is ${plan.status} never changes.`
  throw isMoved ? problem('invalid_transition', { detail, allowed: [] }) : problem('conflict', { detail })
}

const faultOfConstraint: ReadonlyMap<string, InputError> = new Map([
  [
    'action_plan_percent_fits_status',
    {
      pointer: '/percent_complete',
      code: 'out_of_range',
      detail: 'is 100 where the plan is implemented, and only there',
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

/**
 * What a failed write means to the caller; anything that is not the caller's to mend stays as it is. `reasonAt` is where the
 * request says why the due date moves.
 */
export function problemOfPlan(error: unknown, reasonAt = '/extension_reason'): unknown {
  const constraint = brokenConstraint(error)
  if (constraint === 'action_plan_extension_reason_said') {
    return invalidContent([{ pointer: reasonAt, code: 'required', detail: 'must say something' }])
  }
  const fault = faultOfConstraint.get(constraint ?? '')
  return fault === undefined ? orTakenId('action_plan', constraint, error) : invalidContent([fault])
}
