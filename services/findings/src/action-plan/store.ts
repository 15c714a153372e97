import type { OwnerFilter } from '@postern/contracts/internal'
import type { ActionPlan, CreateActionPlan, CreatedBy, PersonRef, ResourceAddress } from '@postern/contracts'
import type { actionPlanSorts } from '@postern/contracts'
import { type ResourceRow, type Tx, addressValues, statement, toResource } from '@postern/tenant-db'
import {
  type Condition,
  dateOf,
  belongsToFindings,
  ownedBy,
  patternOf,
  timeOf,
  conditionIf,
  joinConditions,
} from '../condition/store.ts'
import { type PageBounds, keysetList, listStatement } from '../keyset.ts'
import { jsonOrNull } from '../sql/store.ts'
import { NoFreeNumberError, actionPlanNumbers } from '../reference/store.ts'
import type { StoredPlan } from './rules.ts'

export type ActionPlanSort = (typeof actionPlanSorts)[number]

export interface ActionPlanFilter {
  readonly status?: readonly ActionPlan['status'][] | undefined
  readonly updatedSince?: Date | undefined
  readonly findings?: readonly ResourceAddress[] | undefined
  readonly owner?: OwnerFilter | undefined
  /** Whether the plan is overdue on a day (UTC). */
  readonly overdue?: { readonly is: boolean; readonly on: string } | undefined
  readonly dueAfter?: string | undefined
  readonly dueBefore?: string | undefined
  readonly externalId?: readonly string[] | undefined
  readonly text?: string | undefined
}

export async function listActionPlans(
  tx: Tx,
  filter: ActionPlanFilter,
  bounds: PageBounds<ActionPlanSort>,
): Promise<StoredPlan[]> {
  const rows = await tx.query<ResourceRow<StoredPlan>>(actionPlanList.page(bounds, conditionsOf(filter)))
  return rows.map(toResource)
}

export async function countActionPlans(tx: Tx, filter: ActionPlanFilter): Promise<number> {
  const { text, values } = joinConditions(conditionsOf(filter))
  const rows = await tx.query<{ total: number }>({
    text: `select count(*)::integer as total from findings.action_plan t where ${text}`,
    values,
  })
  return rows[0]?.total ?? 0
}

export async function listFirstPlans(tx: Tx, findingIds: readonly string[], limit: number): Promise<StoredPlan[]> {
  const rows = await tx.query<ResourceRow<StoredPlan>>(firstOfFindings([findingIds, limit]))
  return rows.map(toResource)
}

export async function findActionPlan(tx: Tx, address: ResourceAddress): Promise<StoredPlan | undefined> {
  const rows = await tx.query<ResourceRow<StoredPlan>>(find(addressValues(address)))
  return rows[0] === undefined ? undefined : toResource(rows[0])
}

export async function insertActionPlan(
  tx: Tx,
  findingId: string,
  fields: CreateActionPlan,
  createdBy: CreatedBy,
): Promise<StoredPlan> {
  const [made] = await tx.query<{ id: string }>(
    insert([
      findingId,
      fields.external_id ?? null,
      fields.title,
      fields.description ?? null,
      JSON.stringify(fields.owner),
      fields.due_date,
      fields.priority ?? null,
      jsonOrNull(fields.estimated_cost),
      fields.external_url ?? null,
      JSON.stringify(fields.custom ?? {}),
      createdBy.type,
      createdBy.id,
      createdBy.label,
    ]),
  )
  if (made === undefined) throw new NoFreeNumberError(actionPlanNumbers)
  const [, stored] = await Promise.all([
    tx.execute(link([made.id, fields.recommendation_ids])),
    findActionPlan(tx, { by: 'id', id: made.id }),
  ])
  if (stored === undefined) throw new Error('the inserted action plan was not found')
  return stored
}

export interface NewExtension {
  readonly to: string
  readonly reason: string
  readonly approvedBy: PersonRef
  readonly createdBy: CreatedBy
}

