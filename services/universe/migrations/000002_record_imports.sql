-- How far the runs of connectors are applied, recorded in the transaction that applies them.

create table universe.import (
  tenant_id uuid not null,
  run_id uuid not null,
  attempt integer not null,
  applied_sequence integer not null,
  constraint import_pk primary key (tenant_id, run_id),
  constraint import_attempt_positive check (attempt > 0),
  constraint import_applied_sequence_not_negative check (applied_sequence >= 0)
);
comment on table universe.import is 'A run of a connector that has changed something. A batch of its changes locks the row until it is committed.';
comment on column universe.import.attempt is 'Batches of an earlier attempt at the run are rejected.';
comment on column universe.import.applied_sequence is 'The sequence of the last batch that was applied; 0 if none was.';

call tenancy.protect_table('universe.import', 'postern_universe', array['select', 'insert', 'update']);
