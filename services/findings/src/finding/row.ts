import type { ResourceRow } from '@postern/tenant-db'
import { objectText, rawText, notNull, scalarText, timeText, booleanText, unescapedText } from '../json-text.ts'
import type { StoredFinding } from './rules.ts'

export type FindingRow = ResourceRow<StoredFinding>

/** Row-level security selects the tenant. */
export const storedColumns = `
  f.id, f.reference, f.external_id, f.title, f.condition, f.criteria, f.cause, f.consequence, f.corrective_action,
  f.cause_category, f.severity, f.type, f.deficiency_class, f.coso_component, f.status, f.owner,
  f.identified_on as identified_date, f.target_on as target_date, f.closed_on as closed_date,
  f.reopened_count, f.accepted_until, f.accepted_by, f.validated_by, f.repeat_of_id, f.source, f.engagement_ref, f.test_procedure_id, f.management_response, f.custom,
  f.created_by_type, f.created_by_id, f.created_by_label, f.created_at, f.updated_at, f.version`

export const columns = `${storedColumns},
  array(
    select link.entity_id
    from findings.finding_entity link
    where link.finding_id = f.id
    order by link.position
  ) as entity_ids`

export const jsonText = objectText({
  id: notNull(unescapedText('t.id')),
  reference: notNull(unescapedText('t.reference')),
  external_id: scalarText('t.external_id'),
  title: notNull(scalarText('t.title')),
  condition: notNull(scalarText('t.condition')),
  criteria: scalarText('t.criteria'),
  cause: scalarText('t.cause'),
  consequence: scalarText('t.consequence'),
  corrective_action: scalarText('t.corrective_action'),
  cause_category: unescapedText('t.cause_category'),
  severity: notNull(unescapedText('t.severity')),
  type: notNull(unescapedText('t.type')),
  deficiency_class: unescapedText('t.deficiency_class'),
  coso_component: unescapedText('t.coso_component'),
  status: notNull(unescapedText('t.status')),
  entity_ids: notNull(
    rawText(`select coalesce('["' || string_agg(link.entity_id::text, '","' order by link.position) || '"]', '[]')
    from findings.finding_entity link
    where link.finding_id = t.id`),
  ),
  owner: rawText('t.owner'),
  identified_date: notNull(scalarText('t.identified_on')),
  target_date: notNull(scalarText('t.target_on')),
  repeat_of_id: unescapedText('t.repeat_of_id'),
  is_repeat: booleanText('t.repeat_of_id is not null'),
  source: unescapedText('t.source'),
  engagement_ref: scalarText('t.engagement_ref'),
  test_procedure_id: unescapedText('t.test_procedure_id'),
  management_response: rawText('t.management_response'),
  is_overdue: booleanText(`t.status not in ('closed', 'risk_accepted', 'cancelled') and t.target_on < $1::date`),
  age_days: notNull(rawText('greatest(0, coalesce(t.closed_on, $1::date) - t.identified_on)')),
  closed_date: scalarText('t.closed_on'),
  reopened_count: notNull(rawText('t.reopened_count')),
  accepted_until: scalarText('t.accepted_until'),
  accepted_by: rawText('t.accepted_by'),
  is_acceptance_expired: booleanText('t.accepted_until < $1::date'),
  validated_by: rawText('t.validated_by'),
  custom: notNull(rawText('t.custom')),
  created_by: notNull(
    rawText(
      objectText({
        type: notNull(unescapedText('t.created_by_type')),
        id: notNull(scalarText('t.created_by_id')),
        label: notNull(scalarText('t.created_by_label')),
      }),
    ),
  ),
  created_at: notNull(timeText('t.created_at')),
  updated_at: notNull(timeText('t.updated_at')),
  version: notNull(rawText('t.version')),
})
