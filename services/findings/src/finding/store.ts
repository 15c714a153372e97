import type { Finding, ResourceAddress, findingSorts } from '@postern/contracts'
import { findingStatuses, severities } from '@postern/contracts'
import { type Statement, type Tx, sqlError } from '@postern/tenant-db'
import { z } from 'zod'
import type { NewFinding, StoredFinding } from './rules.ts'

export type FindingSort = (typeof findingSorts)[number]

/** Which findings a list holds; undefined does not narrow. */
export interface FindingFilter {
  readonly status: readonly Finding['status'][] | undefined
  readonly severity: readonly Finding['severity'][] | undefined
  readonly externalId: string | undefined
  /** Changed at this time or later. */
  readonly updatedSince: Date | undefined
}

/** Where a page begins: behind the finding with this sort value and id. */
export const findingKeySchema = z.strictObject({
  value: z.union([z.iso.datetime({ precision: 3 }), z.iso.date(), z.int().min(1).max(4)]),
  id: z.uuid(),
})
export type FindingKey = z.infer<typeof findingKeySchema>

export interface FindingPage {
  readonly filter: FindingFilter
  readonly sort: FindingSort
  readonly after: FindingKey | undefined
  /** Most findings to return. */
  readonly limit: number
}

/** Lists findings in the order of the sort, ties by id. */
export async function listFindings(tx: Tx, { filter, sort, after, limit }: FindingPage): Promise<StoredFinding[]> {
  const narrowed = filterValues(filter)
  if (filter.externalId !== undefined) {
    return (await tx.query<FindingRow>(listByExternalId([...narrowed, filter.externalId]))).map(toFinding)
  }
  const { list, start } = orders[sort]
  const { value, id } = after ?? start
  return (await tx.query<FindingRow>(list([...narrowed, value, id, limit]))).map(toFinding)
}

/** How many findings the filter leaves. */
export async function countFindings(tx: Tx, filter: FindingFilter): Promise<number> {
  const narrowed = filterValues(filter)
  const { externalId } = filter
  const count = externalId === undefined ? countAll(narrowed) : countByExternalId([...narrowed, externalId])
  const rows = await tx.query<{ total: number }>(count)
  return rows[0]?.total ?? 0
}

/** The key of the last finding of a page: where the next one begins. */
export function keyOfFinding(finding: StoredFinding, sort: FindingSort): FindingKey {
  return { value: orders[sort].valueOf(finding), id: finding.id }
}

/** Whether a key, which comes from a client, can belong to the sort. */
export function isKeyOfSort(key: FindingKey, sort: FindingSort): boolean {
  return orders[sort].value.safeParse(key.value).success
}

/** The finding at an address, or undefined where the tenant has none. */
export async function findFinding(tx: Tx, address: ResourceAddress): Promise<StoredFinding | undefined> {
  const rows = await tx.query<FindingRow>(findStatement(address))
  return rows[0] === undefined ? undefined : toFinding(rows[0])
}

/** Stores a finding and its links under the next reference of the tenant and year. */
export async function insertFinding(tx: Tx, { fields, createdBy, targetDays }: NewFinding): Promise<StoredFinding> {
  const rows = await tx.query<FindingRow>(
    insertStatement([
      fields.external_id ?? null,
      fields.title,
      fields.condition,
      fields.criteria ?? null,
      fields.cause ?? null,
      fields.consequence ?? null,
      fields.corrective_action ?? null,
      fields.cause_category ?? null,
      fields.severity,
      fields.type,
      fields.deficiency_class ?? null,
      fields.coso_component ?? null,
      fields.status,
      jsonOrNull(fields.owner),
      fields.identified_date ?? null,
      fields.target_date ?? null,
      targetDays,
      fields.repeat_of_id ?? null,
      fields.source ?? null,
      fields.engagement_ref ?? null,
      fields.test_procedure_id ?? null,
      jsonOrNull(fields.management_response),
      JSON.stringify(fields.custom ?? {}),
      createdBy.type,
      createdBy.id,
      createdBy.label,
      fields.entity_ids,
    ]),
  )
  const row = rows[0]
  if (row === undefined) throw new Error('the insert of a finding returned no row')
  return toFinding(row)
}

/** What the database had against a finding: a value that is taken, or the name of the constraint that it breaks. */
export type Refusal = { readonly kind: 'external-id-taken' } | { readonly kind: 'broken'; readonly constraint: string }

/** Reads a refusal out of a failed insert; undefined where the failure is something else. */
export function refusalOf(error: unknown): Refusal | undefined {
  const { kind, constraint } = sqlError(error)
  if (constraint === undefined) return undefined
  if (kind === 'unique') return constraint === 'finding_external_id_unique' ? { kind: 'external-id-taken' } : undefined
  return kind === 'check' || kind === 'foreign-key' ? { kind: 'broken', constraint } : undefined
}

