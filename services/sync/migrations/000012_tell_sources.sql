-- The universe is told, at the end of a run, which entities a connector brings and which its source has lost. What it was told is kept
-- beside what is so: where the two differ it is told, by whichever run comes first. So nobody who writes a row can forget that, not
-- a worker that dies, nor one of a release that knows nothing of it.
--
-- Nobody reads or writes known rows while this file is committed: it looks at none. The indexes are a file of their own.

alter table sync.known_row add column told_connector_id uuid, add column told_missing_since timestamptz;
comment on column sync.known_row.told_connector_id is
  'Of entities: the connector that brings it, as far as the universe was told; null: that is not known, and is told.';
comment on column sync.known_row.told_missing_since is 'Since when the source of that connector has it no longer, as it was told.';

alter table sync.connector add column telling integer not null default 0;
comment on column sync.connector.telling is
  'How often a worker has begun to tell the universe. By it the universe knows who comes too late. Not a change of the connector.';
