-- Where an entity comes from: which connector brings it, since when, and since when its source has it no longer.
--
-- suits the running release: it writes none of the new columns, and leaves them empty.
--
-- Nobody reads or writes entities while this file is committed: it looks at no row. The index and the look at what is there are files
-- of their own.

-- When a source was last read to its end is one row a connector, and not one an entity: most entities are there in each run.
create table universe.source_connector (
  tenant_id uuid not null,
  connector_id text not null,
  telling integer not null,
  retired_at timestamptz(3),
  seen_at timestamptz(3),
  seen_run_id uuid,
  constraint source_connector_pk primary key (tenant_id, connector_id),
  constraint source_connector_id_form check (connector_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'),
  constraint source_connector_telling_positive check (telling > 0),
  constraint source_connector_seen_whole check ((seen_at is null) = (seen_run_id is null))
);
comment on table universe.source_connector is
  'Connectors that bring entities. What an entity was made by that is not among them is no source.';
comment on column universe.source_connector.telling is
  'The number of the last telling of the connector that was taken in: one with a lower number comes too late.';
comment on column universe.source_connector.retired_at is 'Since when it brings nothing, and is no source of anything.';
comment on column universe.source_connector.seen_at is
  'When its source was last read to its end, hence when it last had each entity that is not missing.';

alter table universe.entity
  add column source_connector_id text,
  add column source_first_seen_at timestamptz(3),
  add column source_last_seen_at timestamptz(3),
  add column source_missing_since timestamptz(3),
  add constraint entity_source_whole check (
    (source_connector_id is null) = (source_first_seen_at is null)
    and (source_last_seen_at is null) = (source_missing_since is null)
  ) not valid;
comment on column universe.entity.source_connector_id is
  'The connector that brings the entity, where it is not the one that has made it.';
comment on column universe.entity.source_first_seen_at is 'Since when that connector brings it.';
comment on column universe.entity.source_last_seen_at is 'Of what is missing: when its source was last read and had it.';

call tenancy.protect_table('universe.source_connector', 'postern_universe', array['select', 'insert', 'update']);