interface FindingRow extends Omit<StoredFinding, 'created_by' | 'created_at' | 'updated_at'> {
  readonly created_by_type: StoredFinding['created_by']['type']
  readonly created_by_id: string
  readonly created_by_label: string
  readonly created_at: Date
  readonly updated_at: Date
}

function toFinding(row: FindingRow): StoredFinding {
  const { created_by_type: type, created_by_id: id, created_by_label: label, created_at, updated_at, ...same } = row
  return {
    ...same,
    created_by: { type, id, label },
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  }
}

function jsonOrNull(value: object | undefined): string | null {
  return value === undefined ? null : JSON.stringify(value)
}

const lastTime = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/** The filter as values that are always there, so that one prepared statement serves with a filter and without. */
function filterValues({ status, severity, updatedSince }: FindingFilter): readonly unknown[] {
  return [status ?? findingStatuses, severity ?? severities, timeOrInfinity(updatedSince)]
}

/** PostgreSQL reads no year 0 and no year 10000; nothing was changed that early or will be that late. */
function timeOrInfinity(time: Date | undefined): string {
  if (time === undefined || time.getTime() < 0) return '-infinity'
  return time.getTime() > lastTime ? 'infinity' : time.toISOString()
}

function statement(name: string, text: string): (values: readonly unknown[]) => Statement {
  return (values) => ({ name, text, values })
}

// Row level security narrows every statement to the tenant of the assertion: none of them names one but to insert it.
const storedColumns = `
  f.id, f.reference, f.external_id, f.title, f.condition, f.criteria, f.cause, f.consequence, f.corrective_action,
  f.cause_category, f.severity, f.type, f.deficiency_class, f.coso_component, f.status, f.owner,
  f.identified_on as identified_date, f.target_on as target_date, f.closed_on as closed_date,
  f.reopened_count, f.repeat_of_id, f.source, f.engagement_ref, f.test_procedure_id, f.management_response, f.custom,
  f.created_by_type, f.created_by_id, f.created_by_label, f.created_at, f.updated_at, f.version`

// The links of a finding, read by finding_entity_position_unique.
const columns = `${storedColumns},
  array(
    select link.entity_id
    from findings.finding_entity link
    where link.tenant_id = f.tenant_id and link.finding_id = f.id
    order by link.position
  ) as entity_ids`

const filtered = `
  f.status = any($1::text[])
  and f.severity = any($2::text[])
  and f.updated_at >= $3::timestamptz`

interface Order {
  readonly list: (values: readonly unknown[]) => Statement
  /** Before everything: where the first page begins. */
  readonly start: { readonly value: string | number; readonly id: string }
  readonly value: z.ZodType
  valueOf(finding: StoredFinding): string | number
}

const firstId = '00000000-0000-0000-0000-000000000000'
const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

// One statement a sort, the same for every page and filter: it always begins behind a key, so that even a generic plan
// enters the sort's index where the page begins and stops after the page. The index of each is named with it.
function ascending(name: string, column: string, type: string): (values: readonly unknown[]) => Statement {
  return statement(
    name,
    `select ${columns}
    from findings.finding f
    where ${filtered}
      and (f.${column}, f.id) > ($4::${type}, $5::uuid)
    order by f.${column}, f.id
    limit $6`,
  )
}

function descending(name: string, column: string, type: string): (values: readonly unknown[]) => Statement {
  return statement(
    name,
    `select ${columns}
    from findings.finding f
    where ${filtered}
      and (f.${column}, f.id) < ($4::${type}, $5::uuid)
    order by f.${column} desc, f.id desc
    limit $6`,
  )
}

const timeValue = z.iso.datetime({ precision: 3 }).refine((text) => text > '0001')
const dateValue = z.iso.date().refine((text) => text > '0001')
const rankValue = z.int()
const severityRanks: Readonly<Record<Finding['severity'], number>> = { critical: 4, high: 3, medium: 2, low: 1 }

