-- The universe is told, at the end of a run, which entities a connector brings and which its source has lost: what it has not been
-- told yet is marked, so that a run costs as many of these rows as have changed, and what a worker that died has not told is told by
-- the next one.
--
-- holds up writes: one index over the known rows of entities, less than a second for each million of them.

alter table sync.known_row add column told boolean not null default false;
comment on column sync.known_row.told is
  'Of entities: the universe knows that this connector brings the row, and since when it is missing.';
create index known_row_untold on sync.known_row (tenant_id, connector_id, scope, source_key)
  where not told and scope = 'auditable_entities';

alter table sync.connector add column telling integer not null default 0;
comment on column sync.connector.telling is
  'How often a worker has begun to tell the universe. By it the universe knows who comes too late. Not a change of the connector.';
