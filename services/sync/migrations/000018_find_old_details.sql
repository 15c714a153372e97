-- holds up writes: an index over the runs of connectors, of which a tenant has some a day. Readers go on.

-- Serves the search for runs that still have their errors and changes; a run leaves it for good.
create index run_with_details on sync.run (tenant_id, finished_at)
  where source = 'connector' and finished_at is not null and details_cleared_at is null;
