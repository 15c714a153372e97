import type { ActionPlan, Finding, PersonRef, PushedEntity } from '@postern/contracts'
import type { Calendar } from './calendar.ts'
import type { DemoFinding } from './finding.ts'
import { type FindingPlan, type PlanOutline, simulateFinding } from './life.ts'
import { fillLog } from './log.ts'
import type { DemoPeople } from './people.ts'
import { type Random, apportion, createRandom, memberOf, uuidOf } from './random.ts'
import type { Scenario } from './scenario.ts'
import { engagementOf, storyEntityIds } from './universe.ts'

interface Input {
  readonly scenario: Scenario
  readonly seed: string
  readonly calendar: Calendar
  readonly people: DemoPeople
  readonly entities: readonly PushedEntity[]
}

type Severity = Finding['severity']
type Status = Finding['status']

const severities: readonly Severity[] = ['critical', 'high', 'medium', 'low']

const severityShares = [6, 22, 45, 27]

const targetDays: Readonly<Record<Severity, number>> = { critical: 30, high: 90, medium: 180, low: 365 }

const finished: ReadonlySet<Status> = new Set(['closed', 'risk_accepted', 'cancelled'])

export function makeFindings(input: Input): DemoFinding[] {
  const random = createRandom(`${input.seed} ${input.scenario.slug} findings`)
  const ofStories = outlineStories(input, random)
  const outlines = [...ofStories, ...makeOutlines(input, ofStories, random)]
  const repeating = findRepeats(input, outlines, random)
  const planned = addPlans(input, repeating, random)
  return fillLog(
    planned.map((outline) => simulateFinding(outline, { calendar: input.calendar, people: input.people, random })),
    input.scenario.counts.logEntries,
    random,
  )
}

type Outline = Omit<FindingPlan, 'recommendations' | 'plans'> & { readonly plans?: readonly PlanOutline[] }

function numberOf(index: number): string {
  return String(index + 1).padStart(4, '0')
}

function outlineStories({ scenario, calendar, people }: Input, random: Random): Outline[] {
  const { slug, stories } = scenario
  const ids = storyEntityIds(stories.entities)
  return stories.findings.map((story, index): Outline => {
    const { entities, daysAgo, owner, repeats, plans, acceptedForDays, ...same } = story
    const repeated = repeats === undefined ? -1 : stories.findings.findIndex(({ title }) => title === repeats)
    return {
      id: uuidOf(`${slug} finding ${numberOf(index)}`),
      external_id: `AUD-${numberOf(index)}`,
      ...same,
      entities: entities.map((key) => ids.get(key) ?? ''),
      owner: { email: owner },
      age: daysAgo,
      end: same.status === 'closed' ? Math.max(2, daysAgo - 95) : 2,
      targetOn: calendar.date(daysAgo - targetDays[same.severity]),
      acceptedForDays,
      repeatOf: repeated === -1 ? null : uuidOf(`${slug} finding ${numberOf(repeated)}`),
      validator: random.pick(people.validators),
      ...(plans === undefined ? {} : { plans }),
    }
  })
}

