import type { ChangeFindingStatus, Finding } from '@postern/contracts'
import { fourEyes } from '../four-eyes.ts'
import type { Need, StateMachine } from '../transitions.ts'
import { type CalendarDate, type StoredFinding, missingAfterDraft, neededAfterDraft } from './rules.ts'

export interface FindingSituation {
  readonly finding: StoredFinding
  readonly livePlans: number
  readonly unfinishedPlans: number
  readonly hasEvidence: boolean
  readonly isRejected: boolean
  readonly today: CalendarDate
  readonly request: Partial<ChangeFindingStatus>
}

type FindingNeed = Need<FindingSituation>

const reason: FindingNeed = {
  code: 'required',
  member: 'reason',
  detail: 'is required: say why',
  isMet: ({ request }) => (request.reason ?? '').trim() !== '',
}

const complete = neededAfterDraft.map((field): FindingNeed => ({
  code: `missing_${field}`,
  detail: `Set ${field} before the finding leaves the draft status.`,
  isMet: ({ finding }) => !missingAfterDraft(finding).includes(field),
}))

const acceptance: readonly FindingNeed[] = [
  {
    code: 'required',
    member: 'approver',
    detail: 'is required: who accepts the risk',
    isMet: ({ request }) => request.approver !== undefined,
  },
  {
    code: 'out_of_range',
    member: 'accepted_until',
    detail: 'must be a day from today to 24 months from now',
    isMet: ({ request, today }) =>
      request.accepted_until !== undefined &&
      request.accepted_until >= today &&
      request.accepted_until <= monthsFrom(today, 24),
  },
  reason,
]

const validation: readonly FindingNeed[] = [
  ...fourEyes<FindingSituation>(
    'validated_by',
    'is required: who validated the remedy. The owner of the finding cannot.',
    {
      given: ({ request }) => request.validated_by,
      owners: ({ finding }) => [finding.owner],
    },
  ),
  {
    code: 'required',
    member: 'note',
    detail: 'is required: what was seen',
    isMet: ({ request }) => (request.note ?? '').trim() !== '',
  },
  {
    code: 'required',
    member: 'evidence_refs',
    detail:
      'is required for a critical or high finding, unless evidence was logged since the last reopening or failed validation',
    isMet: ({ finding, hasEvidence, request }) =>
      !needsEvidence(finding) || hasEvidence || (request.evidence_refs ?? []).length > 0,
  },
]

const hasPlan: FindingNeed = {
  code: 'missing_action_plan',
  detail: 'Add an action plan that is not rejected or cancelled.',
  isMet: ({ livePlans }) => livePlans > 0,
}

const plansDone: FindingNeed = {
  code: 'unfinished_action_plans',
  detail: 'Implement, verify, reject or cancel every action plan first.',
  isMet: ({ unfinishedPlans }) => unfinishedPlans === 0,
}

const agreedTo: FindingNeed = {
  code: 'recommendations_rejected',
  detail: 'Every recommendation was rejected. Accept the risk, or submit another recommendation.',
  isMet: ({ isRejected }) => !isRejected,
}

const reopenable: FindingNeed = {
  code: 'closed_too_long',
  detail: 'The finding was closed more than 12 months ago. Document a new finding that repeats it.',
  isMet: ({ finding, today }) => finding.closed_date !== null && monthsFrom(finding.closed_date, 12) >= today,
}

/** The database enforces the same machine (`findings.guard_finding`). */
export const findingMoves: StateMachine<Finding['status'], FindingSituation> = {
  draft: { open: complete, cancelled: [reason] },
  open: { in_remediation: [hasPlan], risk_accepted: acceptance, cancelled: [reason] },
  in_remediation: { pending_validation: [plansDone, agreedTo], risk_accepted: acceptance, cancelled: [reason] },
  pending_validation: { closed: [...validation, plansDone, agreedTo], in_remediation: [reason] },
  risk_accepted: {
    open: [
      {
        ...reason,
        isMet: (situation) =>
          reason.isMet(situation) || (situation.finding.accepted_until ?? situation.today) < situation.today,
      },
    ],
  },
  closed: { open: [reason, reopenable] },
  cancelled: {},
}

/** Whether a newly open finding moves to `in_remediation` at once, because of its approved plans. */
export function isUnderWay(
  before: Finding['status'],
  { approvedPlans, plansUnderWay }: { readonly approvedPlans: number; readonly plansUnderWay: number },
): boolean {
  return plansUnderWay > 0 || (before !== 'closed' && approvedPlans > 0)
}

export function needsEvidence({ severity }: Pick<Finding, 'severity'>): boolean {
  return severity === 'critical' || severity === 'high'
}

export function applyMove(finding: StoredFinding, request: ChangeFindingStatus): StoredFinding {
  const { to: status } = request
  return {
    ...finding,
    status,
    accepted_until: status === 'risk_accepted' ? (request.accepted_until ?? null) : null,
    accepted_by: status === 'risk_accepted' ? (request.approver ?? null) : null,
    validated_by: status === 'closed' ? (request.validated_by ?? null) : null,
    reopened_count: finding.reopened_count + (finding.status === 'closed' && status === 'open' ? 1 : 0),
  }
}

export function monthsFrom(date: CalendarDate, months: number): CalendarDate {
  const [year = 0, month = 1, day = 1] = date.split('-').map(Number)
  const lastDay = new Date(Date.UTC(year, month + months, 0)).getUTCDate()
  return new Date(Date.UTC(year, month - 1 + months, Math.min(day, lastDay))).toISOString().slice(0, 10)
}
