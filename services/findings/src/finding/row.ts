import type { StoredFinding } from './rules.ts'

/** A finding as PostgreSQL gives it. */
export interface FindingRow extends Omit<StoredFinding, 'created_by' | 'created_at' | 'updated_at'> {
  readonly created_by_type: StoredFinding['created_by']['type']
  readonly created_by_id: string
  readonly created_by_label: string
  readonly created_at: Date
  readonly updated_at: Date
}

export function toFinding(row: FindingRow): StoredFinding {
  const { created_by_type: type, created_by_id: id, created_by_label: label, created_at, updated_at, ...same } = row
  return {
    ...same,
    created_by: { type, id, label },
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  }
}

/**
 * What is stored of a finding `f`. Row level security narrows every statement to the tenant of the assertion: none of
 * them names one but to insert it.
 */
export const storedColumns = `
  f.id, f.reference, f.external_id, f.title, f.condition, f.criteria, f.cause, f.consequence, f.corrective_action,
  f.cause_category, f.severity, f.type, f.deficiency_class, f.coso_component, f.status, f.owner,
  f.identified_on as identified_date, f.target_on as target_date, f.closed_on as closed_date,
  f.reopened_count, f.accepted_until, f.accepted_by, f.validated_by, f.repeat_of_id, f.source, f.engagement_ref, f.test_procedure_id, f.management_response, f.custom,
  f.created_by_type, f.created_by_id, f.created_by_label, f.created_at, f.updated_at, f.version`

/** With the links of the finding, read by finding_entity_position_unique. */
export const columns = `${storedColumns},
  array(
    select link.entity_id
    from findings.finding_entity link
    where link.tenant_id = f.tenant_id and link.finding_id = f.id
    order by link.position
  ) as entity_ids`

/** What a client reads of a finding `t` on the day `$1`, by the names that it has there. */
export const jsonColumns = `
  t.id, t.reference, t.external_id, t.title, t.condition, t.criteria, t.cause, t.consequence, t.corrective_action,
  t.cause_category, t.severity, t.type, t.deficiency_class, t.coso_component, t.status,
  array(
    select link.entity_id
    from findings.finding_entity link
    where link.tenant_id = t.tenant_id and link.finding_id = t.id
    order by link.position
  ) as entity_ids,
  t.owner, t.identified_on as identified_date, t.target_on as target_date, t.repeat_of_id,
  t.repeat_of_id is not null as is_repeat, t.source, t.engagement_ref, t.test_procedure_id, t.management_response,
  t.status not in ('closed', 'risk_accepted', 'cancelled') and t.target_on < $1::date as is_overdue,
  greatest(0, coalesce(t.closed_on, $1::date) - t.identified_on) as age_days,
  t.closed_on as closed_date, t.reopened_count, t.accepted_until, t.accepted_by,
  coalesce(t.accepted_until < $1::date, false) as is_acceptance_expired, t.validated_by, t.custom,
  json_build_object('type', t.created_by_type, 'id', t.created_by_id, 'label', t.created_by_label) as created_by,
  to_char(t.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at,
  to_char(t.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as updated_at, t.version`
