import type { Finding, FindingsSummary, SummaryGroup, findingSorts } from '@postern/contracts'
import type { OwnerFilter } from '@postern/contracts/internal'
import type { Statement, Tx } from '@postern/tenant-db'
import {
  type Condition,
  dateOf,
  ownedBy,
  patternOf,
  timeOf,
  conditionIf,
  joinConditions,
} from '../../condition/store.ts'
import { type PageBounds, keysetList } from '../../keyset.ts'
import { jsonText } from '../row.ts'
import type { StoredFinding } from '../rules.ts'

export type FindingSort = (typeof findingSorts)[number]

export interface FindingFilter {
  readonly status?: readonly Finding['status'][] | undefined
  readonly severity?: readonly Finding['severity'][] | undefined
  readonly reference?: readonly string[] | undefined
  readonly entityIds?: readonly string[] | undefined
  readonly updatedSince?: Date | undefined
  readonly type?: readonly Finding['type'][] | undefined
  readonly source?: readonly string[] | undefined
  readonly namedEntityIds?: readonly string[] | undefined
  readonly owner?: OwnerFilter | undefined
  /** Whether the finding is overdue on a day (UTC). */
  readonly overdue?: { readonly is: boolean; readonly on: string } | undefined
  readonly repeat?: boolean | undefined
  readonly identifiedFrom?: string | undefined
  readonly identifiedTo?: string | undefined
  readonly targetAfter?: string | undefined
  readonly targetBefore?: string | undefined
  /** In the title, the five Cs, the reference or the external id; case-insensitive. */
  readonly text?: string | undefined
  readonly externalId?: readonly string[] | undefined
}

export type FindingStamp = Pick<StoredFinding, 'id' | 'created_at' | 'updated_at'>

export async function listFindingStamps(
  tx: Tx,
  filter: FindingFilter,
  bounds: Omit<PageBounds<'created_at'>, 'sort'>,
): Promise<FindingStamp[]> {
  const statement = findingStamps.page({ ...bounds, sort: 'created_at' }, conditionsOf(filter))
  const rows = await tx.query<{ id: string; created_at: Date; updated_at: Date }>(statement)
  return rows.map(({ id, created_at, updated_at }) => ({
    id,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  }))
}

/** Lists findings as JSON, as of `today` (UTC). PostgreSQL builds it faster. */
export async function listFindingTexts(
  tx: Tx,
  filter: FindingFilter,
  bounds: PageBounds<FindingSort>,
  today: string,
): Promise<string[]> {
  const rows = await tx.query<{ json: string }>(findingList.page(bounds, conditionsOf(filter), [today]))
  return rows.map(({ json }) => json)
}

export async function countFindings(tx: Tx, filter: FindingFilter): Promise<number> {
  const { text, values } = joinConditions(conditionsOf(filter))
  const rows = await tx.query<{ total: number }>({
    text: `select count(*)::integer as total from findings.finding t where ${text}`,
    values,
  })
  return rows[0]?.total ?? 0
}

/** `today` (UTC) decides age and overdue. */
export async function summarizeFindings(
  tx: Tx,
  filter: FindingFilter,
  groupBy: SummaryGroup,
  today: string,
): Promise<FindingsSummary> {
  const rows = await tx.query<
    { key: string | null; total: number; overdue: number } & Record<Finding['severity'], number>
  >(summaryBy(groups[groupBy], joinConditions(conditionsOf(filter), 2), today))
  return rows.map(({ key, total, overdue, ...by_severity }) => ({ key, total, overdue, by_severity }))
}

// Text conditions scan rows, because LIKE is not leakproof and cannot use an index under row-level security.
function conditionsOf(filter: FindingFilter): Condition[] {
  return [
    ...conditionIf(filter.status, (p) => `t.status = any(${p}::text[])`),
    ...conditionIf(filter.severity, (p) => `t.severity = any(${p}::text[])`),
    ...conditionIf(timeOf(filter.updatedSince), (p) => `t.updated_at >= ${p}::timestamptz`),
    ...conditionIf(filter.type, (p) => `t.type = any(${p}::text[])`),
    ...conditionIf(filter.source, (p) => `t.source = any(${p}::text[])`),
    ...conditionIf(filter.namedEntityIds, concernsEntity),
    ...conditionIf(filter.entityIds, concernsEntity),
    ...ownedBy(filter.owner),
    ...(filter.overdue === undefined ? [] : [overdueCondition(filter.overdue)]),
    ...conditionIf(filter.repeat, (p) => `${p}::boolean = (t.repeat_of_id is not null)`),
    ...conditionIf(dateOf(filter.identifiedFrom), (p) => `t.identified_on >= ${p}::date`),
    ...conditionIf(dateOf(filter.identifiedTo), (p) => `t.identified_on <= ${p}::date`),
    ...conditionIf(dateOf(filter.targetAfter), (p) => `t.target_on > ${p}::date`),
    ...conditionIf(dateOf(filter.targetBefore), (p) => `t.target_on < ${p}::date`),
    ...conditionIf(
      patternOf(filter.text),
      (p) =>
        `(t.title ilike ${p}::text or t.condition ilike ${p} or t.criteria ilike ${p} or t.cause ilike ${p}
          or t.consequence ilike ${p} or t.corrective_action ilike ${p} or t.reference ilike ${p}
          or t.external_id ilike ${p})`,
    ),
    ...conditionIf(filter.externalId, (p) => `t.external_id = any(${p}::text[])`),
    ...conditionIf(filter.reference, (p) => `t.reference = any(${p}::text[])`),
  ]
}

