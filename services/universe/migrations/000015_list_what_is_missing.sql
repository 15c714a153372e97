-- holds up writes: an index of rows that are missing from their sources, and none is so far; the table is read once. Readers go on.

-- Serves the list of what is missing, by reference.
create index entity_missing on universe.entity (tenant_id, number) where source_missing_since is not null;
