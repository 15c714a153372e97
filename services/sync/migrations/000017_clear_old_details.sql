-- What a platform does not keep of runs for ever: their errors, and the changes of those that were only looked at.
-- suits the running release: it writes none of it, and shows runs without it.

alter table sync.run add column details_cleared_at timestamptz;
comment on column sync.run.details_cleared_at is 'When its errors were removed, and its changes where none was ever to be applied.';
