import type { ApplyEntitiesAnswer } from '@postern/contracts/internal'
import type { CreatedBy, Entity, PushedEntity } from '@postern/contracts'
import { type Statement, type Tx, sqlError } from '@postern/tenant-db'
import { readByIndexes } from '../list/store.ts'

export type { Tx } from '@postern/tenant-db'

/**
 * Makes the transaction the only one that changes the tenant's tree of entities, until it ends. Pushes of one tenant
 * follow each other; other tenants and readers do not wait.
 */
export async function lockTree(tx: Tx): Promise<void> {
  await Promise.all([tx.execute(makeCounter([])), tx.execute(lockCounter([])), readByIndexes(tx)])
}

/** The keys among these that no stored entity has. */
export async function listUnknownKeys(tx: Tx, externalIds: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ external_id: string }>(unknownKeys([externalIds]))
  return rows.map((row) => row.external_id)
}

/** The status now of each stored entity among these. */
export async function listStatuses(tx: Tx, externalIds: readonly string[]): Promise<Map<string, Entity['status']>> {
  const rows = await tx.query<{ external_id: string; status: Entity['status'] }>(statusesNow([externalIds]))
  return new Map(rows.map((row) => [row.external_id, row.status]))
}

/**
 * Makes the rows that are new and changes those that differ; the rest stays untouched. Call it under `lockTree`, with
 * parents that exist.
 */
export async function applyEntities(
  tx: Tx,
  entities: readonly PushedEntity[],
  createdBy: CreatedBy,
): Promise<ApplyEntitiesAnswer> {
  const rows = JSON.stringify(entities.map(toRow))
  const counts = await tx.query<{ created: number; updated: number }>(
    applyStatement([rows, createdBy.type, createdBy.id, createdBy.label]),
  )
  const { created, updated } = counts[0] ?? { created: 0, updated: 0 }
  return { created, updated, unchanged: entities.length - created - updated }
}

/** Whether the database has refused a push because of the tree that it would make. */
export function isTreeRefusal(error: unknown): boolean {
  const { constraint } = sqlError(error)
  return constraint === 'entity_tree_acyclic' || constraint === 'entity_tree_depth'
}

/** Which rows of a push would break the stored tree, and how. Asked only when the push was refused for it. */
export async function listMisplaced(
  tx: Tx,
  entities: readonly PushedEntity[],
  maxDepth: number,
): Promise<{ readonly index: number; readonly fault: 'cycle' | 'too-deep' }[]> {
  const rows = JSON.stringify(entities.map(toLink))
  return await tx.query<{ index: number; fault: 'cycle' | 'too-deep' }>(misplacedRows([rows, maxDepth]))
}

function toLink({ external_id, parent_external_id }: PushedEntity, index: number): object {
  return { index, external_id, parent_external_id }
}

function toRow(entity: PushedEntity, index: number): object {
  return {
    ...toLink(entity, index),
    name: entity.name,
    description: entity.description,
    type: entity.type,
    status: entity.status,
    owner: entity.owner,
    audit_lead: entity.audit_lead,
    executive: entity.executive,
    inherent_rating: entity.inherent_risk?.rating,
    inherent_score: entity.inherent_risk?.score,
    residual_rating: entity.residual_risk?.rating,
    residual_score: entity.residual_risk?.score,
    risk_assessed_on: entity.risk_assessed_at,
    audit_frequency_months: entity.audit_frequency_months,
    last_audit_on: entity.last_audit_date,
    last_audit_opinion: entity.last_audit_opinion,
    regulatory_next_due_on: entity.regulatory_next_due,
    custom: entity.custom ?? {},
  }
}

function statement(name: string, text: string): (values: readonly unknown[]) => Statement {
  return (values) => ({ name, text, values })
}

const makeCounter = statement(
  'universe_make_counter',
  `insert into universe.reference_counter (tenant_id, last_number)
  values ((select tenancy.tenant_id()), 0)
  on conflict (tenant_id) do nothing`,
)

// A statement of its own: what comes after it sees all that the holder of the lock before has committed.
const lockCounter = statement(
  'universe_lock_counter',
  'select counter.last_number from universe.reference_counter counter for update',
)

// entity_external_id_unique, once a key.
const unknownKeys = statement(
  'universe_unknown_keys',
  `select wanted.external_id
  from unnest($1::text[]) as wanted (external_id)
  where not exists (select from universe.entity e where e.external_id = wanted.external_id)`,
)

// entity_external_id_unique, once a key.
const statusesNow = statement(
  'universe_statuses_now',
  `select e.external_id, e.status
  from unnest($1::text[]) as wanted (external_id)
  join universe.entity e on e.external_id = wanted.external_id`,
)

