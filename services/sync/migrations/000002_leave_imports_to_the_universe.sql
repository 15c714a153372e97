-- The universe compares rows, and keeps what connectors bring and what their runs change. The tables stay for the release
-- before, which may run beside this one.

comment on table sync.staged_row is 'Unused. The next release drops it.';
comment on table sync.staged_block is 'Unused. The next release drops it.';
comment on table sync.run_creation is 'Unused. The next release drops it.';
comment on table sync.applied_batch is 'Unused. The next release drops it.';
comment on table sync.run_change is 'Unused. The next release drops it.';
comment on table sync.also_brought is 'Unused. The next release drops it.';
comment on table sync.known_row is 'Unused. The next release drops it.';
