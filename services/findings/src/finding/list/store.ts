import type { Finding, FindingsSummary, SummaryGroup, findingSorts } from '@postern/contracts'
import type { Statement, Tx } from '@postern/tenant-db'
import {
  type Condition,
  type PageBounds,
  dateOf,
  keysetList,
  ownedBy,
  patternOf,
  timeOf,
  when,
  written,
} from '../../keyset.ts'
import { jsonText } from '../row.ts'
import type { StoredFinding } from '../rules.ts'

export type FindingSort = (typeof findingSorts)[number]

/** Which findings a list holds; what is undefined does not narrow. */
export interface FindingFilter {
  readonly status?: readonly Finding['status'][] | undefined
  readonly severity?: readonly Finding['severity'][] | undefined
  readonly reference?: readonly string[] | undefined
  /** Concerning one of these entities. */
  readonly entityIds?: readonly string[] | undefined
  /** Changed at this time or later. */
  readonly updatedSince?: Date | undefined
  readonly type?: readonly Finding['type'][] | undefined
  readonly source?: readonly string[] | undefined
  /** Concerning one of these entities, and of those above. */
  readonly namedEntityIds?: readonly string[] | undefined
  /** Ids, e-mail addresses or names, one of which is the owner's. */
  readonly owner?: readonly string[] | undefined
  /** Missed the target date on the day (UTC), or did not. */
  readonly overdue?: { readonly is: boolean; readonly on: string } | undefined
  readonly repeat?: boolean | undefined
  readonly identifiedFrom?: string | undefined
  readonly identifiedTo?: string | undefined
  readonly targetAfter?: string | undefined
  readonly targetBefore?: string | undefined
  /** Stands somewhere in the title, one of the five Cs, the reference or the external id, in any case. */
  readonly text?: string | undefined
  readonly externalId?: readonly string[] | undefined
}

/** What a list of findings is chosen by before its texts are read. */
export type FindingStamp = Pick<StoredFinding, 'id' | 'created_at' | 'updated_at'>

/** Lists which findings there are, in the order of creation, ties by id. */
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

/**
 * Lists findings in the order of the sort, ties by id, as they are read on a day, each as a text of JSON. PostgreSQL writes it in less time than it takes to
 * read the columns here, make a finding of them and write that.
 */
export async function listFindingTexts(
  tx: Tx,
  filter: FindingFilter,
  bounds: PageBounds<FindingSort>,
  today: string,
): Promise<string[]> {
  const rows = await tx.query<{ json: string }>(findingList.page(bounds, conditionsOf(filter), [today]))
  return rows.map(({ json }) => json)
}

/** How many findings the filter leaves. Reads the tenant's findings once; asked for explicitly (`count=true`). */
export async function countFindings(tx: Tx, filter: FindingFilter): Promise<number> {
  const { text, values } = written(conditionsOf(filter))
  const rows = await tx.query<{ total: number }>({
    text: `select count(*)::integer as total from findings.finding t where ${text}`,
    values,
  })
  return rows[0]?.total ?? 0
}

/** Counts what the filter leaves, by groups, the largest first. `today` decides what is overdue, and how old. */
export async function summarizeFindings(
  tx: Tx,
  filter: FindingFilter,
  groupBy: SummaryGroup,
  today: string,
): Promise<FindingsSummary> {
  const rows = await tx.query<
    { key: string | null; total: number; overdue: number } & Record<Finding['severity'], number>
  >(summaryBy(groups[groupBy], written(conditionsOf(filter), 2), today))
  return rows.map(({ key, total, overdue, ...by_severity }) => ({ key, total, overdue, by_severity }))
}

// An entity's findings are looked up first (finding_entity_by_entity), not one by one. Texts are read row by row in the
// order of the list: under row security no index on trigrams can be used, because LIKE is not leakproof.
function conditionsOf(filter: FindingFilter): Condition[] {
  return [
    ...when(filter.status, (p) => `t.status = any(${p}::text[])`),
    ...when(filter.severity, (p) => `t.severity = any(${p}::text[])`),
    ...when(timeOf(filter.updatedSince), (p) => `t.updated_at >= ${p}::timestamptz`),
    ...when(filter.type, (p) => `t.type = any(${p}::text[])`),
    ...when(filter.source, (p) => `t.source = any(${p}::text[])`),
    ...when(filter.namedEntityIds, concerning),
    ...when(filter.entityIds, concerning),
    ...when(filter.owner, ownedBy),
    ...(filter.overdue === undefined ? [] : [missed(filter.overdue)]),
    ...when(filter.repeat, (p) => `${p}::boolean = (t.repeat_of_id is not null)`),
    ...when(dateOf(filter.identifiedFrom), (p) => `t.identified_on >= ${p}::date`),
    ...when(dateOf(filter.identifiedTo), (p) => `t.identified_on <= ${p}::date`),
    ...when(dateOf(filter.targetAfter), (p) => `t.target_on > ${p}::date`),
    ...when(dateOf(filter.targetBefore), (p) => `t.target_on < ${p}::date`),
    ...when(
      patternOf(filter.text),
      (p) =>
        `(t.title ilike ${p}::text or t.condition ilike ${p} or t.criteria ilike ${p} or t.cause ilike ${p}
          or t.consequence ilike ${p} or t.corrective_action ilike ${p} or t.reference ilike ${p}
          or t.external_id ilike ${p})`,
    ),
    ...when(filter.externalId, (p) => `t.external_id = any(${p}::text[])`),
    ...when(filter.reference, (p) => `t.reference = any(${p}::text[])`),
  ]
}

function concerning(ids: string): string {
  return `t.id = any(array(select link.finding_id from findings.finding_entity link where link.entity_id = any(${ids}::uuid[])))`
}

function missedOn(day: string): string {
  return `(t.target_on < ${day}::date and t.status not in ('closed', 'risk_accepted', 'cancelled'))`
}

function missed({ is, on }: NonNullable<FindingFilter['overdue']>): Condition {
  return { values: [is, on], sql: (isOverdue, day = '') => `${isOverdue}::boolean = ${missedOn(day)}` }
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

/**
 * Lists of findings as texts of JSON; `$1` is the day of the reading. They hold what `asRead` makes of a finding. Indexes:
 * finding_by_created_at, _by_updated_at, _by_target_on, _by_severity, _by_severity_and_target.
 */
export const findingList = keysetList<FindingSort, Sorted>({
  name: 'findings_list',
  select: `select ${jsonText} as json from findings.finding t`,
  orders,
})

/** Which findings there are, in the order of creation. */
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

/** Reads what the filter leaves of the tenant's findings once. Not by name: planned for the filter that is used. */
function summaryBy({ key, join = '' }: Grouping, where: ReturnType<typeof written>, today: string): Statement {
  const text = `select ${key} as key, count(*)::integer as total,
      count(*) filter (where ${missedOn('$1')})::integer as overdue,
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
  owner: { key: `coalesce(lower(t.owner ->> 'email'), t.owner ->> 'name', t.owner ->> 'person_id')` },
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