// One statement, so that a parent may come after its child: every row has its id before any is written. A row is matched
// by entity_external_id_unique. New rows are numbered in the order of the push, from the counter that the caller has
// locked. A row that is as it was is not written: its version and its time of change stay.
const applyStatement = statement(
  'universe_apply_entities',
  `with incoming as (
    select
      pushed.index, pushed.external_id, pushed.parent_external_id, pushed.name, pushed.description, pushed.type,
      pushed.status, pushed.owner, pushed.audit_lead, pushed.executive, pushed.inherent_rating, pushed.inherent_score,
      pushed.residual_rating, pushed.residual_score, pushed.risk_assessed_on, pushed.audit_frequency_months,
      pushed.last_audit_on, pushed.last_audit_opinion, pushed.regulatory_next_due_on, pushed.custom
    from jsonb_to_recordset($1::jsonb) as pushed (
      index integer, external_id text, parent_external_id text, name text, description text, type text,
      status text, owner jsonb, audit_lead jsonb, executive jsonb, inherent_rating text, inherent_score double precision,
      residual_rating text, residual_score double precision, risk_assessed_on date, audit_frequency_months integer,
      last_audit_on date, last_audit_opinion text, regulatory_next_due_on date, custom jsonb
    )
  ),
  identity as materialized (
    select incoming.index, incoming.external_id, coalesce(known.id, uuidv7()) as id, known.id is null as is_new
    from incoming
    left join universe.entity known on known.external_id = incoming.external_id
  ),
  placed as materialized (
    select identity.id, identity.is_new, coalesce(pushed_parent.id, stored_parent.id) as parent_id, incoming.*
    from incoming
    join identity on identity.index = incoming.index
    left join identity pushed_parent on pushed_parent.external_id = incoming.parent_external_id
    left join universe.entity stored_parent on stored_parent.external_id = incoming.parent_external_id
  ),
  made as (
    insert into universe.entity (
      tenant_id, id, number, external_id, parent_id, name, description, type, status, owner, audit_lead, executive,
      inherent_rating, inherent_score, residual_rating, residual_score, risk_assessed_on, audit_frequency_months,
      last_audit_on, last_audit_opinion, regulatory_next_due_on, custom, created_by_type, created_by_id,
      created_by_label
    )
    select
      counter.tenant_id, placed.id, counter.last_number + row_number() over (order by placed.index), placed.external_id,
      placed.parent_id, placed.name, placed.description, placed.type, placed.status, placed.owner, placed.audit_lead,
      placed.executive, placed.inherent_rating, placed.inherent_score, placed.residual_rating, placed.residual_score,
      placed.risk_assessed_on, placed.audit_frequency_months, placed.last_audit_on, placed.last_audit_opinion,
      placed.regulatory_next_due_on, placed.custom, $2::text, $3::text, $4::text
    from placed
    cross join universe.reference_counter counter
    where placed.is_new
    returning 1 as one
  ),
  counted as (
    update universe.reference_counter counter
    set last_number = counter.last_number + fresh.count
    from (select count(*)::integer as count from placed where placed.is_new) as fresh
    where fresh.count > 0
  ),
  changed as (
    update universe.entity e
    set
      parent_id = placed.parent_id, name = placed.name, description = placed.description, type = placed.type,
      status = placed.status, owner = placed.owner, audit_lead = placed.audit_lead, executive = placed.executive,
      inherent_rating = placed.inherent_rating, inherent_score = placed.inherent_score,
      residual_rating = placed.residual_rating, residual_score = placed.residual_score,
      risk_assessed_on = placed.risk_assessed_on, audit_frequency_months = placed.audit_frequency_months,
      last_audit_on = placed.last_audit_on, last_audit_opinion = placed.last_audit_opinion,
      regulatory_next_due_on = placed.regulatory_next_due_on, custom = placed.custom,
      updated_at = now(), version = e.version + 1
    from placed
    where not placed.is_new and e.id = placed.id
      and (
        e.parent_id, e.name, e.description, e.type, e.status, e.owner, e.audit_lead, e.executive, e.inherent_rating,
        e.inherent_score, e.residual_rating, e.residual_score, e.risk_assessed_on, e.audit_frequency_months,
        e.last_audit_on, e.last_audit_opinion, e.regulatory_next_due_on, e.custom
      ) is distinct from (
        placed.parent_id, placed.name, placed.description, placed.type, placed.status, placed.owner, placed.audit_lead,
        placed.executive, placed.inherent_rating, placed.inherent_score, placed.residual_rating, placed.residual_score,
        placed.risk_assessed_on, placed.audit_frequency_months, placed.last_audit_on, placed.last_audit_opinion,
        placed.regulatory_next_due_on, placed.custom
      )
    returning 1 as one
  )
  select
    (select count(*)::integer from made) as created,
    (select count(*)::integer from changed) as updated`,
)

// The tree as the push would leave it: its rows, and the stored entities that it does not speak of. What no root leads
// to hangs in a circle. A branch that grows too deep is the fault of the row of the push that is nearest above. The walk
// ends at 200, far below what a push may ask for: its own chains have been measured before.
const misplacedRows = statement(
  'universe_misplaced_rows',
  `with recursive incoming as (
    select pushed.index, pushed.external_id, pushed.parent_external_id
    from jsonb_to_recordset($1::jsonb) as pushed (index integer, external_id text, parent_external_id text)
  ),
  link as materialized (
    select 'key:' || incoming.external_id as node, 'key:' || incoming.parent_external_id as parent, incoming.index
    from incoming
    union all
    select
      coalesce('key:' || e.external_id, 'id:' || e.id), coalesce('key:' || above.external_id, 'id:' || above.id), null
    from universe.entity e
    left join universe.entity above on above.tenant_id = e.tenant_id and above.id = e.parent_id
    where not exists (select from incoming where incoming.external_id = e.external_id)
  ),
  reached as (
    select link.node, 1 as depth, link.index
    from link
    where link.parent is null
    union all
    select link.node, reached.depth + 1, coalesce(link.index, reached.index)
    from reached
    join link on link.parent = reached.node
    where reached.depth < 200
  )
  select reached.index, 'too-deep' as fault
  from reached
  where reached.depth > $2::integer and reached.index is not null
  union
  select link.index, 'cycle'
  from link
  where link.index is not null and not exists (select from reached where reached.node = link.node)
  order by index`,
)