const orders: Readonly<Record<FindingSort, Order>> = {
  // finding_by_created_at
  '-created_at': {
    list: descending('findings_list_newest', 'created_at', 'timestamptz'),
    start: { value: 'infinity', id: lastId },
    value: timeValue,
    valueOf: (finding) => finding.created_at,
  },
  created_at: {
    list: ascending('findings_list_oldest', 'created_at', 'timestamptz'),
    start: { value: '-infinity', id: firstId },
    value: timeValue,
    valueOf: (finding) => finding.created_at,
  },
  // finding_by_updated_at
  '-updated_at': {
    list: descending('findings_list_last_changed', 'updated_at', 'timestamptz'),
    start: { value: 'infinity', id: lastId },
    value: timeValue,
    valueOf: (finding) => finding.updated_at,
  },
  updated_at: {
    list: ascending('findings_list_first_changed', 'updated_at', 'timestamptz'),
    start: { value: '-infinity', id: firstId },
    value: timeValue,
    valueOf: (finding) => finding.updated_at,
  },
  // finding_by_target_on
  target_date: {
    list: ascending('findings_list_first_due', 'target_on', 'date'),
    start: { value: '-infinity', id: firstId },
    value: dateValue,
    valueOf: (finding) => finding.target_date ?? '',
  },
  // finding_by_severity
  '-severity': {
    list: descending('findings_list_most_severe', 'severity_rank', 'smallint'),
    start: { value: 32_767, id: lastId },
    value: rankValue,
    valueOf: (finding) => severityRanks[finding.severity],
  },
}

// At most one finding, by finding_external_id_unique: no order and no page.
const listByExternalId = statement(
  'findings_list_by_external_id',
  `select ${columns}
  from findings.finding f
  where ${filtered} and f.external_id = $4::text`,
)

// Reads the tenant's findings once, as a bitmap or in index order; asked for explicitly (`count=true`).
const countAll = statement(
  'findings_count',
  `select count(*)::integer as total from findings.finding f where ${filtered}`,
)

const countByExternalId = statement(
  'findings_count_by_external_id',
  `select count(*)::integer as total from findings.finding f where ${filtered} and f.external_id = $4::text`,
)

function findStatement(address: ResourceAddress): Statement {
  switch (address.by) {
    case 'id':
      return findById([address.id])
    case 'reference':
      return findByReference([address.reference])
    case 'external-id':
      return findByExternalId([address.externalId])
    default:
      return address satisfies never
  }
}

// finding_pk
const findById = statement('findings_find_by_id', `select ${columns} from findings.finding f where f.id = $1::uuid`)

// finding_reference_unique
const findByReference = statement(
  'findings_find_by_reference',
  `select ${columns} from findings.finding f where f.reference = $1::text`,
)

// finding_external_id_unique
const findByExternalId = statement(
  'findings_find_by_external_id',
  `select ${columns} from findings.finding f where f.external_id = $1::text`,
)

// One statement, so that the number, the finding and its links come together or not at all. The counter's row is the
// queue in which parallel creations of a tenant wait; a creation that fails gives its number back. The clock is the
// database's alone.
const insertStatement = statement(
  'findings_insert',
  `with today as (
    select (now() at time zone 'UTC')::date as day
  ),
  next as (
    insert into findings.reference_counter as counter (tenant_id, year, last_number)
    select (select tenancy.tenant_id()), extract(year from today.day)::integer, 1
    from today
    on conflict (tenant_id, year) do update set last_number = counter.last_number + 1
    returning counter.tenant_id, counter.year, counter.last_number
  ),
  f as (
    insert into findings.finding as made (
      tenant_id, year, number, external_id, title, condition, criteria, cause, consequence, corrective_action,
      cause_category, severity, type, deficiency_class, coso_component, status, owner, identified_on, target_on,
      repeat_of_id, source, engagement_ref, test_procedure_id, management_response, custom, created_by_type,
      created_by_id, created_by_label
    )
    select
      next.tenant_id, next.year, next.last_number, $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text,
      $8::text, $9::text, $10::text, $11::text, $12::text, $13::text, $14::jsonb, coalesce($15::date, today.day),
      coalesce($16::date, coalesce($15::date, today.day) + $17::integer),
      $18::uuid, $19::text, $20::text, $21::uuid, $22::jsonb, $23::jsonb, $24::text,
      $25::text, $26::text
    from next cross join today
    returning
      made.tenant_id, made.id, made.reference, made.external_id, made.title, made.condition, made.criteria, made.cause,
      made.consequence, made.corrective_action, made.cause_category, made.severity, made.type, made.deficiency_class,
      made.coso_component, made.status, made.owner, made.identified_on, made.target_on, made.closed_on,
      made.reopened_count, made.repeat_of_id, made.source, made.engagement_ref, made.test_procedure_id,
      made.management_response, made.custom, made.created_by_type, made.created_by_id, made.created_by_label,
      made.created_at, made.updated_at, made.version
  ),
  linked as (
    insert into findings.finding_entity (tenant_id, finding_id, entity_id, position)
    select f.tenant_id, f.id, entity.id, entity.position::smallint
    from f cross join unnest($27::uuid[]) with ordinality as entity (id, position)
  )
  select ${storedColumns}, $27::uuid[] as entity_ids from f`,
)