function makeOutlines(
  { scenario, calendar, people, entities }: Input,
  ofStories: readonly Outline[],
  random: Random,
): Outline[] {
  const { topics } = scenario.vocabulary
  const counts = scenario.counts.findings
  const rest = <T extends string>(all: readonly (readonly [T, number])[], of: (outline: Outline) => T): T[] =>
    random.shuffled(
      all.flatMap(([value, count]) =>
        Array.from(
          { length: Math.max(0, count - ofStories.filter((outline) => of(outline) === value).length) },
          () => value,
        ),
      ),
    )
  const shares = apportion(counts.all, severityShares)
  const severity = rest(
    severities.map((name, index) => [name, shares[index] ?? 0] as const),
    (outline) => outline.severity,
  )
  const { closed, riskAccepted, drafts, cancelled, pendingValidation, open } = counts
  const inRemediation = counts.all - closed - riskAccepted - drafts - cancelled - pendingValidation - open
  const status = rest<Status>(
    [
      ['closed', closed],
      ['risk_accepted', riskAccepted],
      ['draft', drafts],
      ['cancelled', cancelled],
      ['pending_validation', pendingValidation],
      ['open', open],
      ['in_remediation', inRemediation],
    ],
    (outline) => outline.status,
  )
  let overdueLeft = counts.overdue - ofStories.filter((outline) => isOverdue(outline, calendar)).length
  let accepted = 0
  return severity.map((level, at): Outline => {
    const index = ofStories.length + at
    const state = memberOf(status, at)
    const canBeOverdue = state === 'open' || state === 'in_remediation' || state === 'pending_validation'
    const late = canBeOverdue && overdueLeft > 0
    if (late) overdueLeft -= 1
    const { age, end } = agesOf(state, targetDays[level], late, random)
    const topic = memberOf(topics, random.int(0, topics.length - 1))
    const entity = memberOf(entities, random.int(1, entities.length - 1))
    const owner = random.pick(people.owners)
    if (state === 'risk_accepted') accepted += 1
    return {
      id: uuidOf(`${scenario.slug} finding ${numberOf(index)}`),
      external_id: `AUD-${numberOf(index)}`,
      title: `${topic.title}: ${entity.name}`,
      condition: topic.condition,
      criteria: topic.criteria,
      cause: topic.cause,
      consequence: topic.consequence,
      corrective_action: topic.action,
      cause_category: topic.category,
      severity: level,
      type: topic.type,
      source: random.pick(sources),
      engagement_ref: engagementOf(index),
      status: state,
      entities: [entity.external_id],
      owner,
      age,
      end,
      targetOn: calendar.date(age - targetDays[level]),
      acceptedForDays: accepted === 1 ? 0 : random.int(60, 600),
      repeatOf: null,
      validator: random.pick(people.validators),
    }
  })
}

const sources = [
  'internal_audit',
  'internal_audit',
  'internal_audit',
  'external_audit',
  'self_identified',
  'monitoring',
] as const

function isOverdue({ status, targetOn }: Outline, calendar: Calendar): boolean {
  return !finished.has(status) && calendar.daysAgo(targetOn) > 0
}

/** Days since identification and since the last event. */
function agesOf(status: Status, target: number, late: boolean, random: Random): { age: number; end: number } {
  if (late) return { age: target + random.int(5, 120), end: random.int(1, 4) }
  switch (status) {
    case 'closed': {
      const age = random.int(150, 900)
      return { age, end: age - random.int(40, Math.min(age - 5, 300)) }
    }
    case 'risk_accepted':
      return { age: random.int(60, 300), end: random.int(3, 30) }
    case 'cancelled':
      return { age: random.int(30, 200), end: random.int(5, 25) }
    case 'draft':
      return { age: random.int(2, 9), end: 1 }
    case 'open':
      return { age: random.int(3, target - 2), end: 1 }
    case 'in_remediation':
    case 'pending_validation':
      return { age: random.int(18, target - 2), end: random.int(1, 4) }
    default:
      return status satisfies never
  }
}

function findRepeats({ scenario }: Input, outlines: readonly Outline[], random: Random): Outline[] {
  const closed = outlines.filter(({ status, repeatOf }) => status === 'closed' && repeatOf === null)
  let left = scenario.counts.findings.repeats - outlines.filter(({ repeatOf }) => repeatOf !== null).length
  const order = random.shuffled(outlines.filter((outline) => isMade(outline) && !finished.has(outline.status)))
  const repeats = new Map<string, Outline>()
  for (const outline of order) {
    if (left === 0) break
    const before = closed.filter(({ end }) => end > outline.age + 3)
    if (before.length === 0) continue
    repeats.set(outline.id, random.pick(before))
    left -= 1
  }
  return outlines.map((outline): Outline => {
    const original = repeats.get(outline.id)
    if (original === undefined) return outline
    const { title, condition, criteria, cause, consequence, corrective_action, entities, type } = original
    const same = { title, condition, criteria, cause, consequence, corrective_action, entities, type }
    return { ...outline, ...same, cause_category: original.cause_category, repeatOf: original.id }
  })
}

