import type { ImportPlan } from '@postern/contracts/internal'
import { getRow, statement } from '../sql/store.ts'
import { sha256Of } from './summary-store.ts'
import type { Import, Tx } from './store.ts'

const maxShown = 1000

/**
 * Finds people who lose access when an authoritative connector applies the run, besides those whom the run deactivates: they are
 * created as inactive, or have been inactive before the connector decided about access. `hash` identifies all of them.
 */
export async function findLockedOut(
  tx: Tx,
  { runId, connectorId }: Import,
): Promise<{ readonly lockedOut: NonNullable<ImportPlan['locked_out']>; readonly hash: string }> {
  const { total, keys, hash } = getRow(
    await tx.query<{ total: number; keys: string[]; hash: string }>(lockedOut([runId, connectorId, maxShown])),
  )
  return { lockedOut: { total, keys }, hash: sha256Of(hash) }
}

// Decides the status after the run as tenancy.find_person_status does. Served by import_row_pk, source_row_by_connector and
// directory_name_pk.
const lockedOut = statement(
  'universe_find_locked_out_people',
  `with planned as materialized (
    select r.source_key, r.op, r.content
    from universe.import_row r
    where r.run_id = $1::uuid and r.op in ('create', 'update', 'move', 'deactivate', 'reactivate', 'keep')
  ),
  inactive as materialized (
    select planned.source_key, planned.content ->> 'email' as email
    from planned
    where planned.op <> 'deactivate' and planned.content -> 'active' = 'false'
    union all
    select p.external_id, p.email
    from universe.source_row s
    join universe.person p on p.external_id = s.source_key
    where s.connector_id = $2::text and s.scope = 'people' and not p.active
      and not exists (select from planned where planned.source_key = s.source_key)
  ),
  named as (
    select inactive.source_key, p.id, tenancy.hash_name((select tenancy.tenant_id()), held.attribute, held.name) as hash
    from inactive
    left join universe.person p on p.external_id = inactive.source_key
    cross join lateral (
      values ('externalId', inactive.source_key), ('emails.value', inactive.email)
    ) as held (attribute, name)
    where held.name is not null
  ),
  by_source as (
    select
      named.source_key, named.hash, d.source,
      bool_or(d.is_current) as is_current,
      bool_or(d.is_active and d.is_current) as has_active,
      bool_or(d.is_active) as had_active,
      bool_or(d.is_active and d.is_current and d.source = 'people' and d.person_id is distinct from named.id) as is_kept
    from named
    left join tenancy.directory_name d on d.tenant_id = (select tenancy.tenant_id()) and d.hash = named.hash
    group by named.source_key, named.hash, d.source
  ),
  decided as (
    select
      by_source.source_key,
      bool_or(by_source.is_current and not by_source.has_active)
        or bool_or(by_source.is_kept)
        or not bool_or(coalesce(by_source.is_current, true)) and not bool_or(by_source.had_active) as stays
    from by_source
    group by by_source.source_key, by_source.hash
  ),
  losing as (
    select decided.source_key
    from decided
    where decided.stays is not true
    group by decided.source_key
  )
  select
    count(*)::integer as total,
    coalesce((array_agg(losing.source_key order by losing.source_key))[1:$3::integer], '{}') as keys,
    coalesce(encode(sha256(string_agg(sha256(convert_to(losing.source_key, 'UTF8')), '' order by losing.source_key)), 'hex'), '') as hash
  from losing`,
)
