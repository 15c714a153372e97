import type { EntitySourcesBody } from '@postern/contracts/internal'
import { type Tx, arrayLiteral, statement } from '@postern/tenant-db'
import { lockTree } from '../push/store.ts'

/**
 * Locks the connector until the transaction ends. With rows it also locks the tenant's entities, in the order of a push, to
 * prevent deadlocks. Returns false if a later report was applied.
 */
export async function openTelling(
  tx: Tx,
  connectorId: string,
  { telling, rows, retired }: EntitySourcesBody,
): Promise<boolean> {
  if (rows.length > 0) await lockTree(tx)
  return (await tx.execute(open([connectorId, telling, retired]))) > 0
}

/** Records, by external id, that the connector brings entities, and since when its source lacks them. */
export async function noteSources(tx: Tx, connectorId: string, rows: EntitySourcesBody['rows']): Promise<number> {
  return await tx.execute(
    note([
      connectorId,
      arrayLiteral(rows.map(({ external_id: key }) => key)),
      arrayLiteral(rows.map(({ missing_since: since }) => since)),
    ]),
  )
}

/** Records when a run read the source completely. A repetition changes nothing. */
export async function completeReading(
  tx: Tx,
  connectorId: string,
  { run_id: runId, at }: NonNullable<EntitySourcesBody['read']>,
): Promise<void> {
  await tx.execute(complete([connectorId, runId, at]))
}

// source_connector_pk
const open = statement(
  'universe_open_telling',
  `insert into universe.source_connector as s (tenant_id, connector_id, telling, retired_at)
  values ((select tenancy.tenant_id()), $1::text, $2::integer, case when $3::boolean then now() end)
  on conflict (tenant_id, connector_id) do update
  set telling = excluded.telling, retired_at = case when $3::boolean then coalesce(s.retired_at, now()) end
  where s.telling <= excluded.telling`,
)

const complete = statement(
  'universe_complete_reading',
  `update universe.source_connector s
  set seen_at = greatest(s.seen_at, least($3::timestamptz, now())), seen_run_id = $2::uuid
  where s.connector_id = $1::text and s.seen_run_id is distinct from $2::uuid`,
)

// entity_external_id_unique, once a key. What the connector has made itself is its own without being said; what is missing was last
// there when its source was read to its end before. A row that reads as before is not written.
const note = statement(
  'universe_note_sources',
  `with told as materialized (
    select
      known.id, given.missing_since,
      case when not known.is_made_by_it then $1::text end as connector_id,
      case
        when known.is_made_by_it then null
        when known.source_connector_id = $1::text then known.source_first_seen_at
        else least(now(), given.missing_since)
      end as first_seen_at,
      case when given.missing_since is not null then
        coalesce(
          case when known.is_its then coalesce(
            known.source_last_seen_at,
            greatest(
              (select s.seen_at from universe.source_connector s where s.connector_id = $1::text),
              case when known.is_made_by_it then known.created_at else known.source_first_seen_at end
            )
          ) end,
          least(now(), given.missing_since)
        )
      end as last_seen_at
    from unnest($2::text[], $3::timestamptz[]) as given (external_id, missing_since)
    cross join lateral (
      select
        e.id, e.created_at, e.source_connector_id, e.source_first_seen_at, e.source_last_seen_at,
        made.by_it as is_made_by_it, coalesce(e.source_connector_id = $1::text, made.by_it) as is_its
      from universe.entity e
      cross join lateral (select e.created_by_type = 'connector' and e.created_by_id = $1::text as by_it) as made
      where e.external_id = given.external_id
      limit 1
    ) as known
  )
  update universe.entity e
  set
    source_connector_id = told.connector_id, source_first_seen_at = told.first_seen_at,
    source_last_seen_at = told.last_seen_at, source_missing_since = told.missing_since,
    updated_at = now(), version = e.version + 1
  from told
  where e.id = told.id
    and (e.source_connector_id, e.source_first_seen_at, e.source_last_seen_at, e.source_missing_since)
      is distinct from (told.connector_id, told.first_seen_at, told.last_seen_at, told.missing_since)`,
)
