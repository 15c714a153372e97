import type { DemoEntry, DemoFinding, DemoPlan, DemoRecommendation } from './finding.ts'
import { needsEvidence } from './finding.ts'
import { type Random, memberOf } from './random.ts'

type FindingWithoutLog = Omit<DemoFinding, 'log'>

export function fillLog(findings: readonly FindingWithoutLog[], entries: number, random: Random): DemoFinding[] {
  const logs = findings.map(entriesOf)
  const talked = findings.flatMap(({ status }, index) => (status === 'draft' ? [] : [index]))
  let left = entries - logs.reduce((sum, log) => sum + log.length, 0)
  while (left > 0) {
    const index = random.pick(talked)
    const log = logs[index] ?? []
    const [first, last] = [log[0]?.at.getTime() ?? 0, log.at(-1)?.at.getTime() ?? 0]
    const { owner } = memberOf(findings, index)
    log.push({
      ...silent,
      at: new Date(first + Math.floor(((last - first) * random.int(1, 999)) / 1000)),
      kind: 'note',
      body: random.pick(notes),
      onBehalfOf: owner.name ?? owner.email ?? null,
    })
    left -= 1
  }
  return findings.map((finding, index) => ({
    ...finding,
    log: (logs[index] ?? []).toSorted((one, other) => one.at.getTime() - other.at.getTime()),
  }))
}

const notes = [
  'Spoke with the owner: on track.',
  'Sample drawn; the first results are expected next week.',
  'Asked for the missing documents.',
  'The committee received a status report.',
  'Test environment is ready.',
  'Resources confirmed for the coming month.',
  'Reminder sent; answer promised by Friday.',
  'Walkthrough held, minutes filed with the evidence.',
] as const

const silent: Omit<DemoEntry, 'at' | 'kind'> = {
  planId: null,
  recommendationId: null,
  body: null,
  changes: [],
  evidence: null,
  onBehalfOf: null,
}

function entriesOf(finding: FindingWithoutLog): DemoEntry[] {
  const first = finding.status === 'draft' ? 'draft' : 'open'
  const entries: DemoEntry[] = [
    {
      ...silent,
      at: finding.createdAt,
      kind: 'created',
      changes: [
        change('status', null, first),
        change('severity', null, finding.severity),
        change('owner', null, finding.owner),
        change('target_date', null, finding.targetOn),
      ],
    },
    ...finding.recommendations.flatMap(entriesOfRecommendation),
    ...finding.plans.flatMap((plan) => entriesOfPlan(plan, finding)),
  ]
  let from: string = first
  for (const { at, to, note, by, acceptedUntil } of finding.moves) {
    const acceptance = acceptedUntil === null ? [] : [change('accepted_until', null, acceptedUntil)]
    const person = by === null ? [] : [change(to === 'closed' ? 'validated_by' : 'accepted_by', null, by)]
    entries.push({
      ...silent,
      at,
      kind: to === 'closed' ? 'validation' : 'status_change',
      body: note,
      changes: [change('status', from, to), ...acceptance, ...person],
      evidence: to === 'closed' && needsEvidence(finding) ? placeOf(finding) : null,
    })
    from = to
  }
  return entries.toSorted((one, other) => one.at.getTime() - other.at.getTime())
}

function entriesOfRecommendation({ id, createdAt, moves }: DemoRecommendation): DemoEntry[] {
  const about = { ...silent, recommendationId: id }
  let from = 'submitted'
  return [
    { ...about, at: createdAt, kind: 'created', changes: [change('status', null, from)] },
    ...moves.map(({ at, to, rationale }): DemoEntry => {
      const entry: DemoEntry = {
        ...about,
        at,
        kind: 'status_change',
        body: rationale,
        changes: [change('status', from, to)],
      }
      from = to
      return entry
    }),
  ]
}

function entriesOfPlan(
  { id, createdAt, owner, dueOn, extensions, moves }: DemoPlan,
  finding: FindingWithoutLog,
): DemoEntry[] {
  const about = { ...silent, planId: id }
  let [from, percent] = ['proposed', 0]
  return [
    {
      ...about,
      at: createdAt,
      kind: 'created',
      changes: [change('status', null, from), change('owner', null, owner), change('due_date', null, dueOn)],
    },
    ...extensions.map((extension): DemoEntry => ({
      ...about,
      at: extension.at,
      kind: 'due_date_change',
      body: extension.reason,
      changes: [
        change('due_date', extension.from, extension.to),
        change('extension_approved_by', null, extension.approvedBy),
      ],
    })),
    ...moves.map((move): DemoEntry => {
      const entry: DemoEntry = {
        ...about,
        at: move.at,
        kind: move.to === 'verified' ? 'validation' : 'status_change',
        body: move.note,
        changes: [
          change('status', from, move.to),
          ...(move.percent === percent ? [] : [change('percent_complete', percent, move.percent)]),
          ...(move.verifiedBy === null ? [] : [change('verified_by', null, move.verifiedBy)]),
        ],
        evidence: move.to === 'verified' && needsEvidence(finding) ? placeOf(finding) + 1 : null,
      }
      from = move.to
      percent = move.percent
      return entry
    }),
  ]
}

function change(field: string, from: unknown, to: unknown): DemoEntry['changes'][number] {
  return { field, from, to }
}

function placeOf({ external_id }: Pick<DemoFinding, 'external_id'>): number {
  return Number(external_id.slice(external_id.lastIndexOf('-') + 1)) * 2
}
