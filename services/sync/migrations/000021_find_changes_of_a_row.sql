-- holds up writes: an index over the changes of runs, some seven seconds for each million of them. Where there are more than half a million it
-- is built concurrently before the release, as CHANGELOG.md says. Readers go on.

-- Serves the search for what later runs have made of a row: whether a run can be undone was read from all that they had changed.
create index if not exists run_change_by_row on sync.run_change (tenant_id, source_key, run_id);
