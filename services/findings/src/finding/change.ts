import type { ChangeFindingStatus, CreateFinding, CreatedBy, InputError, UpdateFinding } from '@postern/contracts'
import { inputErrors, problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { invalidContent, orTakenId } from '../request.ts'
import { type LogDraft, changesBetween, draftsOf, firstValues, saidWith } from '../tracker-log/rules.ts'
import { assertMove } from '../transitions.ts'
import {
  type CalendarDate,
  type StoredFinding,
  changeFaults,
  creationFaults,
  faultOfConstraint,
  patched,
  patchedFields,
  targetDaysBySeverity,
} from './rules.ts'
import { type FindingProgress, brokenConstraint, findProgress, insertFinding, updateFinding } from './store.ts'
import { findingMoves, isUnderWay, moved, needsEvidence } from './transitions.ts'

/** What a change has made of a finding, and what to log about it: nothing, where it was so already. */
export interface ChangedFinding {
  readonly finding: StoredFinding
  readonly drafts: readonly LogDraft[]
}

/** Stores a new finding. */
export async function documentFinding(tx: Tx, body: CreateFinding, createdBy: CreatedBy): Promise<ChangedFinding> {
  const faults = creationFaults(body)
  if (faults.length > 0) throw invalidContent(faults)
  const made = await insertFinding(tx, { fields: body, createdBy, targetDays: targetDaysBySeverity[body.severity] })
  const changes = firstValues(made, ['status', 'severity', 'owner', 'target_date'])
  return { finding: made, drafts: [{ findingId: made.id, kind: 'created', changes }] }
}

/** Applies a merge patch to a locked finding. */
export async function changeFinding(tx: Tx, before: StoredFinding, patch: UpdateFinding): Promise<ChangedFinding> {
  if (before.status === 'cancelled') throw problem('conflict', { detail: 'A cancelled finding never changes.' })
  const { after, error } = patched(before, patch)
  const faults = [...(error === undefined ? [] : inputErrors(error, 'body')), ...changeFaults(before, after)]
  if (becomesUnproved(before, after) && !(await findProgress(tx, before.id)).hasEvidence) faults.push(unproved)
  if (faults.length > 0) throw invalidContent(faults)
  const changes = changesBetween(before, after, patchedFields)
  if (changes.length === 0) return { finding: before, drafts: [] }
  const finding = await updateFinding(tx, before, after)
  return { finding, drafts: draftsOf(changes, { findingId: before.id }) }
}

/** Whether a patch leaves a finding as it is. */
export function isUnchanged(before: StoredFinding, patch: UpdateFinding): boolean {
  const { after, error } = patched(before, patch)
  return error === undefined && changesBetween(before, after, patchedFields).length === 0
}

/** Whether a closed finding becomes one that is closed with evidence only. The database asks the same (finding_closing_evidence). */
function becomesUnproved(before: StoredFinding, after: StoredFinding): boolean {
  return before.status === 'closed' && needsEvidence(after) && !needsEvidence(before)
}

const unproved: InputError = {
  pointer: '/severity',
  code: 'missing_evidence',
  detail: 'must not become critical or high while the finding is closed and its log names no evidence of its remedy',
}

/** Moves the status of a locked finding. `today` is the day (UTC) that the move is judged by. */
export async function moveFinding(
  tx: Tx,
  finding: StoredFinding,
  request: ChangeFindingStatus,
  today: CalendarDate,
): Promise<ChangedFinding> {
  const progress = await findProgress(tx, finding.id)
  const situation = { finding, ...progress, today, request }
  assertMove(findingMoves, finding.status, request.to, situation)
  const after = moved(finding, request)
  const saved = await updateFinding(tx, finding, after)
  const changes = changesBetween(finding, after, ['status', 'accepted_until', 'accepted_by', 'validated_by'])
  const draft: LogDraft = {
    findingId: finding.id,
    kind: request.to === 'closed' ? 'validation' : 'status_change',
    body: saidWith(request),
    changes,
    evidenceRefs: request.evidence_refs,
  }
  const followed = await followPlansUnderWay(tx, saved, finding.status, progress)
  return { finding: followed.finding, drafts: [draft, ...followed.drafts] }
}

/**
 * Puts a finding that has just become open into remediation, where a plan was approved while it was a draft, accepted or
 * closed: the approval does then what it would have done had the finding been open.
 */
export async function followPlansUnderWay(
  tx: Tx,
  finding: StoredFinding,
  before: StoredFinding['status'],
  progress: FindingProgress,
): Promise<ChangedFinding> {
  if (finding.status !== 'open' || !isUnderWay(before, progress)) return { finding, drafts: [] }
  const saved = await updateFinding(tx, finding, { ...finding, status: 'in_remediation' })
  const changes = [{ field: 'status', from: 'open', to: 'in_remediation' }]
  const body = 'An action plan was approved before.'
  return { finding: saved, drafts: [{ findingId: finding.id, kind: 'status_change', body, changes }] }
}

/** What a failed write means to the caller; anything that is not the caller's to mend stays as it is. */
export function problemOfFinding(error: unknown): unknown {
  const constraint = brokenConstraint(error)
  const fault = faultOfConstraint(constraint ?? '')
  return fault === undefined ? orTakenId('finding', constraint, error) : invalidContent([fault])
}
