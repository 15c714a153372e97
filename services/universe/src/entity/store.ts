import { type Entity, type ResourceAddress, entityStatuses, entityTypes } from '@postern/contracts'
import type { Statement, Tx } from '@postern/tenant-db'
import { z } from 'zod'
import type { StoredEntity } from './rules.ts'

/** Which entities a list holds; undefined does not narrow. */
export interface EntityFilter {
  readonly type: readonly Entity['type'][] | undefined
  readonly status: readonly Entity['status'][] | undefined
  readonly externalId: string | undefined
  /** Changed at this time or later. */
  readonly updatedSince: Date | undefined
}

/** Where a page begins: behind the entity with this number. */
export const entityKeySchema = z.int().min(1).max(2_147_483_647)
export type EntityKey = z.infer<typeof entityKeySchema>

/** A stored entity and its place in the list. */
export interface ListedEntity {
  readonly entity: StoredEntity
  readonly key: EntityKey
}

export interface EntityPage {
  readonly filter: EntityFilter
  readonly after: EntityKey | undefined
  /** Most entities to return. */
  readonly limit: number
}

/** Lists entities in the order of their references' numbers, the order in which they were made. */
export async function listEntities(tx: Tx, { filter, after, limit }: EntityPage): Promise<ListedEntity[]> {
  const narrowed = filterValues(filter)
  const { externalId } = filter
  const rows = await tx.query<EntityRow>(
    externalId === undefined
      ? listStatement([...narrowed, after ?? 0, limit])
      : listByExternalId([...narrowed, externalId]),
  )
  return rows.map((row) => ({ entity: toEntity(row), key: row.number }))
}

/** How many entities the filter leaves. */
export async function countEntities(tx: Tx, filter: EntityFilter): Promise<number> {
  const narrowed = filterValues(filter)
  const { externalId } = filter
  const count = externalId === undefined ? countAll(narrowed) : countByExternalId([...narrowed, externalId])
  const rows = await tx.query<{ total: number }>(count)
  return rows[0]?.total ?? 0
}

/** The entity at an address, or undefined where the tenant has none. */
export async function findEntity(tx: Tx, address: ResourceAddress): Promise<StoredEntity | undefined> {
  const rows = await tx.query<EntityRow>(findStatement(address))
  return rows[0] === undefined ? undefined : toEntity(rows[0])
}

interface EntityRow extends Omit<
  StoredEntity,
  'created_by' | 'created_at' | 'updated_at' | 'inherent_risk' | 'residual_risk'
> {
  readonly number: number
  readonly inherent_rating: Risk['rating'] | null
  readonly inherent_score: number | null
  readonly residual_rating: Risk['rating'] | null
  readonly residual_score: number | null
  readonly created_by_type: StoredEntity['created_by']['type']
  readonly created_by_id: string
  readonly created_by_label: string
  readonly created_at: Date
  readonly updated_at: Date
}

type Risk = NonNullable<StoredEntity['inherent_risk']>

function toEntity(row: EntityRow): StoredEntity {
  const { number: _number, inherent_rating, inherent_score, residual_rating, residual_score, ...rest } = row
  const { created_by_type: type, created_by_id: id, created_by_label: label, created_at, updated_at, ...same } = rest
  return {
    ...same,
    inherent_risk: toRisk(inherent_rating, inherent_score),
    residual_risk: toRisk(residual_rating, residual_score),
    created_by: { type, id, label },
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  }
}

function toRisk(rating: Risk['rating'] | null, score: number | null): Risk | null {
  return rating === null || score === null ? null : { rating, score }
}

const lastTime = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/** The filter as values that are always there, so that one prepared statement serves with a filter and without. */
function filterValues({ type, status, updatedSince }: EntityFilter): readonly unknown[] {
  return [type ?? entityTypes, status ?? entityStatuses, timeOrInfinity(updatedSince)]
}

/** PostgreSQL reads no year 0 and no year 10000; nothing was changed that early or will be that late. */
function timeOrInfinity(time: Date | undefined): string {
  if (time === undefined || time.getTime() < 0) return '-infinity'
  return time.getTime() > lastTime ? 'infinity' : time.toISOString()
}

function statement(name: string, text: string): (values: readonly unknown[]) => Statement {
  return (values) => ({ name, text, values })
}

// Row level security narrows every statement to the tenant of the assertion: none of them names one.
const columns = `
  e.number, e.id, e.reference, e.external_id, e.name, e.description, e.type, e.status, e.parent_id, e.owner,
  e.audit_lead, e.executive, e.inherent_rating, e.inherent_score, e.residual_rating, e.residual_score,
  e.risk_assessed_on as risk_assessed_at, e.audit_frequency_months, e.last_audit_on as last_audit_date,
  e.last_audit_opinion, e.regulatory_next_due_on as regulatory_next_due, e.custom, e.created_by_type, e.created_by_id,
  e.created_by_label, e.created_at, e.updated_at, e.version`

const filtered = `
  e.type = any($1::text[])
  and e.status = any($2::text[])
  and e.updated_at >= $3::timestamptz`

// The same statement for every page: it always begins behind a number, so that even a generic plan enters
// entity_number_unique where the page begins and stops after the page.
const listStatement = statement(
  'universe_list_entities',
  `select ${columns}
  from universe.entity e
  where ${filtered} and e.number > $4::integer
  order by e.number
  limit $5`,
)

// At most one entity, by entity_external_id_unique: no order and no page.
const listByExternalId = statement(
  'universe_list_entities_by_external_id',
  `select ${columns} from universe.entity e where ${filtered} and e.external_id = $4::text`,
)

// Reads the tenant's entities once; asked for explicitly (`count=true`).
const countAll = statement(
  'universe_count_entities',
  `select count(*)::integer as total from universe.entity e where ${filtered}`,
)

const countByExternalId = statement(
  'universe_count_entities_by_external_id',
  `select count(*)::integer as total from universe.entity e where ${filtered} and e.external_id = $4::text`,
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

// entity_pk
const findById = statement(
  'universe_find_entity_by_id',
  `select ${columns} from universe.entity e where e.id = $1::uuid`,
)

// entity_reference_unique
const findByReference = statement(
  'universe_find_entity_by_reference',
  `select ${columns} from universe.entity e where e.reference = $1::text`,
)

// entity_external_id_unique
const findByExternalId = statement(
  'universe_find_entity_by_external_id',
  `select ${columns} from universe.entity e where e.external_id = $1::text`,
)
