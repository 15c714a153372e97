import type { ResourceAddress } from '@postern/contracts'
import { type Statement, type Tx, statement, toResource } from '@postern/tenant-db'
import { NoFreeNumberError, findingNumbers } from '../reference/store.ts'
import { jsonOrNull } from '../sql/store.ts'
import { type FindingRow, columns, storedColumns } from './row.ts'
import type { NewFinding, StoredFinding } from './rules.ts'

export async function findFindingId(tx: Tx, address: ResourceAddress): Promise<string | undefined> {
  const rows = await tx.query<{ id: string }>(idStatement(address))
  return rows[0]?.id
}

/** Locks a finding, and with it its recommendations, plans and log. */
export async function lockFinding(tx: Tx, address: ResourceAddress): Promise<StoredFinding | undefined> {
  if (address.by === 'external-id') return await lockNamed(tx, address)
  const [, stored] = await Promise.all([
    tx.query(lockStatement(address)),
    // Sees what the previous lock holder committed.
    findFinding(tx, address),
  ])
  return stored
}

/** Reads by the locked id, because the previous lock holder may have given the external id to another finding. */
async function lockNamed(tx: Tx, address: ResourceAddress): Promise<StoredFinding | undefined> {
  const lock = async () => (await tx.query<{ id: string }>(lockStatement(address)))[0]?.id
  // The second attempt sees an external id that another transaction moved during the first.
  const id = (await lock()) ?? (await lock())
  return id === undefined ? undefined : await findFinding(tx, { by: 'id', id })
}

export interface FindingProgress {
  /** Not rejected or cancelled. */
  readonly livePlans: number
  readonly unfinishedPlans: number
  readonly approvedPlans: number
  readonly plansUnderWay: number
  /** Whether evidence was added since the last reopening or failed validation. */
  readonly hasEvidence: boolean
  /** Whether all recommendations that are not superseded were rejected. */
  readonly isRejected: boolean
}

interface ProgressRow {
  readonly live: number
  readonly unfinished: number
  readonly proposed: number
  readonly evidence: boolean
  readonly rejected: boolean
}

export async function findProgress(tx: Tx, findingId: string): Promise<FindingProgress> {
  const [row] = await tx.query<ProgressRow>(progress([findingId]))
  if (row === undefined) throw new Error('the progress of a finding returned no row')
  return {
    livePlans: row.live,
    unfinishedPlans: row.unfinished,
    approvedPlans: row.live - row.proposed,
    plansUnderWay: row.unfinished - row.proposed,
    hasEvidence: row.evidence,
    isRejected: row.rejected,
  }
}

/** The database sets the closing day. */
export async function updateFinding(tx: Tx, before: StoredFinding, after: StoredFinding): Promise<StoredFinding> {
  const isRelinked = after.entity_ids.join() !== before.entity_ids.join()
  const [rows] = await Promise.all([
    tx.query<FindingRow>(
      updateStatement([
        after.id,
        after.external_id,
        after.title,
        after.condition,
        after.criteria,
        after.cause,
        after.consequence,
        after.corrective_action,
        after.cause_category,
        after.severity,
        after.type,
        after.deficiency_class,
        after.coso_component,
        after.status,
        jsonOrNull(after.owner),
        after.identified_date,
        after.target_date,
        after.repeat_of_id,
        after.source,
        after.engagement_ref,
        after.test_procedure_id,
        jsonOrNull(after.management_response),
        JSON.stringify(after.custom),
        after.reopened_count,
        after.accepted_until,
        jsonOrNull(after.accepted_by),
        jsonOrNull(after.validated_by),
        after.entity_ids,
      ]),
    ),
    ...(isRelinked
      ? [tx.execute(unlinkEntities([after.id])), tx.execute(linkEntities([after.id, after.entity_ids]))]
      : []),
  ])
  const row = rows[0]
  if (row === undefined) throw new Error('the update of a finding returned no row')
  return toResource(row)
}

export async function findFinding(tx: Tx, address: ResourceAddress): Promise<StoredFinding | undefined> {
  const rows = await tx.query<FindingRow>(findStatement(address))
  return rows[0] === undefined ? undefined : toResource(rows[0])
}

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
  if (row === undefined) throw new NoFreeNumberError(findingNumbers)
  return toResource(row)
}

function idStatement(address: ResourceAddress): Statement {
  switch (address.by) {
    case 'id':
      return idById([address.id])
    case 'reference':
      return idByReference([address.reference])
    case 'external-id':
      return idByExternalId([address.externalId])
    default:
      return address satisfies never
  }
}