/** A new due date needs an extension. */
export async function updateActionPlan(
  tx: Tx,
  before: StoredPlan,
  after: StoredPlan,
  extension: NewExtension | undefined,
): Promise<StoredPlan> {
  const isRelinked = before.recommendation_ids.join() !== after.recommendation_ids.join()
  const writes = [
    ...(extension === undefined
      ? []
      : [
          tx.execute(
            extend([
              after.id,
              before.extension_count + 1,
              before.due_date,
              extension.to,
              extension.reason,
              JSON.stringify(extension.approvedBy),
              extension.createdBy.type,
              extension.createdBy.id,
              extension.createdBy.label,
            ]),
          ),
        ]),
    tx.execute(
      update([
        after.id,
        after.external_id,
        after.title,
        after.description,
        JSON.stringify(after.owner),
        extension === undefined ? before.due_date : extension.to,
        extension === undefined ? before.extension_count : before.extension_count + 1,
        after.percent_complete,
        after.status,
        after.priority,
        jsonOrNull(after.estimated_cost),
        after.external_url,
        jsonOrNull(after.verified_by),
        JSON.stringify(after.custom),
      ]),
    ),
    ...(isRelinked ? [tx.execute(unlink([after.id])), tx.execute(link([after.id, after.recommendation_ids]))] : []),
  ]
  await Promise.all(writes)
  const stored = await findActionPlan(tx, { by: 'id', id: after.id })
  if (stored === undefined) throw new Error('the updated action plan was not found')
  return stored
}

function conditionsOf(filter: ActionPlanFilter): Condition[] {
  return [
    ...conditionIf(filter.status, (p) => `t.status = any(${p}::text[])`),
    ...conditionIf(timeOf(filter.updatedSince), (p) => `t.updated_at >= ${p}::timestamptz`),
    ...belongsToFindings(filter.findings),
    ...ownedBy(filter.owner),
    ...(filter.overdue === undefined ? [] : [overdueCondition(filter.overdue)]),
    ...conditionIf(dateOf(filter.dueAfter), (p) => `t.due_on > ${p}::date`),
    ...conditionIf(dateOf(filter.dueBefore), (p) => `t.due_on < ${p}::date`),
    ...conditionIf(filter.externalId, (p) => `t.external_id = any(${p}::text[])`),
    ...conditionIf(
      patternOf(filter.text),
      (p) =>
        `(t.title ilike ${p}::text or t.description ilike ${p} or t.reference ilike ${p} or t.external_id ilike ${p})`,
    ),
  ]
}

function overdueCondition({ is, on }: NonNullable<ActionPlanFilter['overdue']>): Condition {
  return {
    values: [is, on],
    sql: (isOverdue, day) =>
      `${isOverdue}::boolean = (t.due_on < ${day}::date and t.status not in ('implemented', 'verified', 'rejected', 'cancelled'))`,
  }
}

// action_plan_recommendation_position_unique and action_plan_extension_pk serve the two nested lists.
const columns = `
  t.id, t.reference, t.finding_id, t.external_id, t.title, t.description, t.owner, t.due_on as due_date,
  t.original_due_on as original_due_date, t.extension_count, t.percent_complete, t.status, t.priority, t.estimated_cost,
  t.external_url, t.completed_on as completed_date, t.verified_on as verified_date, t.verified_by, t.custom,
  t.created_by_type, t.created_by_id, t.created_by_label, t.created_at, t.updated_at, t.version,
  array(
    select link.recommendation_id
    from findings.action_plan_recommendation link
    where link.action_plan_id = t.id
    order by link.position
  ) as recommendation_ids,
  coalesce((
    select jsonb_agg(
      jsonb_build_object(
        'number', e.number, 'from', e.from_on, 'to', e.to_on, 'reason', e.reason, 'approved_by', e.approved_by,
        'created_by', jsonb_build_object('type', e.created_by_type, 'id', e.created_by_id, 'label', e.created_by_label),
        'at', to_char(e.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
      )
      order by e.number
    )
    from findings.action_plan_extension e
    where e.action_plan_id = t.id
  ), '[]') as extensions`

