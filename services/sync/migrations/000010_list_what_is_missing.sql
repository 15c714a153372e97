-- Serves the list of what a connector's source has no longer. Rows that are there are not in it.
create index known_row_missing on sync.known_row (tenant_id, connector_id, scope, source_key)
  where missing_since is not null;
