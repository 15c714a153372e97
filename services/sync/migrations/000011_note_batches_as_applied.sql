-- What the universe has taken in is noted once a batch, and no longer in each change, which wrote all of its row again.

-- Changes are applied in the order of their seq. Those up to `last_seq`, and after the batch before, were taken in at `applied_at`,
-- but for those that have an error.
create table sync.applied_batch (
  tenant_id uuid not null,
  run_id uuid not null,
  last_seq integer not null,
  applied_at timestamptz not null default now(),
  constraint applied_batch_pk primary key (tenant_id, run_id, last_seq),
  constraint applied_batch_run_fk foreign key (tenant_id, run_id) references sync.run (tenant_id, id)
);
comment on table sync.applied_batch is 'Which changes of a run the universe has taken in, and when: all up to a seq.';
comment on column sync.run_change.applied_at is 'Of runs before there was applied_batch.';
call tenancy.protect_table('sync.applied_batch', 'postern_sync', array['select', 'insert']);

-- A change is not written again: its page need not have room for another state of it.
alter table sync.run_change reset (fillfactor);

-- Parts of an upload are read once, within seconds: to compress them takes longer than to write them.
alter table sync.upload_chunk alter column content set storage external;
