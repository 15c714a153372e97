-- A source that the universe has nothing of yet is kept many rows to one, from when it is read to when its changes are listed. Each
-- row was staged, written once more as a change, read again to be sent, and deleted where it was staged.
--
-- suits the running release: it neither writes nor reads them. A run that one of its workers takes over before it is applied loses them,
-- and is planned anew. One that it takes over while it is applied ends without them, and the next run brings them. What a run has made
-- so it neither lists nor undoes.

create table sync.run_creation (
  tenant_id uuid not null,
  run_id uuid not null,
  first_row integer not null,
  last_row integer not null,
  rows integer[] not null,
  keys text[] not null,
  parents text[] not null,
  hashes bytea[] not null,
  contents text not null,
  constraint run_creation_pk primary key (tenant_id, run_id, first_row),
  constraint run_creation_run_fk foreign key (tenant_id, run_id) references sync.run (tenant_id, id),
  constraint run_creation_whole check (
    cardinality(rows) > 0 and rows[1] = first_row and rows[cardinality(rows)] = last_row
    and cardinality(rows) = cardinality(keys) and cardinality(rows) = cardinality(parents)
    and cardinality(rows) = cardinality(hashes)
  )
);
comment on table sync.run_creation is
  'Rows of a source that make something of which there is nothing yet, in their order, parents before their children: staged first, and the changes of the run then.';
comment on column sync.run_creation.contents is 'JSON of each row as the universe takes it, a line each.';
-- To compress what is read within seconds takes longer than to write it.
alter table sync.run_creation
  alter column rows set storage external,
  alter column keys set storage external,
  alter column parents set storage external,
  alter column hashes set storage external,
  alter column contents set storage external;
call tenancy.protect_table('sync.run_creation', 'postern_sync', array['select', 'insert', 'delete']);

-- Who takes a run over before it is applied reads its source anew, and what waits for approval has rows alone: blocks that are there
-- then are of a reading that nobody has planned. A worker of the release before does not remove them.
create function sync.forget_unplanned() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  delete from sync.run_creation b where b.tenant_id = new.tenant_id and b.run_id = new.id;
  return null;
end
$$;

create trigger run_forgets_unplanned after update of holder on sync.run
  for each row when (old.status <> 'applying') execute function sync.forget_unplanned();
