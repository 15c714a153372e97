import type { ChangeFindingStatus, Finding } from '@postern/contracts'
import { fourEyes } from '../four-eyes.ts'
import type { Need, StateMachine } from '../transitions.ts'
import { type CalendarDate, type StoredFinding, missingAfterDraft, neededAfterDraft } from './rules.ts'

/** What a move of a finding's status is judged by. */
export interface FindingSituation {
  readonly finding: StoredFinding
  readonly livePlans: number
  readonly unfinishedPlans: number
  /** Evidence was named since the finding was reopened, or its validation failed. */
  readonly hasEvidence: boolean
  /** All that was recommended was rejected. */
  readonly isRejected: boolean
  readonly today: CalendarDate
  /** What came with the request; nothing, where only the moves are asked for. */
  readonly request: Partial<ChangeFindingStatus>
}

type FindingNeed = Need<FindingSituation>

const reason: FindingNeed = {
  code: 'required',
  member: 'reason',
  detail: 'is needed: say why',
  isMet: ({ request }) => (request.reason ?? '').trim() !== '',
}

const complete = neededAfterDraft.map((field): FindingNeed => ({
  code: `missing_${field}`,
  detail: `The finding needs ${field} before it can leave the draft.`,
  isMet: ({ finding }) => !missingAfterDraft(finding).includes(field),
}))

const acceptance: readonly FindingNeed[] = [
  {
    code: 'required',
    member: 'approver',
    detail: 'is needed: who accepts the risk',
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
    'is needed: who has validated the remedy, and not the owner of the finding',
    {
      given: ({ request }) => request.validated_by,
      owners: ({ finding }) => [finding.owner],
    },
  ),
  {
    code: 'required',
    member: 'note',
    detail: 'is needed: what was seen',
    isMet: ({ request }) => (request.note ?? '').trim() !== '',
  },
  {
    code: 'required',
    member: 'evidence_refs',
    detail:
      'is needed for a critical or high finding: evidence of this remedy, here or in its log since it was reopened or its validation failed',
    isMet: ({ finding, hasEvidence, request }) =>
      !needsEvidence(finding) || hasEvidence || (request.evidence_refs ?? []).length > 0,
  },
]

const hasPlan: FindingNeed = {
  code: 'missing_action_plan',
  detail: 'The finding needs an action plan that is not rejected or cancelled.',
  isMet: ({ livePlans }) => livePlans > 0,
}

const plansDone: FindingNeed = {
  code: 'unfinished_action_plans',
  detail: 'Every action plan must be implemented, verified, rejected or cancelled.',
  isMet: ({ unfinishedPlans }) => unfinishedPlans === 0,
}

const agreedTo: FindingNeed = {
  code: 'recommendations_rejected',
  detail:
    'Every recommendation was rejected, so nothing is remedied: accept the risk, or submit a recommendation that is carried out.',
  isMet: ({ isRejected }) => !isRejected,
}

const reopenable: FindingNeed = {
  code: 'closed_too_long',
  detail: 'It was closed more than 12 months ago: document a new finding that repeats it.',
  isMet: ({ finding, today }) => finding.closed_date !== null && monthsFrom(finding.closed_date, 12) >= today,
}

/** Where the status of a finding can go. The same moves are kept by the database (findings.guard_finding). */
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

/**
 * Whether a finding that has become open is in remediation at once, because a plan was approved while it was something else.
 * Work that is left is begun in any case; a plan that is done counts where it is about what is open now, and not for a
 * finding that is reopened although its plans were done.
 */
export function isUnderWay(
  before: Finding['status'],
  { approvedPlans, plansUnderWay }: { readonly approvedPlans: number; readonly plansUnderWay: number },
): boolean {
  return plansUnderWay > 0 || (before !== 'closed' && approvedPlans > 0)
}

/** Serious enough that its remedy is proved, not only said. */
export function needsEvidence({ severity }: Pick<Finding, 'severity'>): boolean {
  return severity === 'critical' || severity === 'high'
}

/** The finding in its next status, with what belongs to that status and without what belonged to the one before. */
export function moved(finding: StoredFinding, request: ChangeFindingStatus): StoredFinding {
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

/** The same day of a later month, or that month's last day. */
export function monthsFrom(date: CalendarDate, months: number): CalendarDate {
  const [year = 0, month = 1, day = 1] = date.split('-').map(Number)
  const lastDay = new Date(Date.UTC(year, month + months, 0)).getUTCDate()
  return new Date(Date.UTC(year, month - 1 + months, Math.min(day, lastDay))).toISOString().slice(0, 10)
}
