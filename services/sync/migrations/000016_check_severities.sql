-- The table is read once, while readers and writers go on.
alter table sync.run_error validate constraint run_error_severity_known;