const byCreation = {
  columns: [{ column: 'created_at', type: 'timestamptz' }],
  valuesOf: (p: StoredPlan) => [p.created_at],
} as const
const byChange = {
  columns: [{ column: 'updated_at', type: 'timestamptz' }],
  valuesOf: (p: StoredPlan) => [p.updated_at],
} as const
const byDueDate = { columns: [{ column: 'due_on', type: 'date' }], valuesOf: (p: StoredPlan) => [p.due_date] } as const

/** Indexes: action_plan_by_created_at, _by_updated_at, _by_due_on; for one finding action_plan_of_finding_unique. */
export const actionPlanList = keysetList<ActionPlanSort, StoredPlan>({
  name: 'action_plans_list',
  select: `select ${columns} from findings.action_plan t`,
  orders: {
    '-created_at': { ...byCreation, direction: 'desc' },
    created_at: { ...byCreation, direction: 'asc' },
    '-updated_at': { ...byChange, direction: 'desc' },
    updated_at: { ...byChange, direction: 'asc' },
    due_date: { ...byDueDate, direction: 'asc' },
    '-due_date': { ...byDueDate, direction: 'desc' },
  },
})

// action_plan_of_finding_unique. Ids are in order of creation.
const firstOfFindings = listStatement(
  'action_plans_first_of_findings',
  `select ${columns}
  from unnest($1::uuid[]) as wanted (id)
  cross join lateral (
    select near.tenant_id, near.id
    from findings.action_plan near
    where near.finding_id = wanted.id
    order by near.id
    limit $2::integer
  ) as near
  join findings.action_plan t on t.tenant_id = near.tenant_id and t.id = near.id
  order by t.finding_id, t.id`,
)

// Unnamed, so that PostgreSQL plans for the given value.
const find = (values: readonly unknown[]) => ({
  text: `select ${columns}
  from findings.action_plan t
  where ($1::uuid is not null and t.id = $1)
    or ($2::text is not null and t.reference = $2)
    or ($3::text is not null and t.external_id = $3)`,
  values,
})

const insert = statement(
  'action_plans_insert',
  `with ${actionPlanNumbers.next()}
  insert into findings.action_plan (
    tenant_id, year, number, finding_id, external_id, title, description, owner, due_on, original_due_on, priority,
    estimated_cost, external_url, custom, created_by_type, created_by_id, created_by_label
  )
  select
    next.tenant_id, next.year, next.number, $1::uuid, $2, $3, $4, $5::jsonb, $6::date, $6::date, $7,
    $8::jsonb, $9, $10::jsonb, $11, $12, $13
  from next
  returning id`,
)

const link = statement(
  'action_plans_link',
  `insert into findings.action_plan_recommendation (tenant_id, finding_id, action_plan_id, recommendation_id, position)
  select p.tenant_id, p.finding_id, p.id, named.id, named.position::smallint
  from findings.action_plan p
  cross join unnest($2::uuid[]) with ordinality as named (id, position)
  where p.id = $1::uuid`,
)

const unlink = statement(
  'action_plans_unlink',
  'delete from findings.action_plan_recommendation named where named.action_plan_id = $1::uuid',
)

const extend = statement(
  'action_plans_extend',
  `insert into findings.action_plan_extension (
    tenant_id, action_plan_id, number, from_on, to_on, reason, approved_by, created_by_type, created_by_id, created_by_label
  )
  values ((select tenancy.tenant_id()), $1::uuid, $2::integer, $3::date, $4::date, $5, $6::jsonb, $7, $8, $9)`,
)

// Days come from the database's clock.
const update = statement(
  'action_plans_update',
  `update findings.action_plan as p
  set external_id = $2, title = $3, description = $4, owner = $5::jsonb, due_on = $6::date, extension_count = $7::integer,
    percent_complete = $8::smallint, status = $9, priority = $10, estimated_cost = $11::jsonb, external_url = $12,
    verified_by = $13::jsonb, custom = $14::jsonb,
    completed_on = case
      when $9 in ('implemented', 'verified') then coalesce(p.completed_on, (now() at time zone 'UTC')::date)
    end,
    verified_on = case when $9 = 'verified' then coalesce(p.verified_on, (now() at time zone 'UTC')::date) end,
    updated_at = now(), version = p.version + 1
  where p.id = $1::uuid`,
)
