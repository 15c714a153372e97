import type { ChangeActionPlanStatus, ResourceAddress } from '@postern/contracts'
import { problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { StoredFinding } from '../finding/rules.ts'
import { lockFinding, updateFinding } from '../finding/store.ts'
import { followPlans } from '../recommendation/derive.ts'
import { type LogDraft, changesBetween } from '../tracker-log/rules.ts'
import { assertMove } from '../transitions.ts'
import { type StoredPlan, movedPlan, planMoves } from './rules.ts'
import { type NewExtension, findActionPlan, updateActionPlan } from './store.ts'

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
  assertMove(planMoves, before.status, request.to, { plan, finding, request })
  const after = movedPlan(plan, request)
  const saved = await updateActionPlan(tx, before, after, extension)
  const drafts: LogDraft[] = [
    {
      findingId: finding.id,
      actionPlanId: plan.id,
      kind: request.to === 'verified' ? 'validation' : 'status_change',
      body: request.note ?? request.reason,
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

/** Refuses to change a plan that has ended, or a plan of a finding that is cancelled. */
export function assertChangeable({ plan, finding }: HeldPlan): void {
  if (finding.status === 'cancelled') throw problem('conflict', { detail: 'A cancelled finding never changes.' })
  if (Object.keys(planMoves[plan.status]).length === 0) {
    throw problem('conflict', { detail: `An action plan that is ${plan.status} never changes.` })
  }
}
