import type { CurrentRowsAnswer, CurrentRowsBody } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'
import { readByIndexes, statement } from '../list/store.ts'

/** The rows with these keys as they stand, each as a push would say it; keys that nothing has are left out. */
export async function listCurrentRows(
  tx: Tx,
  { dataset, hierarchy, keys }: CurrentRowsBody,
): Promise<CurrentRowsAnswer['rows']> {
  const [, rows] = await Promise.all([
    readByIndexes(tx),
    tx.query<CurrentRowsAnswer['rows'][number]>(
      dataset === 'org_structure' ? nodes([keys, hierarchy]) : selections[dataset]([keys]),
    ),
  ])
  return rows
}

// A row is looked up by an index once a key, whatever PostgreSQL takes the tables for: joined, or with a plan of when there were few
// rows, it would read all of a tenant's for each request.
const oneOf = (table: string, columns: string, condition: string): string =>
  `lateral (select ${columns} from universe.${table} one where ${condition} limit 1)`
const linked = (owner: string): string => `(
        select jsonb_agg(e.external_id order by named.at)
        from unnest(${owner}.entity_ids) with ordinality as named (id, at)
        cross join ${oneOf('entity', 'one.external_id', `one.tenant_id = ${owner}.tenant_id and one.id = named.id`)} as e
      )`

// entity_external_id_unique, once a key.
const entities = statement(
  'universe_current_entities',
  `select
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
  from unnest($1::text[]) as wanted (external_id)
  cross join ${oneOf('entity', 'one.*', 'one.external_id = wanted.external_id')} as e
  left join ${oneOf('entity', 'one.external_id', 'one.tenant_id = e.tenant_id and one.id = e.parent_id')} as above on true`,
)

// test_procedure_external_id_unique, once a key; entity_pk, once an entity that is named.
const testProcedures = statement(
  'universe_current_test_procedures',
  `select
    t.external_id as key,
    jsonb_strip_nulls(jsonb_build_object(
      'external_id', t.external_id, 'title', t.title, 'control_ref', t.control_ref, 'objective', t.objective,
      'procedure_text', t.procedure_text, 'method', t.method, 'test_type', t.test_type,
      'engagement_ref', t.engagement_ref, 'period_start', t.period_start_on, 'period_end', t.period_end_on,
      'population_size', t.population_size, 'sample_size', t.sample_size, 'tester', t.tester, 'reviewer', t.reviewer,
      'due_date', t.due_on, 'status', t.status, 'conclusion', t.conclusion,
      'entities', ${linked('t')}
    )) || case when t.custom = '{}' then '{}' else jsonb_build_object('custom', t.custom) end as row
  from unnest($1::text[]) as wanted (external_id)
  cross join ${oneOf('test_procedure', 'one.*', 'one.external_id = wanted.external_id')} as t`,
)

// person_external_id_unique, once a key.
const people = statement(
  'universe_current_people',
  `select
    p.external_id as key,
    jsonb_strip_nulls(jsonb_build_object(
      'external_id', p.external_id, 'name', p.name, 'email', p.email, 'title', p.title, 'active', p.active
    )) as row
  from unnest($1::text[]) as wanted (external_id)
  cross join ${oneOf('person', 'one.*', 'one.external_id = wanted.external_id')} as p`,
)

const selections = { auditable_entities: entities, test_procedures: testProcedures, people } as const

// node_key_unique, once a key.
const nodes = statement(
  'universe_current_nodes',
  `select
    n.node_key as key,
    jsonb_strip_nulls(jsonb_build_object(
      'node_key', n.node_key, 'parent_key', above.node_key, 'name', n.name, 'level_name', n.level_name, 'head', n.head,
      'status', n.status, 'valid_from', n.valid_from, 'valid_to', n.valid_to,
      'entities', ${linked('n')}
    )) as row
  from universe.hierarchy h
  cross join unnest($1::text[]) as wanted (node_key)
  cross join ${oneOf(
    'node',
    'one.*',
    'one.tenant_id = h.tenant_id and one.hierarchy_id = h.id and one.node_key = wanted.node_key',
  )} as n
  left join ${oneOf('node', 'one.node_key', 'one.tenant_id = n.tenant_id and one.id = n.parent_id')} as above on true
  where h.key = $2::text`,
)