function isMade({ plans, owner }: Outline): boolean {
  return plans === undefined && owner.name !== undefined
}

function addPlans(
  { scenario: { counts }, people }: Input,
  outlines: readonly Outline[],
  random: Random,
): FindingPlan[] {
  const eligible = outlines.filter(({ status }) => status !== 'draft' && status !== 'cancelled')
  const recommendations = spread(counts.recommendations, eligible, 3, random)
  const planned = eligible.reduce((sum, { plans }) => sum + (plans?.length ?? 0), 0)
  const free = eligible.filter(({ plans }) => plans === undefined)
  const plans = spread(counts.actionPlans.all - planned, free, 5, random)
  const { extended, blocked } = counts.actionPlans
  const drawn = outlines.map((outline): FindingPlan => ({
    ...outline,
    recommendations: recommendations.get(outline.id) ?? 0,
    plans:
      outline.plans ??
      Array.from({ length: plans.get(outline.id) ?? 0 }, (_none, index): PlanOutline => ({
        status: planStatus(outline.status, index, random),
        extensions: 0,
      })),
  }))
  const all = drawn.flatMap(({ id, plans: own, status }) =>
    own.map((plan, index) => ({ key: `${id} ${index}`, plan, status })),
  )
  const extensible = random.shuffled(all.filter(({ plan }) => plan.extensions === 0 && !unextended.has(plan.status)))
  const missing = extended - all.filter(({ plan }) => plan.extensions > 0).length
  const extensions = new Map(extensible.slice(0, missing).map(({ key }) => [key, random.pick([1, 1, 1, 2, 2, 3])]))
  const moving = all.filter(({ plan, status }) => plan.status === 'in_progress' && status === 'in_remediation')
  const blockedOnes = new Set(moving.slice(0, blocked).map(({ key }) => key))
  const ownersWhoLeft = new Map(
    moving
      .slice(blocked, blocked + people.leavers.length)
      .map(({ key }, index) => [key, memberOf(people.leavers, index)]),
  )
  return drawn.map((finding) => ({
    ...finding,
    plans: finding.plans.map((plan, index): PlanOutline => {
      const key = `${finding.id} ${index}`
      const owner: PersonRef | undefined = ownersWhoLeft.get(key)
      return {
        ...plan,
        status: blockedOnes.has(key) ? 'blocked' : plan.status,
        extensions: extensions.get(key) ?? plan.extensions,
        ...(owner === undefined ? {} : { owner }),
      }
    }),
  }))
}

const unextended: ReadonlySet<ActionPlan['status']> = new Set(['proposed', 'rejected', 'cancelled'])

function spread(whole: number, over: readonly Outline[], most: number, random: Random): Map<string, number> {
  const counts = new Map(over.map(({ id }) => [id, 1]))
  let left = whole - over.length
  while (left > 0) {
    const { id } = random.pick(over)
    const count = counts.get(id) ?? 0
    if (count >= most) continue
    counts.set(id, count + 1)
    left -= 1
  }
  return counts
}

function planStatus(status: Status, index: number, random: Random): ActionPlan['status'] {
  switch (status) {
    case 'closed':
      return 'verified'
    case 'pending_validation':
      return random.pick(['implemented', 'implemented', 'verified'])
    case 'in_remediation':
      return index === 0
        ? random.pick(['in_progress', 'in_progress', 'approved'])
        : random.pick(['in_progress', 'approved', 'implemented', 'proposed', 'cancelled'])
    case 'risk_accepted':
      return 'rejected'
    case 'open':
    case 'draft':
    case 'cancelled':
      return 'proposed'
    default:
      return status satisfies never
  }
}
