import type {
  ActionPlan,
  EvidenceRef,
  Finding,
  LogEntry,
  PersonRef,
  PoamFinding,
  PoamItem,
  PoamLogEntry,
  PoamMetadata,
  PoamObservation,
  PoamParty,
  PoamResponse,
  PoamRisk,
  PoamRiskStatus,
  Recommendation,
} from '@postern/contracts'
import { oscalVersion } from '@postern/contracts'
import type { StoredFinding } from '../finding/rules.ts'
import {
  endOf,
  isWritable,
  escapeMarkup,
  markupLine,
  namespace,
  toOneLine,
  oscalUuid,
  personKey,
  properties,
  startOf,
  writableTime,
} from './oscal.ts'

export type PoamRecommendation = Pick<
  Recommendation,
  'id' | 'reference' | 'finding_id' | 'text' | 'priority' | 'response' | 'response_rationale' | 'status'
>

export type PoamPlan = Pick<
  ActionPlan,
  | 'id'
  | 'reference'
  | 'finding_id'
  | 'title'
  | 'description'
  | 'owner'
  | 'due_date'
  | 'original_due_date'
  | 'extension_count'
  | 'percent_complete'
  | 'status'
  | 'completed_date'
  | 'verified_date'
>

export type PoamEntry = Omit<LogEntry, 'hash'>

export const poamStatuses = ['open', 'in_remediation', 'pending_validation', 'risk_accepted', 'closed'] as const

export interface PoamMaker {
  metadata(lastModified: string): PoamMetadata
  /** Call it before `metadata`. */
  addParty(person: PersonRef): void
  observation(finding: StoredFinding, evidence: readonly EvidenceRef[]): PoamObservation
  risk(finding: StoredFinding, parts: RiskParts): PoamRisk
  /** `responses` are the ids that the entry may reference. */
  logEntry(entry: PoamEntry, responses: ReadonlySet<string>): PoamLogEntry
  finding(finding: StoredFinding): PoamFinding
  item(finding: StoredFinding): PoamItem
  readonly uuid: string
  readonly systemId: { readonly 'identifier-type': string; readonly id: string }
}

export interface RiskParts {
  readonly recommendations: readonly PoamRecommendation[]
  readonly plans: readonly PoamPlan[]
}

