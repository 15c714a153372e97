import { objectText, plainText, present, scalarText, timeText, truthText, wordText } from '../json-text.ts'
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
 * them names one but to insert it. Nor does what is looked up for each row hold its tenant against the row's: PostgreSQL would do that for each.
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
    where link.finding_id = f.id
    order by link.position
  ) as entity_ids`

/** What a client reads of a finding `t` on the day `$1`, as a text of JSON. */
export const jsonText = objectText({
  id: present(wordText('t.id')),
  reference: present(wordText('t.reference')),
  external_id: scalarText('t.external_id'),
  title: present(scalarText('t.title')),
  condition: present(scalarText('t.condition')),
  criteria: scalarText('t.criteria'),
  cause: scalarText('t.cause'),
  consequence: scalarText('t.consequence'),
  corrective_action: scalarText('t.corrective_action'),
  cause_category: wordText('t.cause_category'),
  severity: present(wordText('t.severity')),
  type: present(wordText('t.type')),
  deficiency_class: wordText('t.deficiency_class'),
  coso_component: wordText('t.coso_component'),
  status: present(wordText('t.status')),
  entity_ids: present(
    plainText(`select coalesce('["' || string_agg(link.entity_id::text, '","' order by link.position) || '"]', '[]')
    from findings.finding_entity link
    where link.finding_id = t.id`),
  ),
  owner: plainText('t.owner'),
  identified_date: present(scalarText('t.identified_on')),
  target_date: present(scalarText('t.target_on')),
  repeat_of_id: wordText('t.repeat_of_id'),
  is_repeat: truthText('t.repeat_of_id is not null'),
  source: wordText('t.source'),
  engagement_ref: scalarText('t.engagement_ref'),
  test_procedure_id: wordText('t.test_procedure_id'),
  management_response: plainText('t.management_response'),
  is_overdue: truthText(`t.status not in ('closed', 'risk_accepted', 'cancelled') and t.target_on < $1::date`),
  age_days: present(plainText('greatest(0, coalesce(t.closed_on, $1::date) - t.identified_on)')),
  closed_date: scalarText('t.closed_on'),
  reopened_count: present(plainText('t.reopened_count')),
  accepted_until: scalarText('t.accepted_until'),
  accepted_by: plainText('t.accepted_by'),
  is_acceptance_expired: truthText('t.accepted_until < $1::date'),
  validated_by: plainText('t.validated_by'),
  custom: present(plainText('t.custom')),
  created_by: present(
    plainText(
      objectText({
        type: present(wordText('t.created_by_type')),
        id: present(scalarText('t.created_by_id')),
        label: present(scalarText('t.created_by_label')),
      }),
    ),
  ),
  created_at: present(timeText('t.created_at')),
  updated_at: present(timeText('t.updated_at')),
  version: present(plainText('t.version')),
})
