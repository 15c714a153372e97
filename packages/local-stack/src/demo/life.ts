import type { ActionPlan, PersonRef, Recommendation } from '@postern/contracts'
import type { Calendar } from './calendar.ts'
import type { DemoFinding, DemoPlan, DemoRecommendation, FindingMove, PlanMove } from './finding.ts'
import type { DemoPeople } from './people.ts'
import { type Random, memberOf, uuidOf } from './random.ts'

export interface PlanOutline {
  readonly status: ActionPlan['status']
  readonly extensions: number
  readonly owner?: PersonRef
}

export interface FindingPlan extends Omit<
  DemoFinding,
  'identifiedOn' | 'createdAt' | 'moves' | 'recommendations' | 'plans' | 'log'
> {
  readonly age: number
  readonly end: number
  readonly acceptedForDays: number
  readonly validator: PersonRef
  readonly recommendations: number
  readonly plans: readonly PlanOutline[]
}

interface World {
  readonly calendar: Calendar
  readonly people: DemoPeople
  readonly random: Random
}

/** Maps 0 to 1 to a time. */
type Clock = (share: number) => Date

const dayMs = 86_400_000

export function simulateFinding(plan: FindingPlan, world: World): Omit<DemoFinding, 'log'> {
  const { age, end, acceptedForDays, validator, recommendations, plans, ...same } = plan
  const { calendar } = world
  const clock = clockOf(calendar, age, end)
  const recommended = Array.from({ length: recommendations }, (_none, index) => {
    const carrying = plans.filter((_plan, turn) => turn % recommendations === index)
    return recommend(plan, clock, { index, plans: carrying.map(({ status }) => status) })
  })
  return {
    ...same,
    identifiedOn: calendar.date(age),
    createdAt: clock(0),
    moves: movesOf(plan, clock, { validator, acceptedUntil: calendar.date(-acceptedForDays), plans }),
    recommendations: recommended,
    plans: plans.map((outline, index) => carryOut(plan, outline, { clock, index, world, recommended })),
  }
}

/** Uses office hours (UTC). */
function clockOf(calendar: Calendar, age: number, end: number): Clock {
  const [first, last] = [Date.parse(calendar.date(age)), Date.parse(calendar.date(end - 1)) - 1]
  return (share) => {
    const at = first + (last - first) * share
    const midnight = Math.floor(at / dayMs) * dayMs
    return new Date(Math.floor(midnight + dayMs * (8 / 24) + (at - midnight) * (10 / 24)))
  }
}

const closing = 'The remedy was tested with a new sample, without exceptions.'

function movesOf(
  { status }: Pick<FindingPlan, 'status'>,
  clock: Clock,
  { validator, acceptedUntil, plans }: { validator: PersonRef; acceptedUntil: string; plans: readonly PlanOutline[] },
): FindingMove[] {
  const none = { note: null, by: null, acceptedUntil: null }
  const remedied: FindingMove = { ...none, at: clock(0.146), to: 'in_remediation' }
  const validated: FindingMove = { ...none, at: clock(0.91), to: 'pending_validation' }
  switch (status) {
    case 'draft':
    case 'open':
      return []
    case 'cancelled':
      return [{ ...none, at: clock(0.6), to: 'cancelled', note: 'Raised in error: the control exists elsewhere.' }]
    case 'risk_accepted':
      return [
        {
          at: clock(0.9),
          to: 'risk_accepted',
          note: 'The remedy would cost more than the damage it prevents.',
          by: validator,
          acceptedUntil,
        },
      ]
    case 'in_remediation':
      return plans.length === 0 ? [] : [remedied]
    case 'pending_validation':
      return [remedied, validated]
    case 'closed':
      return [remedied, validated, { ...none, at: clock(0.99), to: 'closed', note: closing, by: validator }]
    default:
      return status satisfies never
  }
}

const recommendationPaths: Readonly<Record<DemoFinding['status'], readonly Recommendation['status'][]>> = {
  draft: [],
  cancelled: [],
  open: [],
  risk_accepted: ['rejected'],
  in_remediation: ['accepted'],
  pending_validation: ['accepted', 'implemented'],
  closed: ['accepted', 'implemented', 'verified'],
}

const recommendationShares: Readonly<Record<string, number>> = {
  rejected: 0.5,
  accepted: 0.152,
  implemented: 0.74,
  verified: 0.88,
}

const advice = ['', 'Report progress to the committee every month. ', 'Show by a sample of 25 that it works. '] as const

