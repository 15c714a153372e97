-- Rows that are as they were are staged many to a row, and what the universe holds is kept beside what the source holds until
-- both are compared in one statement.

-- Rows of a source that look as they did when they were last taken in: their keys and hashes, a few thousand together.
create table sync.staged_block (
  tenant_id uuid not null,
  run_id uuid not null,
  first_row integer not null,
  rows integer[] not null,
  keys text[] not null,
  also text[] not null,
  hashes bytea[] not null,
  constraint staged_block_pk primary key (tenant_id, run_id, first_row),
  constraint staged_block_whole check (
    cardinality(rows) = cardinality(keys) and cardinality(rows) = cardinality(also)
    and cardinality(rows) = cardinality(hashes)
  )
);
comment on column sync.staged_block.also is
  'What else of a row is compared with other rows: of a tree the key of its parent, of people the address.';
-- Hashes do not compress, and keys are gone within seconds.
alter table sync.staged_block
  alter column rows set storage external,
  alter column keys set storage external,
  alter column also set storage external,
  alter column hashes set storage external;

-- How rows that a run may change stand in the universe. No content: as the source has them.
create table sync.staged_current (
  tenant_id uuid not null,
  run_id uuid not null,
  source_key text not null,
  content jsonb,
  constraint staged_current_pk primary key (tenant_id, run_id, source_key)
);

call tenancy.protect_table('sync.staged_block', 'postern_sync', array['select', 'insert', 'delete']);
call tenancy.protect_table('sync.staged_current', 'postern_sync', array['select', 'insert', 'delete']);

-- Staged rows are compared by hashing, the whole source at once: nothing looks for one of them.
drop index sync.staged_row_by_key;
drop index sync.staged_row_by_parent;

comment on column sync.known_row.hash is
  'Of what the source said of the row when it was taken in, and of how that is mapped. Null: somebody else has written it since, or how it stands is not known.';

-- INVARIANT: changes belong to a run, and known rows to a connector. Both are never deleted, and all rows of a statement are of
-- one of them: it is looked for once a statement, and not once a row, which of a large source was a third of the work.
create function sync.assert_owned() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  owned boolean;
begin
  if tg_table_name = 'run_change' then
    select not exists (
      select
      from (select distinct made.tenant_id, made.run_id from new_rows made) as one
      where not exists (select from sync.run r where r.tenant_id = one.tenant_id and r.id = one.run_id)
    ) into owned;
  else
    select not exists (
      select
      from (select distinct made.tenant_id, made.connector_id from new_rows made) as one
      where not exists (
        select from sync.connector c where c.tenant_id = one.tenant_id and c.id = one.connector_id
      )
    ) into owned;
  end if;
  if not owned then
    raise exception using
      errcode = 'foreign_key_violation', schema = 'sync', table = tg_table_name, constraint = tg_table_name || '_owned',
      message = 'the row belongs to nothing that there is';
  end if;
  return null;
end
$$;

create trigger run_change_owned_when_made after insert on sync.run_change
  referencing new table as new_rows
  for each statement execute function sync.assert_owned();
create trigger known_row_owned_when_made after insert on sync.known_row
  referencing new table as new_rows
  for each statement execute function sync.assert_owned();
create trigger known_row_owned_when_changed after update on sync.known_row
  referencing new table as new_rows
  for each statement execute function sync.assert_owned();

create function sync.keep_owners() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  raise exception using
    errcode = 'insufficient_privilege', schema = 'sync', table = tg_table_name, constraint = tg_table_name || '_kept',
    message = 'runs and connectors are never deleted, and keep their ids';
end
$$;

create trigger run_kept before delete or update of tenant_id, id on sync.run
  for each statement execute function sync.keep_owners();
create trigger connector_kept before delete or update of tenant_id, id on sync.connector
  for each statement execute function sync.keep_owners();

alter table sync.run_change drop constraint run_change_run_fk;
alter table sync.known_row drop constraint known_row_connector_fk;

-- Each change is marked once when it is applied: on its own page, so that no index is written again.
alter table sync.run_change set (fillfactor = 50);
