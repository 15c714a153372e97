-- holds up writes: two indexes over the known rows of entities, less than two seconds for each million of them. Readers go on.

-- What is to be told is little, and is found without a look at the rest. An entity that another connector brings too stays that one's
-- until it is missing there.
create index known_row_untold on sync.known_row (tenant_id, connector_id, source_key)
  where scope = 'auditable_entities' and case
    when told_connector_id is null then true
    when told_connector_id = connector_id then told_missing_since is distinct from missing_since
    else told_missing_since is not null and missing_since is null
  end;

-- What more than one connector brings: whose it is by what was told, and who brought it last.
create index known_row_shared on sync.known_row (tenant_id, told_connector_id, source_key)
  where scope = 'auditable_entities' and told_connector_id <> connector_id;
