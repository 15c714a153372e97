import type { CreateRecommendation, CreatedBy, Recommendation, ResourceAddress } from '@postern/contracts'
import type { recommendationSorts } from '@postern/contracts'
import { type ResourceRow, type Tx, addressValues, statement, toResource } from '@postern/tenant-db'
import {
  type Condition,
  belongsToFindings,
  patternOf,
  timeOf,
  conditionIf,
  joinConditions,
} from '../condition/store.ts'
import { type PageBounds, keysetList, listStatement } from '../keyset.ts'
import type { StatusByPlans } from './rules.ts'

export type RecommendationSort = (typeof recommendationSorts)[number]

export interface RecommendationFilter {
  readonly status?: readonly Recommendation['status'][] | undefined
  readonly updatedSince?: Date | undefined
  readonly findings?: readonly ResourceAddress[] | undefined
  readonly externalId?: readonly string[] | undefined
  readonly text?: string | undefined
}

export async function listRecommendations(
  tx: Tx,
  filter: RecommendationFilter,
  bounds: PageBounds<RecommendationSort>,
): Promise<Recommendation[]> {
  const rows = await tx.query<RecommendationRow>(recommendationList.page(bounds, conditionsOf(filter)))
  return rows.map(toResource)
}

export async function countRecommendations(tx: Tx, filter: RecommendationFilter): Promise<number> {
  const { text, values } = joinConditions(conditionsOf(filter))
  const rows = await tx.query<{ total: number }>({
    text: `select count(*)::integer as total from findings.recommendation t where ${text}`,
    values,
  })
  return rows[0]?.total ?? 0
}

export async function listFirstRecommendations(
  tx: Tx,
  findingIds: readonly string[],
  limit: number,
): Promise<Recommendation[]> {
  const rows = await tx.query<RecommendationRow>(firstOfFindings([findingIds, limit]))
  return rows.map(toResource)
}

export async function findRecommendation(tx: Tx, address: ResourceAddress): Promise<Recommendation | undefined> {
  const rows = await tx.query<RecommendationRow>(find(addressValues(address)))
  return rows[0] === undefined ? undefined : toResource(rows[0])
}

/** The finding must be locked. */
export async function insertRecommendation(
  tx: Tx,
  findingId: string,
  fields: CreateRecommendation & { readonly priority: Recommendation['priority'] },
  createdBy: CreatedBy,
): Promise<Recommendation> {
  const rows = await tx.query<RecommendationRow>(
    insert([
      findingId,
      fields.external_id ?? null,
      fields.text,
      fields.priority,
      JSON.stringify(fields.custom ?? {}),
      createdBy.type,
      createdBy.id,
      createdBy.label,
    ]),
  )
  return getOnly(rows)
}

/** The finding must be locked. */
export async function updateRecommendation(tx: Tx, after: Recommendation): Promise<Recommendation> {
  const rows = await tx.query<RecommendationRow>(
    update([
      after.id,
      after.external_id,
      after.text,
      after.priority,
      after.response,
      after.response_rationale,
      after.status,
      JSON.stringify(after.custom),
    ]),
  )
  return getOnly(rows)
}

export interface RecommendationProgress {
  readonly recommendation: Recommendation
  readonly byPlans: StatusByPlans
}

export async function listRecommendationProgress(tx: Tx, findingId: string): Promise<RecommendationProgress[]> {
  const rows = await tx.query<RecommendationRow & { by_plans: StatusByPlans }>(progressOfFinding([findingId]))
  return rows.map(({ by_plans: byPlans, ...row }) => ({ recommendation: toResource(row), byPlans }))
}

type RecommendationRow = ResourceRow<Recommendation>

function getOnly([row]: readonly RecommendationRow[]): Recommendation {
  if (row === undefined) throw new Error('the write of a recommendation returned no row')
  return toResource(row)
}

