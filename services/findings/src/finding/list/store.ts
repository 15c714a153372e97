import type { Finding, FindingsSummary, SummaryGroup, findingSorts } from '@postern/contracts'
import { findingStatuses, severities } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import { type PageBounds, dateOrNull, keysetList, patternOf, statement, timeOrInfinity } from '../../keyset.ts'
import { type FindingRow, columns, toFinding } from '../row.ts'
import type { StoredFinding } from '../rules.ts'

export type FindingSort = (typeof findingSorts)[number]

/** Which findings a list holds; what is undefined does not narrow. */
export interface FindingFilter {
  readonly status?: readonly Finding['status'][] | undefined
  readonly severity?: readonly Finding['severity'][] | undefined
  readonly reference?: string | undefined
  /** Concerning one of these entities. */
  readonly entityIds?: readonly string[] | undefined
  /** Changed at this time or later. */
  readonly updatedSince?: Date | undefined
  readonly type?: readonly Finding['type'][] | undefined
  readonly source?: readonly string[] | undefined
  /** Concerning this entity. */
  readonly entityId?: string | undefined
  /** Id, e-mail address or name of the owner. */
  readonly owner?: string | undefined
  /** Missed the target date on the day (UTC), or did not. */
  readonly overdue?: { readonly is: boolean; readonly on: string } | undefined
  readonly repeat?: boolean | undefined
  readonly identifiedFrom?: string | undefined
  readonly identifiedTo?: string | undefined
  readonly targetAfter?: string | undefined
  readonly targetBefore?: string | undefined
  /** Stands somewhere in the title, the condition, the reference or the external id, in any case. */
  readonly text?: string | undefined
  readonly externalId?: string | undefined
}

/** Lists findings in the order of the sort, ties by id. */
export async function listFindings(
  tx: Tx,
  filter: FindingFilter,
  bounds: PageBounds<FindingSort>,
): Promise<StoredFinding[]> {
  const rows = await tx.query<FindingRow>(findingList.page(bounds, filterValues(filter), isPlain(filter)))
  return rows.map(toFinding)
}

/** How many findings the filter leaves. */
export async function countFindings(tx: Tx, filter: FindingFilter): Promise<number> {
  const values = filterValues(filter)
  const rows = await tx.query<{ total: number }>(isPlain(filter) ? countAll(values) : { text: countText, values })
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
  >({
    text: summaries[groupBy],
    values: [...filterValues(filter), today],
  })
  return rows.map(({ key, total, overdue, ...by_severity }) => ({ key, total, overdue, by_severity }))
}

// The values of the filter, always all of them, in the order of `filtered`.
function filterValues(filter: FindingFilter): readonly unknown[] {
  return [
    filter.status ?? findingStatuses,
    filter.severity ?? severities,
    timeOrInfinity(filter.updatedSince),
    filter.type ?? null,
    filter.source ?? null,
    filter.entityId ?? null,
    filter.owner?.toLowerCase() ?? null,
    filter.overdue?.is ?? null,
    filter.overdue?.on ?? null,
    filter.repeat ?? null,
    dateOrNull(filter.identifiedFrom),
    dateOrNull(filter.identifiedTo),
    dateOrNull(filter.targetAfter),
    dateOrNull(filter.targetBefore),
    patternOf(filter.text),
    filter.externalId ?? null,
    filter.reference ?? null,
    filter.entityIds ?? null,
  ]
}

/** Whether a filter asks for nothing but what every plan can check as it goes. */
function isPlain({ status: _status, severity: _severity, updatedSince: _since, ...rest }: FindingFilter): boolean {
  return Object.values(rest).every((value) => value === undefined)
}

