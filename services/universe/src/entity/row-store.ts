import type { StoredEntity } from './rules.ts'

export interface EntityRow extends Omit<
  StoredEntity,
  'created_by' | 'created_at' | 'updated_at' | 'inherent_risk' | 'residual_risk' | 'source'
> {
  readonly number: number
  readonly path: string | null
  readonly inherent_rating: Risk['rating'] | null
  readonly inherent_score: number | null
  readonly residual_rating: Risk['rating'] | null
  readonly residual_score: number | null
  readonly created_by_type: StoredEntity['created_by']['type']
  readonly created_by_id: string
  readonly created_by_label: string
  readonly created_at: Date
  readonly updated_at: Date
  readonly source_connector_id: string | null
  readonly source_first_seen_at: Date
  readonly source_last_seen_at: Date
  readonly source_missing_since: Date | null
}

type Risk = NonNullable<StoredEntity['inherent_risk']>

export function toEntity(row: EntityRow): StoredEntity {
  const {
    number: _number,
    path: _path,
    inherent_rating,
    inherent_score,
    residual_rating,
    residual_score,
    ...rest
  } = row
  const { created_by_type: type, created_by_id: id, created_by_label: label, created_at, updated_at, ...more } = rest
  const { source_connector_id, source_first_seen_at, source_last_seen_at, source_missing_since, ...same } = more
  return {
    ...same,
    source:
      source_connector_id === null || same.external_id === null
        ? null
        : {
            connector_id: source_connector_id,
            source_key: same.external_id,
            first_seen_at: source_first_seen_at.toISOString(),
            last_seen_at: source_last_seen_at.toISOString(),
            missing_since: source_missing_since?.toISOString() ?? null,
          },
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

// Most entities are brought by the connector that created them, and get their source from `entitySource`.
const firstSeen = 'coalesce(e.source_first_seen_at, e.created_at)'
const sourceColumns = `
  s.connector_id as source_connector_id, ${firstSeen} as source_first_seen_at,
  coalesce(e.source_last_seen_at, greatest(s.seen_at, ${firstSeen})) as source_last_seen_at, e.source_missing_since`
const connectorOf = `
  coalesce(e.source_connector_id, case when e.created_by_type = 'connector' then e.created_by_id end)`
/** SQL: joins the entity `e` to the connector `s` that brings it. Retired connectors bring nothing. */
export const entitySource = `
  left join universe.source_connector s
    on s.tenant_id = e.tenant_id and s.connector_id = ${connectorOf} and s.retired_at is null`

export const storedColumns = `
  e.number, e.id, e.reference, e.external_id, e.name, e.description, e.type, e.status, e.parent_id, e.owner,
  e.audit_lead, e.executive, e.inherent_rating, e.inherent_score, e.residual_rating, e.residual_score,
  e.risk_assessed_on as risk_assessed_at, e.audit_frequency_months, e.last_audit_on as last_audit_date,
  e.last_audit_opinion, e.regulatory_next_due_on as regulatory_next_due, e.next_audit_due_on as next_audit_due,
  e.custom, ${sourceColumns}, e.created_by_type, e.created_by_id, e.created_by_label, e.created_at, e.updated_at,
  e.version`