function lockStatement(address: ResourceAddress): Statement {
  switch (address.by) {
    case 'id':
      return lockById([address.id])
    case 'reference':
      return lockByReference([address.reference])
    case 'external-id':
      return lockByExternalId([address.externalId])
    default:
      return address satisfies never
  }
}

// `no key update` does not block foreign key checks.
const [byId, byReference, byExternalId] = ['id = $1::uuid', 'reference = $1::text', 'external_id = $1::text'].map(
  (condition) => `select f.id from findings.finding f where f.${condition}`,
)
const idById = statement('findings_id_by_id', `${byId}`)
const idByReference = statement('findings_id_by_reference', `${byReference}`)
const idByExternalId = statement('findings_id_by_external_id', `${byExternalId}`)
const lockById = statement('findings_lock_by_id', `${byId} for no key update`)
const lockByReference = statement('findings_lock_by_reference', `${byReference} for no key update`)
const lockByExternalId = statement('findings_lock_by_external_id', `${byExternalId} for no key update`)

// action_plan_of_finding_unique
const progress = statement(
  'findings_progress',
  `select
    count(*) filter (where p.status not in ('rejected', 'cancelled'))::integer as live,
    count(*) filter (where p.status not in ('rejected', 'cancelled', 'implemented', 'verified'))::integer as unfinished,
    count(*) filter (where p.status = 'proposed')::integer as proposed,
    findings.has_fresh_evidence((select tenancy.tenant_id()), $1::uuid) as evidence,
    coalesce((
      select bool_and(r.status = 'rejected')
      from findings.recommendation r
      where r.finding_id = $1::uuid and r.status <> 'superseded'
    ), false) as rejected
  from findings.action_plan p
  where p.finding_id = $1::uuid`,
)

// finding_pk
const updateStatement = statement(
  'findings_update',
  `update findings.finding as f
  set external_id = $2, title = $3, condition = $4, criteria = $5, cause = $6, consequence = $7, corrective_action = $8,
    cause_category = $9, severity = $10, type = $11, deficiency_class = $12, coso_component = $13, status = $14,
    owner = $15::jsonb, identified_on = $16::date, target_on = $17::date, repeat_of_id = $18::uuid, source = $19,
    engagement_ref = $20, test_procedure_id = $21::uuid, management_response = $22::jsonb, custom = $23::jsonb,
    reopened_count = $24::integer, accepted_until = $25::date, accepted_by = $26::jsonb, validated_by = $27::jsonb,
    closed_on = case when $14 = 'closed' then coalesce(f.closed_on, (now() at time zone 'UTC')::date) end,
    updated_at = now(), version = f.version + 1
  where f.id = $1::uuid
  returning ${storedColumns}, $28::uuid[] as entity_ids`,
)

const unlinkEntities = statement(
  'findings_unlink_entities',
  'delete from findings.finding_entity link where link.finding_id = $1::uuid',
)

const linkEntities = statement(
  'findings_link_entities',
  `insert into findings.finding_entity (tenant_id, finding_id, entity_id, position)
  select (select tenancy.tenant_id()), $1::uuid, entity.id, entity.position::smallint
  from unnest($2::uuid[]) with ordinality as entity (id, position)`,
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

// Days come from the database's clock.
const insertStatement = statement(
  'findings_insert',
  `with today as (
    select (now() at time zone 'UTC')::date as day
  ),${findingNumbers.next()},
  f as (
    insert into findings.finding as made (
      tenant_id, year, number, external_id, title, condition, criteria, cause, consequence, corrective_action,
      cause_category, severity, type, deficiency_class, coso_component, status, owner, identified_on, target_on,
      repeat_of_id, source, engagement_ref, test_procedure_id, management_response, custom, created_by_type,
      created_by_id, created_by_label
    )
    select
      next.tenant_id, next.year, next.number, $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text,
      $8::text, $9::text, $10::text, $11::text, $12::text, $13::text, $14::jsonb, coalesce($15::date, today.day),
      coalesce($16::date, coalesce($15::date, today.day) + $17::integer),
      $18::uuid, $19::text, $20::text, $21::uuid, $22::jsonb, $23::jsonb, $24::text,
      $25::text, $26::text
    from next cross join today
    returning
      made.tenant_id, made.id, made.reference, made.external_id, made.title, made.condition, made.criteria, made.cause,
      made.consequence, made.corrective_action, made.cause_category, made.severity, made.type, made.deficiency_class,
      made.coso_component, made.status, made.owner, made.identified_on, made.target_on, made.closed_on,
      made.reopened_count, made.accepted_until, made.accepted_by, made.validated_by, made.repeat_of_id, made.source, made.engagement_ref, made.test_procedure_id,
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