// An entity's findings are looked up first (finding_entity_by_entity), not one by one. Texts are read row by row in the
// order of the list: under row security no index on trigrams can be used, because LIKE is not leakproof.
const filtered = `
  t.status = any($1::text[])
  and t.severity = any($2::text[])
  and t.updated_at >= $3::timestamptz
  and ($4::text[] is null or t.type = any($4))
  and ($5::text[] is null or t.source = any($5))
  and ($6::uuid is null or t.id = any(array(
    select link.finding_id from findings.finding_entity link where link.entity_id = $6
  )))
  and ($7::text is null or $7 in (t.owner ->> 'person_id', lower(t.owner ->> 'email'), lower(t.owner ->> 'name')))
  and ($8::boolean is null
    or $8 = (t.target_on < $9::date and t.status not in ('closed', 'risk_accepted', 'cancelled')))
  and ($10::boolean is null or $10 = (t.repeat_of_id is not null))
  and ($11::date is null or t.identified_on >= $11)
  and ($12::date is null or t.identified_on <= $12)
  and ($13::date is null or t.target_on > $13)
  and ($14::date is null or t.target_on < $14)
  and ($15::text is null or t.title ilike $15 or t.condition ilike $15 or t.reference ilike $15 or t.external_id ilike $15)
  and ($16::text is null or t.external_id = $16)
  and ($17::text is null or t.reference = $17)
  and ($18::uuid[] is null or t.id = any(array(
    select link.finding_id from findings.finding_entity link where link.entity_id = any($18)
  )))`

const severityRanks: Readonly<Record<Finding['severity'], number>> = { critical: 4, high: 3, medium: 2, low: 1 }

const byCreation = { column: 'created_at', type: 'timestamptz', valueOf: (f: StoredFinding) => f.created_at } as const
const byChange = { column: 'updated_at', type: 'timestamptz', valueOf: (f: StoredFinding) => f.updated_at } as const
const byTarget = { column: 'target_on', type: 'date', valueOf: (f: StoredFinding) => f.target_date ?? '' } as const
const bySeverity = {
  column: 'severity_rank',
  type: 'smallint',
  valueOf: (f: StoredFinding) => severityRanks[f.severity],
} as const

/** Lists of findings: finding_by_created_at, _by_updated_at, _by_target_on, _by_severity. */
export const findingList = keysetList<FindingSort, StoredFinding>({
  name: 'findings_list',
  select: `select ${columns.replaceAll('f.', 't.')} from findings.finding t`,
  where: filtered,
  filterValues: 18,
  orders: {
    '-created_at': { ...byCreation, direction: 'desc' },
    created_at: { ...byCreation, direction: 'asc' },
    '-updated_at': { ...byChange, direction: 'desc' },
    updated_at: { ...byChange, direction: 'asc' },
    target_date: { ...byTarget, direction: 'asc' },
    '-target_date': { ...byTarget, direction: 'desc' },
    '-severity': { ...bySeverity, direction: 'desc' },
    severity: { ...bySeverity, direction: 'asc' },
  },
})

// Reads the tenant's findings once, as a bitmap or in index order; asked for explicitly (`count=true`).
const countText = `select count(*)::integer as total from findings.finding t where ${filtered}`
const countAll = statement('findings_count', countText)

const ageOf = '(coalesce(t.closed_on, $19::date) - t.identified_on)'

function summaryBy(key: string, join = ''): string {
  return `select ${key} as key, count(*)::integer as total,
      count(*) filter (
        where t.target_on < $19::date and t.status not in ('closed', 'risk_accepted', 'cancelled')
      )::integer as overdue,
      count(*) filter (where t.severity = 'critical')::integer as critical,
      count(*) filter (where t.severity = 'high')::integer as high,
      count(*) filter (where t.severity = 'medium')::integer as medium,
      count(*) filter (where t.severity = 'low')::integer as low
    from findings.finding t ${join}
    where ${filtered}
    group by 1
    order by 2 desc, 1
    limit 1000`
}

// Each reads what the filter leaves of the tenant's findings once. Not by name: planned for the filter that is used.
const summaries: Readonly<Record<SummaryGroup, string>> = {
  severity: summaryBy('t.severity'),
  status: summaryBy('t.status'),
  entity: summaryBy(
    'named.entity_id::text',
    'left join findings.finding_entity named on named.tenant_id = t.tenant_id and named.finding_id = t.id',
  ),
  owner: summaryBy(`coalesce(lower(t.owner ->> 'email'), t.owner ->> 'name', t.owner ->> 'person_id')`),
  age_bucket: summaryBy(`case
      when ${ageOf} <= 30 then '0-30'
      when ${ageOf} <= 90 then '31-90'
      when ${ageOf} <= 180 then '91-180'
      when ${ageOf} <= 365 then '181-365'
      else '366+'
    end`),
}
