import {
  type ChangeFindingStatus,
  type CreateFinding,
  type CreatedBy,
  type InputError,
  type UpdateFinding,
  parseResourceAddress,
} from '@postern/contracts'
import { inputErrors, problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { invalidContent, problemOfTakenId } from '../request.ts'
import { type LogDraft, changesBetween, draftsOf, initialChanges, textOfMove } from '../tracker-log/rules.ts'
import { assertMove } from '../transitions.ts'
import {
  type CalendarDate,
  type StoredFinding,
  changeFaults,
  creationFaults,
  faultOfConstraint,
  applyPatch,
  patchedFields,
  targetDaysBySeverity,
  unknownRepeat,
} from './rules.ts'
import { type FindingProgress, findFindingId, findProgress, insertFinding, updateFinding } from './store.ts'
import { isId } from '../reference/resolve.ts'
import { brokenConstraint } from '../sql/store.ts'
import { findingMoves, isUnderWay, applyMove, needsEvidence } from './transitions.ts'

export interface ChangedFinding {
  readonly finding: StoredFinding
  readonly drafts: readonly LogDraft[]
}

export async function documentFinding(tx: Tx, sent: CreateFinding, createdBy: CreatedBy): Promise<ChangedFinding> {
  const body = await withRepeatedId(tx, sent)
  const faults = creationFaults(body)
  if (faults.length > 0) throw invalidContent(faults)
  const made = await insertFinding(tx, { fields: body, createdBy, targetDays: targetDaysBySeverity[body.severity] })
  const changes = initialChanges(made, ['status', 'severity', 'owner', 'target_date'])
  return { finding: made, drafts: [{ findingId: made.id, kind: 'created', changes }] }
}

export async function changeFinding(tx: Tx, before: StoredFinding, sent: UpdateFinding): Promise<ChangedFinding> {
  const patch = await withRepeatedId(tx, sent)
  if (before.status === 'cancelled')
    throw problem('conflict', { detail: 'The finding is cancelled and cannot change.' })
  const { after, error } = applyPatch(before, patch)
  const faults = [...(error === undefined ? [] : inputErrors(error, 'body')), ...changeFaults(before, after)]
  if (lacksEvidence(before, after) && !(await findProgress(tx, before.id)).hasEvidence) faults.push(missingEvidence)
  if (faults.length > 0) throw invalidContent(faults)
  const changes = changesBetween(before, after, patchedFields)
  if (changes.length === 0) return { finding: before, drafts: [] }
  const finding = await updateFinding(tx, before, after)
  return { finding, drafts: draftsOf(changes, { findingId: before.id }) }
}

/** Resolves an address within the transaction, because an earlier bulk item may have created the repeated finding. */
async function withRepeatedId<B extends { readonly repeat_of_id?: string | null | undefined }>(
  tx: Tx,
  body: B,
): Promise<B> {
  const { repeat_of_id: repeated } = body
  if (typeof repeated !== 'string' || isId(repeated)) return body
  const id = await findFindingId(tx, parseResourceAddress(repeated))
  if (id === undefined) throw invalidContent([unknownRepeat])
  return { ...body, repeat_of_id: id }
}

export function isUnchanged(before: StoredFinding, patch: UpdateFinding): boolean {
  const { after, error } = applyPatch(before, patch)
  return error === undefined && changesBetween(before, after, patchedFields).length === 0
}

/** The database checks the same (`finding_closing_evidence`). */
function lacksEvidence(before: StoredFinding, after: StoredFinding): boolean {
  return before.status === 'closed' && needsEvidence(after) && !needsEvidence(before)
}

const missingEvidence: InputError = {
  pointer: '/severity',
  code: 'missing_evidence',
  detail: 'must not become critical or high, because the finding was closed without evidence: reopen it first',
}

export async function moveFinding(
  tx: Tx,
  finding: StoredFinding,
  request: ChangeFindingStatus,
  today: CalendarDate,
): Promise<ChangedFinding> {
  const progress = await findProgress(tx, finding.id)
  const situation = { finding, ...progress, today, request }
  assertMove(findingMoves, finding.status, request.to, situation)
  const after = applyMove(finding, request)
  const saved = await updateFinding(tx, finding, after)
  const changes = changesBetween(finding, after, ['status', 'accepted_until', 'accepted_by', 'validated_by'])
  const draft: LogDraft = {
    findingId: finding.id,
    kind: request.to === 'closed' ? 'validation' : 'status_change',
    body: textOfMove(request),
    changes,
    evidenceRefs: request.evidence_refs,
  }
  const followed = await startRemediation(tx, saved, finding.status, progress)
  return { finding: followed.finding, drafts: [draft, ...followed.drafts] }
}

/** Moves an open finding on to `in_remediation` if one of its plans was approved before. */
export async function startRemediation(
  tx: Tx,
  finding: StoredFinding,
  before: StoredFinding['status'],
  progress: FindingProgress,
): Promise<ChangedFinding> {
  if (finding.status !== 'open' || !isUnderWay(before, progress)) return { finding, drafts: [] }
  const saved = await updateFinding(tx, finding, { ...finding, status: 'in_remediation' })
  const changes = [{ field: 'status', from: 'open', to: 'in_remediation' }]
  const body = 'An action plan was already approved.'
  return { finding: saved, drafts: [{ findingId: finding.id, kind: 'status_change', body, changes }] }
}

export function problemOfFinding(error: unknown): unknown {
  const constraint = brokenConstraint(error)
  const fault = faultOfConstraint(constraint ?? '')
  return fault === undefined ? problemOfTakenId('finding', constraint, error) : invalidContent([fault])
}