function conditionsOf(filter: RecommendationFilter): Condition[] {
  return [
    ...conditionIf(filter.status, (p) => `t.status = any(${p}::text[])`),
    ...conditionIf(timeOf(filter.updatedSince), (p) => `t.updated_at >= ${p}::timestamptz`),
    ...belongsToFindings(filter.findings),
    ...conditionIf(filter.externalId, (p) => `t.external_id = any(${p}::text[])`),
    ...conditionIf(
      patternOf(filter.text),
      (p) => `(t.text ilike ${p}::text or t.reference ilike ${p} or t.external_id ilike ${p})`,
    ),
  ]
}

const columns = `
  t.id, t.reference, t.finding_id, t.external_id, t.text, t.priority, t.response, t.response_rationale, t.status, t.custom,
  t.created_by_type, t.created_by_id, t.created_by_label, t.created_at, t.updated_at, t.version`

const byCreation = {
  columns: [{ column: 'created_at', type: 'timestamptz' }],
  valuesOf: (r: Recommendation) => [r.created_at],
} as const
const byChange = {
  columns: [{ column: 'updated_at', type: 'timestamptz' }],
  valuesOf: (r: Recommendation) => [r.updated_at],
} as const

/** Indexes: recommendation_by_created_at, _by_updated_at; for one finding recommendation_of_finding_unique and a sort. */
export const recommendationList = keysetList<RecommendationSort, Recommendation>({
  name: 'recommendations_list',
  select: `select ${columns} from findings.recommendation t`,
  orders: {
    '-created_at': { ...byCreation, direction: 'desc' },
    created_at: { ...byCreation, direction: 'asc' },
    '-updated_at': { ...byChange, direction: 'desc' },
    updated_at: { ...byChange, direction: 'asc' },
  },
})

// recommendation_number_unique
const firstOfFindings = listStatement(
  'recommendations_first_of_findings',
  `select ${columns}
  from unnest($1::uuid[]) as wanted (id)
  cross join lateral (
    select near.tenant_id, near.id
    from findings.recommendation near
    where near.finding_id = wanted.id
    order by near.number
    limit $2::integer
  ) as near
  join findings.recommendation t on t.tenant_id = near.tenant_id and t.id = near.id
  order by t.finding_id, t.number`,
)

// Unnamed, so that PostgreSQL plans for the given value.
const find = (values: readonly unknown[]) => ({
  text: `select ${columns}
  from findings.recommendation t
  where ($1::uuid is not null and t.id = $1)
    or ($2::text is not null and t.reference = $2)
    or ($3::text is not null and t.external_id = $3)`,
  values,
})

const insert = statement(
  'recommendations_insert',
  `insert into findings.recommendation as t (
    tenant_id, finding_id, number, reference, external_id, text, priority, custom,
    created_by_type, created_by_id, created_by_label
  )
  select f.tenant_id, f.id, next.number, 'R' || substr(f.reference, 2) || '.' || next.number, $2, $3, $4, $5::jsonb, $6, $7, $8
  from findings.finding f
  cross join lateral (
    select coalesce(max(r.number), 0) + 1 as number from findings.recommendation r where r.finding_id = f.id
  ) as next
  where f.id = $1::uuid
  returning ${columns}`,
)

const update = statement(
  'recommendations_update',
  `update findings.recommendation as t
  set external_id = $2, text = $3, priority = $4, response = $5, response_rationale = $6, status = $7,
    custom = $8::jsonb, updated_at = now(), version = t.version + 1
  where t.id = $1::uuid
  returning ${columns}`,
)

// recommendation_number_unique, action_plan_recommendation_by_recommendation, action_plan_pk
const progressOfFinding = statement(
  'recommendations_carried_out',
  `select ${columns},
    findings.status_by_plans(array(
      select p.status
      from findings.action_plan_recommendation link
      join findings.action_plan p on p.tenant_id = link.tenant_id and p.id = link.action_plan_id
      where link.recommendation_id = t.id
    )) as by_plans
  from findings.recommendation t
  where t.finding_id = $1::uuid
  order by t.number`,
)