function concernsEntity(ids: string): string {
  return `t.id = any(array(select link.finding_id from findings.finding_entity link where link.entity_id = any(${ids}::uuid[])))`
}

function isOverdueOn(day: string): string {
  return `(t.target_on < ${day}::date and t.status not in ('closed', 'risk_accepted', 'cancelled'))`
}

function overdueCondition({ is, on }: NonNullable<FindingFilter['overdue']>): Condition {
  return { values: [is, on], sql: (isOverdue, day = '') => `${isOverdue}::boolean = ${isOverdueOn(day)}` }
}

const severityRanks: Readonly<Record<Finding['severity'], number>> = { critical: 4, high: 3, medium: 2, low: 1 }

type Sorted = Pick<StoredFinding, 'id' | 'created_at' | 'updated_at' | 'target_date' | 'severity'>

const byCreation = {
  columns: [{ column: 'created_at', type: 'timestamptz' }],
  valuesOf: (f: Pick<Sorted, 'created_at'>) => [f.created_at],
} as const
const byChange = {
  columns: [{ column: 'updated_at', type: 'timestamptz' }],
  valuesOf: (f: Sorted) => [f.updated_at],
} as const
const byTarget = {
  columns: [{ column: 'target_on', type: 'date' }],
  valuesOf: (f: Sorted) => [f.target_date ?? ''],
} as const
const bySeverity = {
  columns: [{ column: 'severity_rank', type: 'smallint' }],
  valuesOf: (f: Sorted) => [severityRanks[f.severity]],
} as const
const bySeverityAndTarget = {
  columns: [
    { column: 'severity_order', type: 'smallint' },
    { column: 'target_on', type: 'date' },
  ],
  valuesOf: (f: Sorted) => [5 - severityRanks[f.severity], f.target_date ?? ''],
} as const

const orders = {
  '-created_at': { ...byCreation, direction: 'desc' },
  created_at: { ...byCreation, direction: 'asc' },
  '-updated_at': { ...byChange, direction: 'desc' },
  updated_at: { ...byChange, direction: 'asc' },
  target_date: { ...byTarget, direction: 'asc' },
  '-target_date': { ...byTarget, direction: 'desc' },
  '-severity': { ...bySeverity, direction: 'desc' },
  severity: { ...bySeverity, direction: 'asc' },
  '-severity,target_date': { ...bySeverityAndTarget, direction: 'asc' },
  'severity,-target_date': { ...bySeverityAndTarget, direction: 'desc' },
} as const

/** Returns the same content as `asRead` on the day `$1`. */
export const findingList = keysetList<FindingSort, Sorted>({
  name: 'findings_list',
  select: `select ${jsonText} as json from findings.finding t`,
  orders,
})

export const findingStamps = keysetList<'created_at', FindingStamp>({
  name: 'findings_stamps',
  select: `select t.id, t.created_at, t.updated_at from findings.finding t`,
  orders: { created_at: { ...byCreation, direction: 'asc' } },
})

const ageOf = '(coalesce(t.closed_on, $1::date) - t.identified_on)'

interface Grouping {
  readonly key: string
  readonly join?: string
}

/** Unnamed, so that PostgreSQL plans it for the filter. */
function summaryBy({ key, join = '' }: Grouping, where: ReturnType<typeof joinConditions>, today: string): Statement {
  const text = `select ${key} as key, count(*)::integer as total,
      count(*) filter (where ${isOverdueOn('$1')})::integer as overdue,
      count(*) filter (where t.severity = 'critical')::integer as critical,
      count(*) filter (where t.severity = 'high')::integer as high,
      count(*) filter (where t.severity = 'medium')::integer as medium,
      count(*) filter (where t.severity = 'low')::integer as low
    from findings.finding t ${join}
    where ${where.text}
    group by 1
    order by 2 desc, 1
    limit 1000`
  return { text, values: [today, ...where.values] }
}

const groups: Readonly<Record<SummaryGroup, Grouping>> = {
  severity: { key: 't.severity' },
  status: { key: 't.status' },
  entity: {
    key: 'named.entity_id::text',
    join: 'left join findings.finding_entity named on named.tenant_id = t.tenant_id and named.finding_id = t.id',
  },
  owner: { key: `coalesce(t.owner ->> 'person_id', lower(t.owner ->> 'email'), t.owner ->> 'name')` },
  age_bucket: {
    key: `case
      when ${ageOf} <= 30 then '0-30'
      when ${ageOf} <= 90 then '31-90'
      when ${ageOf} <= 180 then '91-180'
      when ${ageOf} <= 365 then '181-365'
      else '366+'
    end`,
  },
}
