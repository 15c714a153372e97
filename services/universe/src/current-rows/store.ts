import type { Connector } from '@postern/contracts'
import type { CurrentRowsAnswer } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'
import { byDataset } from '../import/by-dataset-store.ts'
import { scopeOf } from '../import/rules.ts'
import { readByIndexes } from '../list/store.ts'

type Dataset = Connector['dataset']

/** Returns the rows of known keys, in the form of a push. */
export async function listCurrentRows(
  tx: Tx,
  {
    dataset,
    hierarchy,
    keys,
  }: { readonly dataset: Dataset; readonly hierarchy?: string; readonly keys: readonly string[] },
): Promise<CurrentRowsAnswer['rows']> {
  const asked = current(scopeOf(dataset, hierarchy), [keys])
  const [, rows] = await Promise.all([readByIndexes(tx), tx.query<CurrentRowsAnswer['rows'][number]>(asked)])
  return rows
}

// Finds the first row not before the key. With an equality, PostgreSQL might read all rows of the tenant for each key.
const oneOf = (table: string, name: string, [column, wanted]: readonly [string, string], within: string): string =>
  `lateral (
      select one.* from universe.${table} one
      where ${within}one.${column} >= ${wanted}
      order by one.${column}
      limit 1
    ) as ${name} on ${name}.${column} = ${wanted}`
const ofTenantSql = (owner: string): string => `one.tenant_id = ${owner}.tenant_id and `
const linkedEntitiesSql = (owner: string): string => `(
        select jsonb_agg(e.external_id order by named.at)
        from unnest(${owner}.entity_ids) with ordinality as named (id, at)
        join ${oneOf('entity', 'e', ['id', 'named.id'], ofTenantSql(owner))}
      )`

/** Returns SQL that selects stored rows as `key` and `row`, in the form of a push. `wanted`: a relation with the column `key`. */
export function currentRowsSql(dataset: Dataset, wanted: string, hierarchy: string): string {
  return dataset === 'org_structure' ? nodesOf(wanted, hierarchy) : selections[dataset](wanted)
}

const entitiesOf = (wanted: string): string => `
  select
    e.external_id as key,
    jsonb_strip_nulls(jsonb_build_object(
      'external_id', e.external_id, 'parent_external_id', above.external_id, 'name', e.name,
      'description', e.description, 'type', e.type, 'status', e.status, 'owner', e.owner, 'audit_lead', e.audit_lead,
      'executive', e.executive,
      'inherent_risk', case when e.inherent_rating is not null then
        jsonb_build_object('rating', e.inherent_rating, 'score', e.inherent_score) end,
      'residual_risk', case when e.residual_rating is not null then
        jsonb_build_object('rating', e.residual_rating, 'score', e.residual_score) end,
      'risk_assessed_at', e.risk_assessed_on, 'audit_frequency_months', e.audit_frequency_months,
      'last_audit_date', e.last_audit_on, 'last_audit_opinion', e.last_audit_opinion,
      'regulatory_next_due', e.regulatory_next_due_on
    )) || case when e.custom = '{}' then '{}' else jsonb_build_object('custom', e.custom) end as row
  from ${wanted} as wanted
  join ${oneOf('entity', 'e', ['external_id', 'wanted.key'], '')}
  left join ${oneOf('entity', 'above', ['id', 'e.parent_id'], ofTenantSql('e'))}`

const testProceduresOf = (wanted: string): string => `
  select
    t.external_id as key,
    jsonb_strip_nulls(jsonb_build_object(
      'external_id', t.external_id, 'title', t.title, 'control_ref', t.control_ref, 'objective', t.objective,
      'procedure_text', t.procedure_text, 'method', t.method, 'test_type', t.test_type,
      'engagement_ref', t.engagement_ref, 'period_start', t.period_start_on, 'period_end', t.period_end_on,
      'population_size', t.population_size, 'sample_size', t.sample_size, 'tester', t.tester, 'reviewer', t.reviewer,
      'due_date', t.due_on, 'status', t.status, 'conclusion', t.conclusion,
      'entities', ${linkedEntitiesSql('t')}
    )) || case when t.custom = '{}' then '{}' else jsonb_build_object('custom', t.custom) end as row
  from ${wanted} as wanted
  join ${oneOf('test_procedure', 't', ['external_id', 'wanted.key'], '')}`

const peopleOf = (wanted: string): string => `
  select
    p.external_id as key,
    jsonb_strip_nulls(jsonb_build_object(
      'external_id', p.external_id, 'name', p.name, 'email', p.email, 'title', p.title, 'active', p.active
    )) as row
  from ${wanted} as wanted
  join ${oneOf('person', 'p', ['external_id', 'wanted.key'], '')}`

const selections = { auditable_entities: entitiesOf, test_procedures: testProceduresOf, people: peopleOf } as const

const nodesOf = (wanted: string, hierarchy: string): string => `
  select
    n.node_key as key,
    jsonb_strip_nulls(jsonb_build_object(
      'node_key', n.node_key, 'parent_key', above.node_key, 'name', n.name, 'level_name', n.level_name, 'head', n.head,
      'status', n.status, 'valid_from', n.valid_from, 'valid_to', n.valid_to,
      'entities', ${linkedEntitiesSql('n')}
    )) as row
  from universe.hierarchy h
  cross join ${wanted} as wanted
  join ${oneOf('node', 'n', ['node_key', 'wanted.key'], `${ofTenantSql('h')}one.hierarchy_id = h.id and `)}
  left join ${oneOf('node', 'above', ['id', 'n.parent_id'], ofTenantSql('n'))}
  where h.key = ${hierarchy}`

const current = byDataset('universe_current', (dataset) =>
  currentRowsSql(dataset, '(select unnest($1::text[]) as key)', '$2::text'),
)