function recommendationPath(
  status: DemoFinding['status'],
  plans: readonly ActionPlan['status'][],
): readonly Recommendation['status'][] {
  const path = recommendationPaths[status]
  const live = plans.filter((plan) => plan !== 'rejected' && plan !== 'cancelled')
  if (!path.includes('accepted') || live.length === 0) return path
  if (live.every((plan) => plan === 'verified')) return ['accepted', 'implemented', 'verified']
  return live.every((plan) => plan === 'verified' || plan === 'implemented')
    ? ['accepted', 'implemented']
    : ['accepted']
}

function recommend(
  plan: FindingPlan,
  clock: Clock,
  { index, plans }: { readonly index: number; readonly plans: readonly ActionPlan['status'][] },
): DemoRecommendation {
  const { id, external_id, corrective_action, severity, status } = plan
  return {
    id: uuidOf(`${id} recommendation ${index}`),
    external_id: `${external_id}-R${index + 1}`,
    text: `${memberOf(advice, index)}${corrective_action}`,
    priority: severity === 'critical' || severity === 'high' ? 'high' : severity,
    createdAt: clock(0.02 + 0.004 * index),
    moves: recommendationPath(status, plans).map((to) => ({
      at: clock((recommendationShares[to] ?? 0.5) + 0.004 * index),
      to,
      rationale: to === 'rejected' ? 'The risk is accepted instead.' : null,
    })),
  }
}

const planPaths: Readonly<Record<ActionPlan['status'], readonly ActionPlan['status'][]>> = {
  proposed: [],
  approved: ['approved'],
  in_progress: ['approved', 'in_progress'],
  blocked: ['approved', 'in_progress', 'blocked'],
  implemented: ['approved', 'in_progress', 'implemented'],
  verified: ['approved', 'in_progress', 'implemented', 'verified'],
  rejected: ['rejected'],
  cancelled: ['approved', 'cancelled'],
}

const planShares: Readonly<Record<ActionPlan['status'], number>> = {
  proposed: 0.06,
  approved: 0.14,
  rejected: 0.4,
  in_progress: 0.24,
  cancelled: 0.5,
  blocked: 0.6,
  implemented: 0.62,
  verified: 0.78,
}

const planNotes: Partial<Readonly<Record<ActionPlan['status'], string>>> = {
  rejected: 'Not needed: the risk is accepted.',
  cancelled: 'Covered by another plan.',
  blocked: 'Waits for the supplier, who has moved the delivery.',
  implemented: 'Done, and shown in a walkthrough.',
  verified: 'Seen in operation for a month.',
}

const reasons = [
  'The supplier delivers the release later than agreed.',
  'The people who are to do it were needed for the year-end closing.',
  'Depends on another plan, which was extended.',
] as const

interface LifeContext {
  readonly clock: Clock
  readonly index: number
  readonly world: World
  readonly recommended: readonly DemoRecommendation[]
}

function carryOut(
  finding: FindingPlan,
  outline: PlanOutline,
  { clock, index, world, recommended }: LifeContext,
): DemoPlan {
  const { random, people } = world
  const owner = outline.owner ?? finding.owner
  const createdAt = clock(planShares.proposed + 0.01 * index)
  let due = dateOf(new Date(createdAt.getTime() + random.int(20, 90) * dayMs))
  const dueOn = due
  const extensions = Array.from({ length: outline.extensions }, (_none, turn) => {
    const from = due
    due = dateOf(new Date(Date.parse(from) + random.pick([30, 45, 60, 90]) * dayMs))
    return {
      at: clock(0.44 + 0.05 * turn + 0.004 * index),
      from,
      to: due,
      reason: memberOf(reasons, random.int(0, 2)),
      approvedBy: random.pick(people.validators),
    }
  })
  const percent = random.int(1, 9) * 10
  const moves = planPaths[outline.status].map((to): PlanMove => ({
    at: clock(planShares[to] + 0.001 * index),
    to,
    percent: to === 'implemented' || to === 'verified' ? 100 : to === 'in_progress' || to === 'blocked' ? percent : 0,
    note: planNotes[to] ?? null,
    verifiedBy: to === 'verified' ? finding.validator : null,
  }))
  const recommendation = recommended.length === 0 ? undefined : memberOf(recommended, index)
  return {
    id: uuidOf(`${finding.id} plan ${index}`),
    external_id: `${finding.external_id}-A${index + 1}`,
    title: `${memberOf(steps, index)}: ${finding.title}`.slice(0, 255),
    owner,
    priority: finding.severity === 'critical' || finding.severity === 'high' ? 'high' : finding.severity,
    dueOn,
    createdAt,
    recommendations: recommendation === undefined ? [] : [recommendation.id],
    extensions,
    moves,
  }
}

const steps = [
  'Fix the cause',
  'Correct what has happened',
  'Show that it works',
  'Train those concerned',
  'Watch it',
] as const

function dateOf(time: Date): string {
  return time.toISOString().slice(0, 10)
}