/** `selection` distinguishes documents about different findings. */
export function createPoamMaker(tenantId: string, selection: string): PoamMaker {
  const uuid = (name: string) => oscalUuid(tenantId, name)
  const parties = new Map<string, PoamParty>()
  const organization = uuid('organization')

  const related = ({ id }: StoredFinding) => ({
    observations: [{ 'observation-uuid': uuid(`observation:${id}`) }],
    risks: [{ 'risk-uuid': uuid(`risk:${id}`) }],
  })

  const milestone = (plan: PoamPlan) => {
    const due = endOf(plan.due_date)
    const owner = parties.get(personKey(plan.owner))
    return {
      uuid: uuid(`task:${plan.id}`),
      type: 'milestone' as const,
      title: markupLine(plan.title),
      props: properties({
        reference: plan.reference,
        status: plan.status,
        'percent-complete': plan.percent_complete,
        'original-due-date': plan.original_due_date,
        'extension-count': plan.extension_count,
        'completed-date': plan.completed_date,
        'verified-date': plan.verified_date,
      }),
      ...(due === undefined ? {} : { timing: { 'on-date': { date: due } } }),
      ...(owner === undefined ? {} : { 'responsible-roles': [{ 'role-id': 'owner', 'party-uuids': [owner.uuid] }] }),
    }
  }

  const ofRecommendation = (made: PoamRecommendation): PoamResponse => ({
    uuid: uuid(made.id),
    lifecycle: 'recommendation',
    title: markupLine(`Recommendation ${made.reference}`),
    description: escapeMarkup(made.text),
    props: properties({
      reference: made.reference,
      priority: made.priority,
      response: made.response,
      status: made.status,
    }),
    ...(made.response_rationale === null ? {} : { remarks: escapeMarkup(made.response_rationale) }),
  })

  const ofPlan = (plan: PoamPlan): PoamResponse => ({
    uuid: uuid(plan.id),
    lifecycle: isDone(plan.status) ? 'completed' : 'planned',
    title: markupLine(plan.title),
    description: escapeMarkup(plan.description ?? plan.title),
    props: properties({ reference: plan.reference, status: plan.status }),
    tasks: [milestone(plan)],
  })

  return {
    uuid: uuid(`poam:${selection}`),
    systemId: { 'identifier-type': 'https://ietf.org/rfc/rfc4122', id: uuid('system') },
    addParty: (person) => {
      const key = personKey(person)
      if (!parties.has(key)) parties.set(key, partyOf(uuid(key), person))
    },
    metadata: (lastModified) => ({
      title: 'Plan of action and milestones',
      'last-modified': lastModified,
      version: lastModified,
      'oscal-version': oscalVersion,
      roles: [{ id: 'owner', title: 'Owner of an action plan' }],
      parties: [
        { uuid: organization, type: 'organization', remarks: 'The organization whose findings these are.' },
        ...parties.values(),
      ],
    }),
    observation: (finding, evidence) => ({
      uuid: uuid(`observation:${finding.id}`),
      title: markupLine(finding.title),
      description: escapeMarkup(finding.condition),
      props: properties({ reference: finding.reference, 'test-procedure-id': finding.test_procedure_id }),
      methods: ['UNKNOWN'],
      types: ['discovery'],
      ...(evidence.length === 0
        ? {}
        : {
            'relevant-evidence': evidence.map(({ evidence_id, sha256, size }) => ({
              description: `Evidence ${evidence_id}, ${size} bytes`,
              props: properties({ 'evidence-id': evidence_id, sha256, size }),
            })),
          }),
      collected: startOf(finding.identified_date) ?? finding.created_at,
    }),
    risk: (finding, { recommendations, plans }) => {
      const remediations = [...recommendations.map(ofRecommendation), ...plans.map(ofPlan)]
      const deadline = finding.target_date === null ? undefined : endOf(finding.target_date)
      return {
        uuid: uuid(`risk:${finding.id}`),
        title: markupLine(finding.title),
        description: escapeMarkup(finding.condition),
        statement: escapeMarkup(finding.consequence ?? finding.condition),
        props: properties({ reference: finding.reference, 'accepted-until': finding.accepted_until }),
        status: riskStatuses[finding.status],
        characterizations: [
          {
            origin: { actors: [{ type: 'party', 'actor-uuid': organization }] },
            facets: [{ name: 'severity', system: namespace, value: finding.severity }],
          },
        ],
        ...(deadline === undefined ? {} : { deadline }),
        ...(remediations.length === 0 ? {} : { remediations }),
        'related-observations': related(finding).observations,
      }
    },
    logEntry: (entry, responses) => {
      const about = entry.action_plan_id ?? entry.recommendation_id
      const response = about !== null && responses.has(about) ? about : undefined
      const moved = newStatusOf(entry)
      return {
        uuid: uuid(`log:${entry.finding_id}:${entry.seq}`),
        title: markupLine(entry.kind.replaceAll('_', ' ')),
        ...(entry.body === null ? {} : { description: escapeMarkup(entry.body) }),
        start: isWritable(entry.occurred_at) ? writableTime(entry.occurred_at) : entry.recorded_at,
        props: properties({
          seq: entry.seq,
          kind: entry.kind,
          'recorded-at': entry.recorded_at,
          'logged-by': entry.actor.label,
          'on-behalf-of': entry.on_behalf_of,
        }),
        ...(moved === undefined ? {} : { 'status-change': riskStatuses[moved] }),
        ...(response === undefined ? {} : { 'related-responses': [{ 'response-uuid': uuid(response) }] }),
      }
    },
    finding: (finding) => {
      const { observations, risks } = related(finding)
      const [subject] = finding.entity_ids
      const isClosed = finding.status === 'closed'
      return {
        uuid: uuid(finding.id),
        title: markupLine(finding.title),
        description: escapeMarkup(finding.condition),
        props: [
          ...properties({
            reference: finding.reference,
            status: finding.status,
            severity: finding.severity,
            type: finding.type,
            'external-id': finding.external_id,
            source: finding.source,
            'cause-category': finding.cause_category,
            'deficiency-class': finding.deficiency_class,
            'repeats-finding': finding.repeat_of_id === null ? null : uuid(finding.repeat_of_id),
          }),
          ...finding.entity_ids.flatMap((id) => properties({ 'entity-id': id })),
        ],
        target: {
          type: 'objective-id',
          'target-id': subject === undefined ? `finding-${finding.id}` : `entity-${subject}`,
          ...(finding.criteria === null ? {} : { description: escapeMarkup(finding.criteria) }),
          status: {
            state: isClosed ? 'satisfied' : 'not-satisfied',
            reason: isClosed ? 'pass' : finding.status === 'risk_accepted' ? 'other' : 'fail',
          },
        },
        'related-observations': observations,
        'related-risks': risks,
        ...(finding.cause === null ? {} : { remarks: escapeMarkup(finding.cause) }),
      }
    },
    item: (finding) => {
      const { observations, risks } = related(finding)
      return {
        uuid: uuid(`poam-item:${finding.id}`),
        title: markupLine(finding.title),
        description: escapeMarkup(finding.condition),
        props: properties({ reference: finding.reference, status: finding.status, severity: finding.severity }),
        'related-findings': [{ 'finding-uuid': uuid(finding.id) }],
        'related-observations': observations,
        'related-risks': risks,
        ...(finding.corrective_action === null ? {} : { remarks: escapeMarkup(finding.corrective_action) }),
      }
    },
  }
}

const riskStatuses: Readonly<Record<Finding['status'], PoamRiskStatus>> = {
  draft: 'investigating',
  open: 'open',
  in_remediation: 'remediating',
  pending_validation: 'remediating',
  risk_accepted: 'deviation-approved',
  closed: 'closed',
  cancelled: 'closed',
}

/** Ignores moves of plans, whose statuses have other names, except `cancelled`. */
function newStatusOf({ changes }: PoamEntry): Finding['status'] | undefined {
  const { from, to } = changes.find(({ field }) => field === 'status') ?? {}
  return isFindingStatus(to) && (from === null || isFindingStatus(from)) ? to : undefined
}

function isFindingStatus(value: unknown): value is Finding['status'] {
  return typeof value === 'string' && value in riskStatuses
}

function isDone(status: ActionPlan['status']): boolean {
  return status === 'implemented' || status === 'verified'
}

function partyOf(uuid: string, { email, name }: PersonRef): PoamParty {
  const shown = name === undefined ? undefined : toOneLine(name)
  return {
    uuid,
    type: 'person',
    ...(shown === undefined ? {} : { name: shown }),
    ...(email === undefined ? {} : addressOf(email)),
  }
}

/** NIST's schema accepts only ASCII addresses, so others become a remark. */
function addressOf(email: string): Pick<PoamParty, 'email-addresses' | 'remarks'> {
  return /^[!-~]+$/.test(email) ? { 'email-addresses': [email] } : { remarks: escapeMarkup(`E-mail: ${email}`) }
}
